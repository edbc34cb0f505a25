"""The one table of options: those of the command line, the inputs of the action, and what printed commands repeat.

The command line, `action.yml`, the reference of inputs and the commands that are printed for later are made from it.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple


class Kind(enum.Enum):
    """Type of an option's value."""

    TEXT = "one line"
    LIST = "several values"
    SECRET = "a secret"  # noqa: S105  # a kind of value, and none of them
    SWITCH = "true or false"
    EITHER = "true, false, or as it is configured"
    NUMBER = "a whole number"
    PAGE = "Markdown"


class Repeat(enum.Enum):
    """In which of the commands that are printed for later an option is repeated."""

    EACH = "in each"
    EACH_UNTIL_PUBLISHED = "in each, unless something was published in this run"
    TRUST = "in those that verify"
    SIGN = "in those that sign"


class Heading(enum.Enum):
    """The part of a command's help that an option is in; the parts are in this order."""

    OWN = "Options"
    SIGNING = "Signing"
    TRUST = "Trust"
    CONTENT = "Content"
    ALLOWANCES = "Allowances"
    CLUSTERS = "Clusters"
    PLACES = "Files and registries"
    OUTPUT = "Output"
    FLUX_INSTALL = "Flags of flux install"


class Option(NamedTuple):
    """One option; `help` is for the command line, `input` for the action: without one of them it is not there."""

    name: str
    help: str = ""
    metavar: str | None = None
    kind: Kind = Kind.TEXT
    choices: tuple[str, ...] = ()
    of_readers: str = ""  # the help in commands that do not sign, where it differs
    variable: str | None = None  # of the environment, for the command line
    input: str = ""
    default: str = ""  # of the input
    expression: str = ""  # what the runner fills in by default, beyond what a program can
    repeat: Repeat | None = None
    heading: Heading = Heading.OWN

    @property
    def parameter(self) -> str:
        """Return its name in the code."""
        return self.name.replace("-", "_")

    @property
    def input_variable(self) -> str:
        """Return the variable in which the runner hands it over (actions/runner, `ContainerActionHandler.cs`)."""
        return f"INPUT_{self.name.upper()}"


_PUBLISHING = ("update", "apply", "approve", "promote", "review", "show", "do")
ACTION_NAMES = (*_PUBLISHING, "consumers", "watch", "doctor", "matrix", "preview", "comment")
OPERATION_NAMES = ("init", "adopt", "rollback", "lift-hold", "promote")


def _both(name: str, said: str, metavar: str | None = None, kind: Kind = Kind.TEXT, **others: Any) -> Option:
    """Return an option of which the command line and the action say the same."""
    each, all_of_them = ("; repeatable", "; one per line") if kind is Kind.LIST else ("", "")
    told = said[0].upper() + said[1:] + all_of_them
    return Option(name, said + each, metavar, kind, input=told, **others)


_TABLE = {
    (Heading.OWN, None): (
        Option(
            "command",
            input="What to do: update publishes and promotes what the policy allows and asks for approval of the rest; "
            "apply publishes merged approvals; approve publishes the step that reviewers approved in a protected "
            "environment, and review shows it to them before; promote is update for promoted channels alone; show says "
            "what an operation would do, do does it once reviewers approved the run; consumers opens pull requests in "
            "repositories that pin the artifact; watch checks that the schedule still runs; doctor looks for what "
            "keeps runs from their work; matrix lists the artifacts; preview shows what a pull request changes and can "
            "break; comment keeps that page as a comment on the request",
            default="update",
            choices=ACTION_NAMES,
        ),
        Option(
            "artifact",
            input="The channel, such as oci://ghcr.io/acme/flux-manifests:production, or the name of an artifact in "
            "the configuration. Without it: all artifacts of the configuration",
        ),
        Option(
            "registry-username",
            input="The user of the artifact's registry. For ghcr.io the default is the actor, with the github-token",
        ),
        Option(
            "registry-password",
            input="The password or token of that user. A container action does not see the runner's docker login",
            kind=Kind.SECRET,
        ),
        Option(
            "docker-config",
            input="The text of a docker config.json, for several registries, or for an identity token",
            kind=Kind.SECRET,
        ),
        Option(
            "provider",
            input="Log in to the registry of a cloud: ECR, ACR or Artifact Registry, with the job's identity token or "
            "the credentials in its environment",
            choices=("aws", "azure", "gcp"),
        ),
        Option(
            "github-token",
            input="The token for the repository of the workflow. It goes only to this GitHub's API, and to ghcr.io if "
            "no other login is given",
            kind=Kind.SECRET,
            expression="${{ github.token }}",
        ),
        Option("app-id", input="The id of a GitHub App that acts instead of the github-token", kind=Kind.NUMBER),
        Option("app-private-key", input="The private key of that App, as PEM", kind=Kind.SECRET),
        Option(
            "approval",
            input="How to ask for approvals, if the configuration does not say",
            default="pull-request",
            choices=("pull-request", "workflow-dispatch", "repository-dispatch", "none"),
        ),
        Option(
            "accept-shared-subject",
            input="Sign keyless in a called workflow, as a subject that every caller of that workflow shares",
            kind=Kind.SWITCH,
        ),
        Option(  # of the action, which cannot ask: the digest names what a person adopts
            "adopt",
            input="The digest of an artifact without a trusted signature: trust exactly this digest, and sign it. The "
            "log shows its content",
        ),
        Option("base", input="For review and approve: the base digest of the step"),
        Option("target", input="For review and approve: the digest that the step leads to"),
        Option("version", input="For review and approve: the version of Flux that it brings"),
        Option(
            "request-key",
            input="For review and approve: the key in the title of the run, which must be that of the step",
        ),
        Option("operation", input="For show and do: what a person started by dispatch", choices=OPERATION_NAMES),
        Option(
            "to", input="For show and do: a version, an immutable tag or a digest; for lift-hold the digest of a hold"
        ),
        Option("reason", input="For show and do: why, in one line of at most 200 characters; a hold keeps it"),
        Option("code", input="For show and do: the code that an earlier run showed, by which you approve exactly that"),
        Option("shown", input="For do and approve: the output shown of the job that ran show or review"),
        Option(
            "workflow", input="For watch: the file name of the workflow that must have succeeded, such as flux.yaml"
        ),
        Option(
            "max-age-days", input="For watch: how many days may pass without a success", default="7", kind=Kind.NUMBER
        ),
        Option("path", input="For preview: review components files of these patterns, not artifacts", kind=Kind.LIST),
        Option("text", input="For comment: the output preview of the job that ran it", kind=Kind.PAGE),
        Option(
            "fail-on",
            input="For preview: exit with 11 if something will break (certain), or a change is dangerous (danger), or "
            "the policy would ask for an approval (approval); each includes those before it",
            choices=("certain", "danger", "approval"),
        ),
    ),
    (Heading.PLACES, Repeat.EACH): (
        Option(
            "config",
            "configuration; default: .github/flux-manifests.yaml, here or above in the clone",
            "FILE",
            input="The configuration file. By default .github/flux-manifests.yaml, if it is there",
        ),
        Option("registry-config", "docker's config.json with the registries' credentials", "FILE"),
        Option(
            "releases",
            "folder with releases, or a repository of a registry; default: GitHub ($FLUX_RELEASES)",
            "DIR|oci://...",
            variable="FLUX_RELEASES",
            input="A folder with releases, or oci://HOST/REPOSITORY as `mirror --push` fills it, instead of GitHub",
        ),
    ),
    (Heading.SIGNING, None): (
        _both(
            "signing",
            "how to sign; default: with the key if there is one, else keyless in GitHub Actions",
            choices=("keyless", "key", "kms", "unsafe-unsigned"),
        ),
        Option(
            "key",
            "private key: a file (password in $COSIGN_PASSWORD), env://NAME, or awskms:// gcpkms:// azurekms:// "
            "hashivault://",
            "KEY",
            of_readers="the signing key; the command uses only its public half",
            input="The private key: env://NAME for a variable of the step, a file, or awskms://, gcpkms://, "
            "azurekms://, hashivault://. Its password is in the variable COSIGN_PASSWORD",
        ),
        _both(
            "accept-identity-change",
            "sign with another key or identity than the trusted one, for one run",
            kind=Kind.SWITCH,
        ),
    ),
    (Heading.SIGNING, Repeat.SIGN): (
        _both(
            "signature-format",
            "every Flux reads legacy, only 2.8.6 and later read bundle; default: legacy",
            choices=("legacy", "both", "bundle"),
        ),
        _both("attestations", "attach provenance and a list of the controllers (SBOM), signed", kind=Kind.SWITCH),
    ),
    (Heading.TRUST, Repeat.TRUST): (
        Option(
            "public-key",
            "trust signatures of this key; repeatable; default: the public half of the signing key",
            "FILE",
            Kind.LIST,
            input="Trust signatures of these keys; files or env://NAME, one per line",
        ),
        _both("identity", "trust exactly this subject of a keyless signature", "SUBJECT", Kind.LIST),
        _both("identity-regexp", "trust subjects that match this RE2: ^ first, $ last", "RE2", Kind.LIST),
        _both("issuer", "the issuer of the identity, such as https://token.actions.githubusercontent.com", "URL"),
        _both("trust-config", "your own Sigstore instance: client trust config, or trusted_root.json", "FILE"),
    ),
    (Heading.CONTENT, Repeat.EACH): (
        Option("overlay", "replace the overlay by the files of this folder; needs approval", "DIR"),
        _both(
            "components-file", "the components file in the artifact; found automatically if there is only one", "PATH"
        ),
        Option("pin-images", "add digests to the controllers' images, or remove them", kind=Kind.EITHER),
    ),
    (Heading.CLUSTERS, Repeat.EACH): (
        Option(
            "cluster-snapshot",
            "output of `kubectl get crd -o json` of a cluster, a file or an artifact; repeatable",
            "FILE",
            Kind.LIST,
        ),
        Option(
            "objects",
            "the clusters' manifests, to look for removed API versions: file, folder or artifact; repeatable",
            "PATH",
            Kind.LIST,
        ),
        Option("kubernetes", "the clusters' Kubernetes, such as 1.34, or 1.34-1.36", "RANGE"),
    ),
    # What was published in this run is signed and unedited: nothing is left to adopt or to accept.
    (Heading.ALLOWANCES, Repeat.EACH_UNTIL_PUBLISHED): (
        Option("adopt", "trust the present artifact once: show every file of it, and ask", kind=Kind.SWITCH),
        Option("accept-edits", "drop hand edits of the components file", kind=Kind.SWITCH),
    ),
    (Heading.ALLOWANCES, Repeat.EACH): (
        Option(
            "allow-removal",
            "allow the removal of controllers and CRDs; pruning a CRD deletes its objects",
            kind=Kind.SWITCH,
        ),
        Option("unsafe-unproven-rendering", "publish a release without a proven rendering", kind=Kind.SWITCH),
    ),
    (Heading.ALLOWANCES, None): (
        Option("yes", "adopt without asking, for jobs", kind=Kind.SWITCH),
        Option("acknowledge", "accept what breaks, once; may be repeated", "FINGERPRINT", Kind.LIST),
    ),
    (Heading.OUTPUT, None): (
        Option("output", "for people or programs", choices=("text", "json")),
        _both(
            "exit-code",
            "exit with 3 if a step needs approval, with 11 if policy refuses every possible step",
            kind=Kind.SWITCH,
        ),
        Option(
            "verbose",
            "report each action; list each change and gate",
            kind=Kind.SWITCH,
            input="Show the details of an internal error",
        ),
    ),
}
OPTIONS = tuple(
    it._replace(heading=heading, repeat=repeat) for (heading, repeat), part in _TABLE.items() for it in part
)
INPUTS = tuple(it._replace(default="false") if it.kind is Kind.SWITCH else it for it in OPTIONS if it.input)
OF_COMMAND_LINE = {it.name: it for it in OPTIONS if it.help}
