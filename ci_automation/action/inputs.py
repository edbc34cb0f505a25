"""The action's inputs and outputs: the one list, from which `action.yml`, the options and the reference are made.

An input arrives as text in `INPUT_<NAME>`, upper-cased, hyphens and all, and empty where it is not given.
"""

from __future__ import annotations

import enum

from msgspec import Struct


class Kind(enum.Enum):
    """What the text of an input is."""

    TEXT = "one line"
    LIST = "one value per line"
    SECRET = "a secret"  # noqa: S105  # a kind of input, and none of them
    SWITCH = "true or false"
    NUMBER = "a whole number"


class Input(Struct, frozen=True):
    """One input; `expression` is what the runner fills in by default, beyond what a program can."""

    name: str
    description: str
    default: str = ""
    kind: Kind = Kind.TEXT
    choices: tuple[str, ...] = ()
    expression: str = ""
    required: bool = False

    @property
    def variable(self) -> str:
        """Return the variable in which the runner hands it over (actions/runner, `ContainerActionHandler.cs`)."""
        return f"INPUT_{self.name.upper()}"

    @property
    def parameter(self) -> str:
        """Return its name in the code."""
        return self.name.replace("-", "_")


class Output(Struct, frozen=True):
    """One output."""

    name: str
    description: str


COMMANDS = ("update", "apply", "approve", "promote", "consumers", "watch", "matrix")

INPUTS = (
    Input(
        "command",
        "What to do: update publishes what the policy allows and asks for the rest; apply takes up merged approvals; "
        "approve publishes what a run that waited in a protected environment names; promote moves channels to the "
        "digests of others, as the configuration says; consumers opens pull requests in "
        "repositories that pin the artifact; watch looks whether the schedule still runs; matrix lists the artifacts",
        default="update",
        choices=COMMANDS,
    ),
    Input(
        "artifact",
        "The channel, such as oci://ghcr.io/acme/flux-manifests:production, or the name of an artifact in the "
        "configuration. Without it: all that the configuration has",
    ),
    Input("config", "The configuration file. By default .github/flux-manifests.yaml, if it is there"),
    Input(
        "registry-username",
        "The user of the artifact's registry. For ghcr.io the default is the actor, with the github-token",
    ),
    Input(
        "registry-password",
        "The password or token of that user. The runner's own docker login cannot be seen from a container action",
        kind=Kind.SECRET,
    ),
    Input(
        "docker-config",
        "The text of a docker config.json, for several registries, or for an identity token",
        kind=Kind.SECRET,
    ),
    Input(
        "provider",
        "Log in to the registry of a cloud: ECR, ACR or Artifact Registry, with the job's identity token or the "
        "credentials in its environment",
        choices=("aws", "azure", "gcp"),
    ),
    Input(
        "github-token",
        "The token for the repository that this runs in. It goes to this GitHub's API alone, and to ghcr.io where "
        "nothing else is said",
        kind=Kind.SECRET,
        expression="${{ github.token }}",
    ),
    Input("app-id", "The id of a GitHub App that acts instead of the github-token", kind=Kind.NUMBER),
    Input("app-private-key", "The private key of that App, as PEM", kind=Kind.SECRET),
    Input(
        "approval",
        "How approvals are asked for, where the configuration does not say",
        default="pull-request",
        choices=("pull-request", "workflow-dispatch", "repository-dispatch", "none"),
    ),
    Input(
        "signing",
        "How to sign: keyless, key, kms, or unsafe-unsigned. By default with the key if there is one, else keyless",
        choices=("keyless", "key", "kms", "unsafe-unsigned"),
    ),
    Input(
        "key",
        "The private key: env://NAME for a variable of the step, a file, or awskms://, gcpkms://, azurekms://, "
        "hashivault://. Its password is in the variable COSIGN_PASSWORD",
    ),
    Input(
        "signature-format",
        "legacy is read by every Flux, bundle only from 2.8.6 on. By default legacy",
        choices=("legacy", "both", "bundle"),
    ),
    Input("attestations", "Attach provenance and a list of the controllers (SBOM)", default="false", kind=Kind.SWITCH),
    Input(
        "accept-shared-subject",
        "Sign keyless in a called workflow, as a subject that every caller of that workflow shares",
        default="false",
        kind=Kind.SWITCH,
    ),
    Input(
        "accept-identity-change",
        "Sign as somebody else than the one who is trusted, for one run",
        default="false",
        kind=Kind.SWITCH,
    ),
    Input("public-key", "Trust what these keys signed; files or env://NAME, one per line", kind=Kind.LIST),
    Input("identity", "Trust exactly these subjects of keyless signatures, one per line", kind=Kind.LIST),
    Input(
        "identity-regexp",
        "Trust the subjects that match (RE2), one per line: ^ first, $ last",
        kind=Kind.LIST,
    ),
    Input("issuer", "Who vouches for the identity, such as https://token.actions.githubusercontent.com"),
    Input("trust-config", "The file of your own Sigstore instance: client trust config, or trusted_root.json"),
    Input(
        "adopt",
        "The digest of an artifact that nobody who is trusted has signed: trust exactly it, and sign it. The log "
        "shows what is in it",
    ),
    Input("components-file", "The components file in the artifact; found by itself if there is one"),
    Input("releases", "A folder with releases, in place of GitHub"),
    Input("base", "For approve: the digest that the approved step begins at"),
    Input("target", "For approve: the digest that was approved"),
    Input("version", "For approve: the version of Flux that was approved"),
    Input("request-key", "For approve: the key in the title of the run, which must be that of what was approved"),
    Input(
        "workflow",
        "For watch: the file name of the workflow that must have succeeded, such as flux.yaml",
    ),
    Input("max-age-days", "For watch: how many days may pass without a success", default="7", kind=Kind.NUMBER),
    Input(
        "exit-code",
        "End with 3 if something waits for approval, with 11 if policy refuses all that could be taken",
        default="false",
        kind=Kind.SWITCH,
    ),
    Input("verbose", "Show the details of an internal error", default="false", kind=Kind.SWITCH),
)

OUTPUTS = (
    Output("changed", "true if the channel moved in this run; with several artifacts, if any did"),
    Output(
        "decision",
        "Of what was published last: auto or approval. If nothing was, refused where policy refuses all that could be "
        "taken, and otherwise empty",
    ),
    Output("reasons", "Why that was decided, one reason per line"),
    Output("current-version", "The version of Flux that the channel had before this run"),
    Output("target-version", "The version that it has after this run"),
    Output("base-digest", "The digest that the channel had before this run"),
    Output("digest", "The digest that it has after this run"),
    Output("digest-url", "That digest with its repository, as cosign and docker take it"),
    Output("immutable-tag", "The tag that will always be that digest; empty if nothing was published"),
    Output("signed", "true if that digest has a signature that was verified in this run"),
    Output("healed", "true if a signature that was lost was written again"),
    Output("approval-url", "Where a person can approve what waits"),
    Output("pending-version", "The version that waits for approval, or for a date, or is refused"),
    Output("pending-base-digest", "The digest that the waiting step begins at"),
    Output("pending-digest", "The digest that the waiting step leads to: what an approval counts for"),
    Output("pending-decision", "approval, hold or refused; empty if nothing waits"),
    Output("pending-reasons", "Why it waits, one reason per line"),
    Output("plan", "The whole plan as JSON"),
    Output("plan-file", "The file with the plan, relative to the workspace, for later steps"),
    Output("artifacts", "All of these for each artifact, as a JSON list, with its name, address and error"),
    Output("matrix", "For matrix: the configured artifacts as a JSON list of {name, artifact}, the address"),
)

# These are of all artifacts together; the others are empty where there are several.
OF_ALL = frozenset({"changed", "artifacts", "matrix"})
