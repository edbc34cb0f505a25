"""Configuration files that several tests read."""

FULL = """\
version: 1
source: github:acme/flux2
apiUrl: https://github.example.com/api/v3/
upstream: {verify: if-available, trustConfig: upstream.json, manifests: "oci://mirror.example/flux-manifests:latest"}
defaults:
  policy:
    patch: auto
    minor: auto
    major: approval
    range: ">=2.0.0 <4.0.0"
    prereleases: true
    minReleaseAge: {patch: 12h, minor: 3d, major: 30d}
    minorStep: next
    freeze: [{cron: "0 0 20 12 *", for: 336h, timeZone: Europe/Berlin, reason: year end}]
  approval:
    via: pull-request
    approvals: 2
    team: acme/platform
    reviewers: [alice]
    teamReviewers: [platform]
    labels: ["area: flux"]
    assignees: [bob]
    draft: false
    autoMerge: true
    ownMerge: true
    environment: production
    workflow: allow.yml
  signing: {mode: key, key: env://COSIGN_KEY, format: both}
  verify: {publicKey: [cosign.pub, env://OLD_KEY]}
  trustConfig: sigstore.json
  attestations: true
  credentials:
    pull: {usernameVariable: PULL_USER, passwordVariable: PULL_PASSWORD}
    push: {usernameVariable: PUSH_USER, passwordVariable: PUSH_PASSWORD}
    tokenHost: auth.example:8443
artifacts:
  - name: production
    url: oci://ghcr.io/acme/flux-manifests:production
    componentsFile: flux-system/gotk-components.yaml
    overlay: clusters/production/
    paused: true
    versionTags: true
    group: eu
    consumers: [{repository: acme/fleet, paths: [clusters]}, {repository: acme/edge}]
    announce: [acme/dashboards]
    minimumFlux: 2.6.4
    sync:
      name: own
      namespace: flux
      labels: {team: platform}
      annotations: {note: "1"}
      source: {secretRef: {name: pull}}
      kustomization: {wait: true}
      fleet: {url: "oci://ghcr.io/acme/fleet:production", path: ./clusters, name: apps, unsafeUnsigned: true}
  - name: edge
    url: oci://registry.edge.example/flux/manifests:stable
    flags: {components: [source-controller], registry: registry.edge.example/fluxcd, network-policy: false}
    policy: {patch: approval, minReleaseAge: {patch: 0s}, freeze: []}
    signing: {key: edge.key, format: legacy}
    attestations: false
    credentials: {push: {usernameVariable: EDGE_USER, passwordVariable: EDGE_PASSWORD}}
"""
MINIMAL = "version: 1\nartifacts: [{name: a, url: 'oci://r.example/a:b'}]\n"
