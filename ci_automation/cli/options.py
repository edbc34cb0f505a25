"""The options that several commands share, and the values that they come to."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

_INSTALL_FLAGS = (
    ("namespace", "NAME", "the namespace that Flux runs in"),
    ("components", "LIST", "controllers, comma-separated"),
    ("components-extra", "LIST", "controllers besides those, comma-separated"),
    ("registry", "HOST/PATH", "where the controllers' images are"),
    ("image-pull-secret", "NAME", "the Secret to pull the images with"),
    ("log-level", "LEVEL", "debug, info or error"),
    ("cluster-domain", "DOMAIN", "the cluster's internal domain"),
    ("toleration-keys", "LIST", "taints that the controllers tolerate, comma-separated"),
    ("registry-creds", "USER:PASSWORD", "refused: it would end in a file that every cluster reads"),
    ("manifests", "DIR", "refused: --releases has folders of releases"),
)
_INSTALL_SWITCHES = (
    ("watch-all-namespaces", "watch all namespaces, not only Flux's own"),
    ("network-policy", "deny ingress from other namespaces"),
)


def _all(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return one decorator of several, which show in the order given."""

    def decorate(function: F) -> F:
        return functools.reduce(lambda decorated, option: option(decorated), reversed(options), function)

    return decorate


def install_flags(function: F) -> F:
    """Add the flags of `flux install`, by their own names, collected under `flags`."""

    @functools.wraps(function)
    def collect(*args: Any, **kwargs: Any) -> Any:  # whatever the command takes and returns
        names = [name for name, *_ in (*_INSTALL_FLAGS, *_INSTALL_SWITCHES)]
        values = {name: kwargs.pop(name.replace("-", "_")) for name in names}
        kwargs["flags"] = {name: _joined(value) for name, value in values.items() if value not in (None, ())}
        return function(*args, **kwargs)

    texts = (
        click.option(f"--{name}", metavar=kind, multiple=kind == "LIST", help=f"flux install: {text}")
        for name, kind, text in _INSTALL_FLAGS
    )
    switches = (
        click.option(
            f"--{name}", type=bool, is_flag=False, flag_value="true", metavar="[BOOL]", help=f"flux install: {text}"
        )
        for name, text in _INSTALL_SWITCHES
    )
    # They say what `flux install` does with its output, which is not ours to do.
    without_effect = (
        click.option(f"--{name}", is_flag=True, hidden=True, expose_value=False) for name in ("export", "force")
    )
    return _all(*texts, *switches, *without_effect)(collect)  # type: ignore[return-value]  # wraps keeps the signature


def _joined(value: object) -> object:
    """Return a list that was given in pieces as one, as Flux takes it."""
    return ",".join(value) if isinstance(value, tuple) else value


release_source = _all(
    click.option(
        "--releases",
        metavar="DIR",
        envvar="FLUX_RELEASES",
        help="folder with releases; without it: GitHub ($FLUX_RELEASES)",
    ),
)

registry_config = click.option(
    "--registry-config", metavar="FILE", help="docker's config.json with the registries' credentials"
)

components_file = click.option(
    "--components-file", metavar="PATH", help="the components file in the artifact; found by itself if there is one"
)

_TRUST_KEY = "trust what this key signed; may be repeated"


def _public_key(text: str) -> Callable[[F], F]:
    return click.option("--public-key", metavar="FILE", multiple=True, help=text)


_identities = _all(
    click.option(
        "--identity",
        metavar="SUBJECT",
        multiple=True,
        help="trust exactly this subject of a keyless signature; repeatable",
    ),
    click.option(
        "--identity-regexp",
        metavar="RE2",
        multiple=True,
        help="trust the subjects that match: ^ first, $ last",
    ),
    click.option("--issuer", metavar="URL", help="who vouches for the identity, such as GitHub's token service"),
    click.option(
        "--trust-config", metavar="FILE", help="your own Sigstore instance: client trust config, or trusted_root.json"
    ),
)

trust = _all(
    _public_key(f"{_TRUST_KEY}; default: the public half of --key"),
    click.option("--key", metavar="KEY", help="the key that signs; only its public half is used"),
    _identities,
)

signing = _all(
    click.option(
        "--signing",
        type=click.Choice(["keyless", "key", "kms", "unsafe-unsigned"]),
        help="how to sign what is published. Default: --key if there is one, else keyless in GitHub Actions",
    ),
    click.option(
        "--key",
        metavar="KEY",
        help="private key: a file (password in $COSIGN_PASSWORD), env://NAME, or awskms:// gcpkms:// azurekms:// "
        "hashivault://",
    ),
    click.option(
        "--signature-format",
        type=click.Choice(["legacy", "both", "bundle"]),
        help="legacy is read by every Flux, bundle only from 2.8.6; default: legacy",
    ),
    click.option("--attestations", is_flag=True, help="attach provenance and a list of the controllers (SBOM), signed"),
    click.option(
        "--accept-identity-change", is_flag=True, help="sign as somebody else than the one who is trusted, once"
    ),
    _public_key(f"{_TRUST_KEY}; default: the key that signs"),
    _identities,
)

allowances = _all(
    click.option("--overlay", metavar="DIR", help="replace the overlay by the files of this folder; needs approval"),
    click.option("--adopt", is_flag=True, help="trust the present artifact once: shows every file of it, and asks"),
    click.option("--yes", is_flag=True, help="adopt without being asked, for jobs"),
    click.option("--accept-edits", is_flag=True, help="drop edits that were made in the components file"),
    click.option(
        "--allow-removal", is_flag=True, help="let controllers and CRDs vanish; pruning a CRD deletes its objects"
    ),
    click.option(
        "--unsafe-unproven-rendering", is_flag=True, help="publish a release that rendering was not proven on"
    ),
)

clusters = _all(
    click.option("--kubernetes", metavar="RANGE", help="what the clusters run, such as 1.34, or 1.34-1.36"),
    click.option(
        "--cluster-snapshot",
        metavar="FILE",
        multiple=True,
        help="output of `kubectl get crd -o json` of a cluster, a file or an artifact; repeatable",
    ),
    click.option(
        "--objects",
        metavar="PATH",
        multiple=True,
        help="the clusters' manifests, to look for API versions that go: file, folder or artifact; repeatable",
    ),
)

pin_images = click.option(
    "--pin-images/--no-pin-images", default=None, help="put digests behind the controllers' images, or leave them out"
)


def _common(*outputs: str) -> Callable[[F], F]:
    return _all(
        click.option(
            "--config", metavar="FILE", help="configuration; default: .github/flux-manifests.yaml, if it is there"
        ),
        click.option(
            "--output",
            type=click.Choice(outputs),
            default="text",
            show_default=True,
            help="for people or programs",
        ),
        click.option("--verbose", "-v", is_flag=True, help="say each thing that is done; list each change and gate"),
    )


common = _common("text", "json")
common_with_markdown = _common("text", "json", "markdown")

exit_code = click.option(
    "--exit-code",
    is_flag=True,
    help="exit with 3 if something waits for approval, with 11 if policy refuses all that could be taken",
)
