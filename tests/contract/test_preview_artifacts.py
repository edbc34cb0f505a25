"""Previews of what a pull request would do to artifacts: planned with what it wants, at the places that the base names.

The job has a token for reading, no key and no checkout.
"""

from __future__ import annotations

import json
import re
import shutil
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.approval.content import rules_of
from ci_automation.artifact.reference import Reference
from ci_automation.cli import run
from ci_automation.config.load import parse_config
from ci_automation.demo.samples import write_samples
from ci_automation.impact.change import Certainty, Hazard, fingerprint
from ci_automation.impact.overlay.builder import BuildFailed
from ci_automation.records.content import RecordedContent
from ci_automation.records.writer import RecordWriter
from ci_automation.registry import open_registry
from ci_automation.report.preview import MAX_COMMENT
from ci_automation.signing.signer import KeySigner
from tests.contract.hostile_registry import HostileRegistry, Reply
from tests.contract.previewed import NAME, event, reading
from tests.contract.publishing import publish_text
from tests.contract.test_action_hostile import HOSTILE, acting
from tests.contract.test_hand_edits import components, without_admin
from tests.fakes.forge import Forge
from tests.fakes.forge.objects import Leaf
from tests.fakes.runner import Runner
from tests.fakes.world import World, key_pem, signing_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ci_automation.impact.overlay.builder import Build
    from tests.fakes.forge.repository import Repository
    from tests.fakes.runner import Ran

CONFIG = ".github/flux-manifests.yaml"
OLD, PATCH, MINOR = "v2.98.5", "v2.98.8", "v2.99.4"
OVERLAY = {
    "kustomization.yaml": b"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
    b"resources:\n- flux-system/gotk-components.yaml\n",
    "limits.yaml": b"memory: 1Gi\n",
}
FOLDER = "clusters/production"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with releases, all of them old, and a registry whose channel has the first of them, signed."""
    folder = tmp_path_factory.mktemp("template")
    write_samples(folder / "releases")
    listed = json.loads((folder / "releases/releases.json").read_bytes())
    aged = [{**release, "published_at": "2020-01-01T00:00:00Z"} for release in listed]
    (folder / "releases/releases.json").write_text(json.dumps(aged))
    (folder / "cosign.key").write_bytes(key_pem())
    for name, data in OVERLAY.items():
        (folder / "overlay").mkdir(exist_ok=True)
        (folder / "overlay" / name).write_bytes(data)
    own = ["--releases", str(folder / "releases"), "--signing", "key", "--key", str(folder / "cosign.key")]
    own += ["--overlay", str(folder / "overlay")]
    assert run(["init", f"layout:{folder}/registry:production", "--flux-version", OLD, *own]) == 0
    return folder


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    shutil.copytree(template, tmp_path / "world")
    return tmp_path / "world"


@pytest.fixture
def forge() -> Iterator[Forge]:
    with Forge() as running:
        yield running


def config(folder: Path, artifact: str = "", more: str = "") -> bytes:
    return (
        f"version: 1\nupstream: {{verify: if-available}}\n{more}artifacts:\n- name: production\n"
        f"  url: layout:{folder}/registry:production\n  verify: {{publicKey: cosign.pub}}\n{artifact}"
    ).encode()


@pytest.fixture
def fleet(forge: Forge, folder: Path) -> Repository:
    files = {CONFIG: config(folder), "cosign.pub": signing_key().public.to_pem().encode()}
    files |= {f"{FOLDER}/{name}": data for name, data in OVERLAY.items()}
    made = forge.repository(NAME, files)
    forge.user("ada")
    made.collaborators["ada"] = "write"
    return made


@pytest.fixture
def runner(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    forge: Forge,
    fleet: Repository,
    folder: Path,
) -> Runner:
    return reading(Runner.starting(tmp_path, monkeypatch, capsys, folder / "releases"), forge, fleet)


def requested(runner: Runner, fleet: Repository, files: Mapping[str, bytes | None], **inputs: str) -> Ran:
    """Open a pull request that changes files, and run the preview of it."""
    fleet.push("change", files, "ada")
    runner.event("pull_request", event(fleet, fleet.open_pull("change", "ada").number))
    return runner.run(**{"command": "preview", "releases": "releases", **inputs})


def state(folder: Path) -> set[str]:
    return {str(path) for path in (folder / "registry").rglob("*")}


def test_a_policy_shows_the_steps_that_it_would_make(runner: Runner, fleet: Repository, folder: Path) -> None:
    before = state(folder)
    ran = requested(runner, fleet, {CONFIG: config(folder, "  policy: {minor: auto, escalate: []}\n")})
    assert ran.code == 0, ran
    assert "**production**: the next run would have" in ran.summary
    assert f"| production (v2.98.8 to {MINOR})" in ran.summary or f"| production ({OLD} to {MINOR})" in ran.summary
    assert re.search(r"\| to \| `sha256:[0-9a-f]{64}` \|", ran.summary)
    assert f"The request changes rules of flux-manifests: `{CONFIG}`" in ran.summary
    assert "- production: policy change; the verdicts here are those of the request's own rules" in ran.summary
    assert state(folder) == before


def test_a_configuration_of_another_name_has_rules_too(runner: Runner, fleet: Repository, folder: Path) -> None:
    other = "ops/flux.yaml"
    fleet.push("main", {CONFIG: None, other: config(folder)}, "ada")
    text = config(folder, "  policy: {minor: auto, escalate: []}\n")
    ran = requested(runner, fleet, {other: text}, config=other)
    assert ran.summary.index(f"The request changes the rules in {other}") < ran.summary.index("**production**")


def test_a_key_that_the_configuration_names_is_told_as_rules_are(runner: Runner, fleet: Repository) -> None:
    """The preview trusts the base's, so that nothing else on the page shows who signs after the merge."""
    shown = requested(runner, fleet, {"cosign.pub": signing_key("others").public.to_pem().encode()})
    assert shown.code == 0, shown
    first = shown.summary.partition("- **production**")[0]
    assert "The request changes cosign.pub, which the configuration names: look at that first." in first


def test_what_happens_without_the_request_is_not_listed(runner: Runner, fleet: Repository) -> None:
    ran = requested(runner, fleet, {"apps/app.yaml": b"a: 1\n"}, fail_on="approval")
    assert ran.code == 0, ran
    assert "**production**: the request changes nothing that the next run would do" in ran.summary
    assert MINOR not in ran.summary


@pytest.mark.parametrize(("limit", "code"), [("", 0), ("certain", 0), ("danger", 0), ("approval", 11)])
def test_a_flag_shows_the_content_step(runner: Runner, fleet: Repository, folder: Path, limit: str, code: int) -> None:
    ran = requested(runner, fleet, {CONFIG: config(folder, "  flags: {log-level: debug}\n")}, fail_on=limit)
    assert ran.code == code, ran
    assert "log-level (info -&gt; debug)" in ran.summary or "log-level (info -\\> debug)" in ran.summary
    assert "needs approval" in ran.summary


def test_an_overlay_shows_its_diff(runner: Runner, fleet: Repository, folder: Path) -> None:
    fleet.push("main", {CONFIG: config(folder, f"  overlay: {FOLDER}\n")}, "acme")
    changed = {f"{FOLDER}/limits.yaml": b"memory: 2Gi\n", f"{FOLDER}/new.sh": b"#!/bin/sh\n"}
    ran = requested(runner, fleet, changed)
    assert ran.code == 0, ran
    assert "-memory: 1Gi\n+memory: 2Gi" in ran.summary
    assert "`new.sh`" in ran.summary
    assert ran.summary.index("What can break") < ran.summary.index("-memory: 1Gi")


def test_edits_that_the_request_drops_show_what_comes_back(runner: Runner, fleet: Repository, folder: Path) -> None:
    channel = Reference.parse(f"layout:{folder}/registry:production")
    here = World(registry=open_registry(channel))  # type: ignore[arg-type]  # of the job
    edited = publish_text(here, without_admin(components(here, channel)), channel=channel)
    before = state(folder)
    allowed = f"  acceptEdits: [{{digest: '{edited}', until: 2999-01-31, reason: hardened}}]\n"
    ran = requested(runner, fleet, {CONFIG: config(folder, f"{allowed}  policy: {{patch: never, minor: never}}\n")})
    assert ran.code == 0, ran
    assert "`ClusterRoleBinding cluster-reconciler-flux-system` is new: it gives" in ran.summary
    assert "needs approval" in ran.summary
    assert state(folder) == before


def recorded(fleet: Repository, folder: Path) -> None:
    """Let a record say that the channel has the content of the default branch, under its present rules."""
    channel = Reference.parse(f"layout:{folder}/registry:production")
    registry, signer = open_registry(channel), KeySigner(signing_key())
    artifact = parse_config(fleet.read(CONFIG) or b"", CONFIG).artifacts[0]
    writer = RecordWriter(registry, channel, signer, None)
    manifest = registry.manifest(channel)
    record = writer.own.records(manifest.digest)[-1]
    entry = fleet.objects.entry(fleet.objects.commits[fleet.head].tree, FOLDER)
    assert entry is not None
    later = record.at + timedelta(seconds=1)
    content = RecordedContent("74", fleet.head, entry.sha, record.options, later, rules_of(artifact))
    writer.write(manifest, replace(record, at=later, content=content))


GIGABYTES = {f"{FOLDER}/limits.yaml": b"memory: 2Gi\n"}
CAN = "can approve this content, if a person presses merge (no auto-merge, queue or bot) or approves its last commit "
NOT = "does not approve this content: "
FORETOLD: dict[str, tuple[str, dict[str, bytes | str | None], str]] = {  # settings, request, and what is said
    "another person's merge": (
        "",
        {},
        f"{CAN}who may write, and wrote and pushed nothing of it. A run",
    ),
    "its author's merge too": (
        "approval: {ownMerge: true}",
        {},
        "wrote and pushed nothing of it, or its author presses merge. A run",
    ),
    "two reviews": (
        "approval: {approvals: 2, team: acme/platform}",
        {},
        "if 2 people approve its last commit, each of whom may write and is in the team acme/platform, and wrote",
    ),
    "one review": ("approval: {approvals: 1}", {}, "if a person approves its last commit who may write, and wrote"),
    "a pause": ("paused: true", {}, "A run judges that anew. It has to wait then: the artifact is paused"),
    "changed rules": ("", {CONFIG: "approval: {approvals: 1}"}, f"{NOT}the rules changed since"),
    "rules that have no name": ("", {CONFIG: "policy: {escalate: []}"}, f"{NOT}the rules of approvals, escalate,"),
    "another folder": ("", {CONFIG: "overlay: other", "other/limits.yaml": b"a: 1\n"}, f"{NOT}the rules of approvals"),
    "a file without lines": (
        "",
        {f"{FOLDER}/more.yaml": b"a: \0"},
        f"{NOT}pages do not show all lines of {FOLDER}/more",
    ),
    "more than a page shows": (
        "",
        {f"{FOLDER}/more.yaml": b"# " + b"a" * 400_000},
        f"{NOT}pages do not show changes of files with more than 400 kB",
    ),
    "a file from elsewhere": (
        "",
        {"examples/more.yaml": None, f"{FOLDER}/more.yaml": b"a: 1\n"},
        f"{NOT}its page shows not all lines of {FOLDER}: it moves files there, or changes 300 files or more",
    ),
    "hidden settings": (
        "",
        {".github/.gitattributes": b"* -diff\n"},
        f"{NOT}.github/.gitattributes gives {CONFIG} the",
    ),
    "a class that escalates": (
        "",
        {
            f"{FOLDER}/map.yaml": b"kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n",
            f"{FOLDER}/kustomization.yaml": OVERLAY["kustomization.yaml"] + b"- map.yaml\n",
        },
        f"{NOT}ConfigMap a is new",
    ),
}


@pytest.mark.parametrize("what", FORETOLD)
def test_the_page_begins_with_what_the_merge_will_mean(
    runner: Runner, fleet: Repository, folder: Path, what: str
) -> None:
    settings, changes, said = FORETOLD[what]
    own = f"  overlay: {FOLDER}\n" + (f"  {settings}\n" if settings else "")
    fleet.push("main", {CONFIG: config(folder, own), "examples/more.yaml": b"a: 1\n"}, "acme")
    recorded(fleet, folder)
    files = {
        path: it if it is None or isinstance(it, bytes) else config(folder, own + f"  {it}\n")
        for path, it in changes.items()
    }
    if CONFIG in changes and str(changes[CONFIG]).startswith("overlay"):
        files[CONFIG] = config(folder, "  overlay: other\n")
    ran = requested(runner, fleet, {**GIGABYTES, **files})
    assert ran.code == 0, ran
    lines = re.sub(r"\\(.)", r"\1", ran.summary).replace("&#39;", "'").splitlines()
    (line,) = (line for line in lines if line.startswith("- **production**: the merge "))
    assert said in line
    assert lines.index(line) == (6 if "**The request changes" in ran.summary else 4)


def test_a_preview_of_content_asks_github_three_times(
    runner: Runner, fleet: Repository, forge: Forge, folder: Path
) -> None:
    fleet.push("main", {CONFIG: config(folder, f"  overlay: {FOLDER}\n")}, "acme")
    recorded(fleet, folder)
    before = len(forge.requests)
    assert requested(runner, fleet, GIGABYTES).code == 0
    asked = [f"{request.method} {request.path}" for request in forge.requests[before:]]
    assert len(asked) == 3, asked  # the comparison; the configurations; all folders and files that they name


def test_the_first_content_and_requests_whose_merge_never_counts_are_asked_for_by_digest(
    runner: Runner, fleet: Repository, forge: Forge, folder: Path
) -> None:
    flags = {CONFIG: config(folder, "  flags: {log-level: debug}\n")}
    first = requested(runner, fleet, flags)
    assert f"{NOT}the configuration has no overlay for it; no record says which" in first.summary
    fleet.push("main", {CONFIG: config(folder, f"  overlay: {FOLDER}\n")}, "acme")
    fleet.push("first", GIGABYTES, "ada", onto=fleet.head)
    fleet.push("flux-manifests/production", GIGABYTES, "ada", onto=fleet.head)
    recorded(fleet, folder)
    fork = forge.fork(NAME, "mallory")
    fork.push("change", GIGABYTES, "mallory")
    fleet.push("other", {}, "acme", onto=fleet.head)
    rows = {
        fleet.open_pull("mallory:change", "mallory").number: f"{NOT}the request comes from a fork",
        fleet.open_pull("first", "ada", base="other").number: f"{NOT}it goes into other, which is not the default",
        fleet.open_pull("flux-manifests/production", "ada").number: f"{NOT}runs ask for digests alone on its branch",
        fleet.open_pull("first", "ada").number: "can approve this content",
    }
    for number, said in rows.items():
        runner.event("pull_request", event(fleet, number))
        assert said in runner.run(command="preview", releases="releases").summary
    fleet.push("main", {f"{FOLDER}/more.yaml": b"a: 1\n"}, "acme")
    runner.event("pull_request", event(fleet, number))
    ran = runner.run(command="preview", releases="releases")
    assert f"{NOT}the base has changed {FOLDER}/more.yaml since: update this request first" in ran.summary


def test_an_overlay_folder_that_hides_its_changes_is_not_planned(
    runner: Runner, fleet: Repository, folder: Path
) -> None:
    fleet.push("main", {CONFIG: config(folder, f"  overlay: {FOLDER}\n")}, "acme")
    fleet.push("change", {f"{FOLDER}/.gitattributes": b"*.yaml -diff\n"}, "ada")
    runner.event("pull_request", event(fleet, fleet.open_pull("change", "ada").number))
    ran = runner.run(command="preview", releases="releases", fail_on="approval")
    assert ran.code == 11
    assert "**production**: unknown: " in ran.summary


def linked(fleet: Repository, branch: str, path: str) -> None:
    """Commit a symbolic link to a file of the machine, as git allows it."""
    objects, commit = fleet.objects, fleet.objects.commits[fleet.branches.get(branch, fleet.head)]
    tree = objects.tree(objects.files(commit.tree) | {path: Leaf("120000", objects.blob(b"/etc/passwd"))})
    fleet.move(branch, objects.commit(tree, [commit.sha], commit.author, commit.author, "Link"), "acme")


def test_an_overlay_with_a_link_is_not_planned(runner: Runner, fleet: Repository, folder: Path) -> None:
    fleet.push("main", {CONFIG: config(folder, f"  overlay: {FOLDER}\n")}, "acme")
    linked(fleet, "change", f"{FOLDER}/passwd")
    runner.event("pull_request", event(fleet, fleet.open_pull("change", "ada").number))
    ran = runner.run(command="preview", releases="releases")
    assert "**production**: unknown: " in ran.summary
    assert "is a symbolic link or a submodule" in ran.summary


def test_links_among_the_manifests_of_the_base_are_not_followed(
    runner: Runner, fleet: Repository, folder: Path
) -> None:
    manifests = config(folder, "  clusters: {objects: [apps]}\n")
    fleet.push("main", {CONFIG: manifests, "apps/app.yaml": b"kind: ConfigMap\n"}, "acme")
    linked(fleet, "main", "apps/passwd.yaml")
    flags = config(folder, "  clusters: {objects: [apps]}\n  flags: {log-level: debug}\n")
    ran = requested(runner, fleet, {CONFIG: flags})
    assert ran.code == 0, ran
    assert "the next run would have 1 step because of the request" in ran.summary


@pytest.mark.parametrize("mark", ["pinImages: true, flags: {registry: HOST/fluxcd}", "flags: {registry: HOST/fluxcd}"])
def test_no_address_of_the_request_is_asked_and_each_is_told(
    runner: Runner, fleet: Repository, folder: Path, mark: str
) -> None:
    with HostileRegistry(lambda _: Reply(404, b"")) as canary:
        fields = (
            f"  trustConfig: http://{canary.host}/root.json\n  signing: {{mode: kms, key: 'hashivault://x'}}\n"
            f"  credentials: {{tokenHost: {canary.host}, pull: {{usernameVariable: A, passwordVariable: TOKEN}}}}\n"
            f"  clusters: {{objects: ['oci://{canary.host}/acme/apps:main']}}\n  announce: [mallory/fleet]\n"
            f"  consumers: [{{repository: mallory/apps}}]\n  approval: {{via: none}}\n"
        )
        fields += "".join(f"  {line}\n" for line in re.split(r", (?=flags)", mark.replace("HOST", canary.host)))
        more = f"source: github:mallory/flux2\napiUrl: http://{canary.host}/api\n"
        head = config(folder, fields, more).decode()
        head = head.replace("upstream: {verify: if-available}", f"upstream: {{manifests: 'oci://{canary.host}/m/f:x'}}")
        head = head.replace(f"layout:{folder}/registry", f"oci://{canary.host}/acme/flux").replace(
            "cosign.pub", "evil.pub"
        )
        extra = f"- {{name: added, url: 'oci://{canary.host}/acme/added:x'}}\n"
        ran = requested(runner, fleet, {CONFIG: (head + extra).encode(), "evil.pub": b"x"})
        assert canary.asked == []
        assert canary.connections == 0
    assert ran.code == 0, ran
    remark = "; the preview asks and trusts what the base commit names\n"
    keys = "clusters, approval, signing, verify, credentials, trustConfig, url, consumers, announce"
    assert f"- the configuration: source, upstream change{remark}" in ran.summary
    assert f"- production: {keys} change{remark}" in ran.summary
    assert "- production: the registry of the images changes; none is looked up there" in ran.summary
    assert "- added is new: its address is not asked before the request is merged\n" in ran.summary
    assert "the options change: registry (ghcr.io/fluxcd" in ran.summary


def test_without_a_trusted_signer_the_page_says_that_nothing_was_verified(
    runner: Runner, fleet: Repository, folder: Path
) -> None:
    nobody = config(folder).replace(b"  verify: {publicKey: cosign.pub}\n", b"")
    fleet.push("main", {CONFIG: nobody}, "acme")
    ran = requested(runner, fleet, {CONFIG: nobody + b"  flags: {log-level: debug}\n"})
    assert ran.code == 0, ran
    assert "  - nothing was verified: " in ran.summary
    assert "the options change: log-level" in ran.summary


def test_a_base_that_nobody_trusted_signed_is_not_planned(runner: Runner, fleet: Repository, folder: Path) -> None:
    fleet.push("main", {"cosign.pub": signing_key("mallory").public.to_pem().encode()}, "acme")
    changed = {
        CONFIG: config(folder, "  flags: {log-level: debug}\n"),
        "cosign.pub": signing_key().public.to_pem().encode(),
    }
    ran = requested(runner, fleet, changed, fail_on="approval")
    assert ran.code == 11, ran
    assert "**production**: unknown: " in ran.summary


class Lists:
    """A kustomize that builds the components, whatever patches there are."""

    def builds(self, wanted: Sequence[Build]) -> tuple[str, ...]:
        return tuple(tree["flux-system/gotk-components.yaml"].decode() for tree, _ in wanted)


DEAD = "  sync: {kustomization: {patches: [{target: {kind: Deployment, name: typo}, patch: '[]'}]}}\n"
DEAD_TOLD = "the patch of Deployment typo in \\`sync.kustomization\\` matches nothing"


def test_a_dead_patch_of_the_clusters_is_told_with_the_steps(
    runner: Runner, fleet: Repository, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci_automation.flows.programs.kustomize.find_kustomize", lambda _: Lists())
    ran = requested(runner, fleet, {CONFIG: config(folder, DEAD)})
    assert ran.code == 0, ran
    assert f"- advice, overlay, auto: {DEAD_TOLD}" in ran.summary
    assert "remove patches\\[0\\], or name what it is meant for" in ran.summary
    assert "sync changes; the preview asks" not in ran.summary


def test_a_dead_patch_of_the_clusters_is_told_without_steps_and_of_a_promoted_channel(
    runner: Runner, fleet: Repository, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci_automation.flows.programs.kustomize.find_kustomize", lambda _: Lists())
    channel = Reference.parse(f"layout:{folder}/registry:production")
    registry = open_registry(channel)
    registry.put_manifest(channel.at_tag("edge"), registry.manifest(channel))
    last = f"  policy: {{range: '{OLD}'}}\n"
    edge, new = (
        f"- name: {name}\n  url: layout:{folder}/registry:{name}\n  verify: {{publicKey: cosign.pub}}\n"
        "  promote: {from: production}\n"
        for name in ("edge", "new")
    )
    fleet.push("main", {CONFIG: config(folder, f"{last}{edge}{new}")}, "ada")
    ran = requested(runner, fleet, {CONFIG: config(folder, f"{last}{DEAD}{edge}{DEAD}{new}{DEAD}")}, fail_on="danger")
    assert ran.code == 0, ran
    same = "the request changes nothing that the next run would do"
    for name in ("production", "edge"):
        assert f"- **{name}**: {same}\n  - {DEAD_TOLD}\n" in ran.summary
    assert f"- **new**: {same}\n  - it has nothing yet: its first digest is shown with them" in ran.summary


class Lost:
    """A kustomize that builds the components, and nothing with a patch that it has no object for."""

    def builds(self, wanted: Sequence[Build]) -> tuple[str | BuildFailed, ...]:
        return tuple(
            BuildFailed("no such object")
            if any(b"name: lost" in it.content for it in tree.files)
            else tree["flux-system/gotk-components.yaml"].decode()
            for tree, _ in wanted
        )


BROKEN = (
    "  sync: {kustomization: {patches: [{patch: '{apiVersion: apps/v1, kind: Deployment, metadata: {name: lost}}'}]}}\n"
)
AT_WHICH = Hazard("overlay", Certainty.CERTAIN, f"sync.kustomization {fingerprint('no such object')}", "").fingerprint
ACCEPTED = f"  acknowledge: [{{fingerprint: '{AT_WHICH}', until: 2999-01-01, reason: a test}}]\n"
SLOWER = BROKEN.replace("kustomization: {", "kustomization: {timeout: 3m, ")


@pytest.mark.parametrize("of", ["production", "edge"])
@pytest.mark.parametrize(
    ("sides", "code"),
    [(("", BROKEN), 11), (("", BROKEN + ACCEPTED), 0), ((BROKEN, SLOWER), 0)],
    ids=["new", "accepted", "known"],
)
def test_a_preview_fails_on_what_clusters_cannot_build_by_the_request_without_a_step(
    runner: Runner,
    fleet: Repository,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    of: str,
    sides: tuple[str, str],
    code: int,
) -> None:
    monkeypatch.setattr("ci_automation.flows.programs.kustomize.find_kustomize", lambda _: Lost())
    channel = Reference.parse(f"layout:{folder}/registry:production")
    registry = open_registry(channel)
    registry.put_manifest(channel.at_tag("edge"), registry.manifest(channel))
    edge = (
        f"- name: edge\n  url: layout:{folder}/registry:edge\n  verify: {{publicKey: cosign.pub}}\n"
        "  promote: {from: production}\n"
    )

    def written(more: str) -> bytes:
        last = f"  policy: {{range: '{OLD}'}}\n"
        return config(folder, f"{last}{more}{edge}" if of == "production" else f"{last}{edge}{more}")

    fleet.push("main", {CONFIG: written(sides[0])}, "ada")
    ran = requested(runner, fleet, {CONFIG: written(sides[1])}, fail_on="certain")
    assert ran.code == code, ran
    told = "no cluster can build the artifact with the patches and images of \\`sync.kustomization\\`: no such object"
    assert f"- **{of}**: the request changes nothing that the next run would do\n  - {told}" in ran.summary


def test_a_promoted_channel_whose_key_cannot_be_read_keeps_no_other_from_its_preview(
    runner: Runner, fleet: Repository, folder: Path
) -> None:
    edge = f"- name: edge\n  url: layout:{folder}/registry:edge\n  verify: {{publicKey: gone.pub}}\n"
    edge += "  promote: {from: production}\n"
    fleet.push("main", {CONFIG: config(folder, edge)}, "ada")
    ran = requested(runner, fleet, {CONFIG: config(folder, f"  policy: {{minor: auto, escalate: []}}\n{edge}{DEAD}")})
    assert "- **edge**: unknown: " in ran.summary
    assert "gone.pub" in ran.summary
    assert "- **production**: " in ran.summary


def test_an_artifact_that_is_taken_out_is_told(runner: Runner, fleet: Repository, folder: Path) -> None:
    other = f"- {{name: other, url: 'layout:{folder}/registry:other'}}\n".encode()
    fleet.push("main", {CONFIG: config(folder) + other}, "acme")
    ran = requested(runner, fleet, {CONFIG: config(folder)})
    assert "other is taken out: no run would publish it any more" in ran.summary


def test_a_configuration_that_cannot_be_used_is_told_at_its_line(
    runner: Runner, fleet: Repository, folder: Path
) -> None:
    ran = requested(runner, fleet, {CONFIG: config(folder, "  polcy: {}\n")})
    assert ran.code == 2
    (error,) = [each for each in ran.commands if each.name == "error"]
    assert (error.properties["file"], error.properties["line"]) == (CONFIG, "7")


@pytest.mark.parametrize("base", [True, False])
def test_without_a_configuration_there_is_nothing_to_preview(
    runner: Runner, fleet: Repository, folder: Path, *, base: bool
) -> None:
    if not base:
        fleet.push("main", {CONFIG: None}, "acme")
    ran = requested(runner, fleet, {CONFIG: None if base else config(folder)})
    assert ran.code == 0, ran
    assert "There is no configuration to preview" in ran.summary


def test_a_request_that_is_behind_says_so(runner: Runner, fleet: Repository, folder: Path) -> None:
    fleet.push("change", {CONFIG: config(folder, "  flags: {log-level: debug}\n")}, "ada")
    fleet.push("main", {CONFIG: config(folder, "  policy: {minor: never}\n")}, "acme")
    runner.event("pull_request", event(fleet, fleet.open_pull("change", "ada").number))
    ran = runner.run(command="preview", releases="releases")
    assert f"The base has changed {CONFIG} since: update this request first." in ran.summary


def test_text_of_an_overlay_does_nothing_on_the_page(runner: Runner, fleet: Repository, folder: Path) -> None:
    fleet.push("main", {CONFIG: config(folder, f"  overlay: {FOLDER}\n")}, "acme")
    changed = {f"{FOLDER}/limits.yaml": HOSTILE.encode() * 20, f"{FOLDER}/@mallory fixes #4711 `<img>.yaml": b"\xff\n"}
    ran = requested(runner, fleet, changed)
    assert ran.code == 0, ran
    assert "mallory" in ran.summary
    assert acting(ran.summary) == []
    assert len(ran.outputs["preview"]) <= MAX_COMMENT
    assert not {"set-output", "error"} & {each.name for each in ran.commands}


def test_the_releases_of_github_are_those_of_the_base(runner: Runner, fleet: Repository, forge: Forge) -> None:
    ran = requested(runner, fleet, {"apps/app.yaml": b"a: 1\n"})
    assert ran.code == 0
    assert all(request.method == "GET" or request.path == "/graphql" for request in forge.requests)
