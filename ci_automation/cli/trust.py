"""The signer and the trusted signers, from options, configuration and environment."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from ci_automation.config.model import FIRST_WITH_BUNDLES, SigningConfig, SigningMode, VerifyConfig
from ci_automation.errors import Error, SigningError, UsageError
from ci_automation.net.waiting import Background
from ci_automation.policy.model import SignatureFormat
from ci_automation.signing.trust import NOBODY_NAMED, Trusted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ci_automation.cli.arguments import Arguments
    from ci_automation.config.sections import Artifact
    from ci_automation.flows.ports import Ports
    from ci_automation.impact.check import Clusters
    from ci_automation.signing.signer import LateSigner, Signer
    from ci_automation.signing.sigstore.root import TrustRoot

T = TypeVar("T")
U = TypeVar("U")

KEY_HERE = "cosign.pub"  # as `cosign generate-key-pair` calls it
_TOKENS = ("SIGSTORE_ID_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL")


def signing_mode(artifact: Artifact | None, given: Arguments) -> SigningMode | None:
    """Return how this run signs: as the options say, else the configuration, else keyless where there is a token."""
    configured = artifact.signing if artifact else SigningConfig()
    if given.signing or given.key:
        return SigningMode(given.signing or SigningMode.KEY)
    if configured.mode or configured.key:
        return configured.mode or SigningMode.KEY
    return SigningMode.KEYLESS if any(os.environ.get(variable) for variable in _TOKENS) else None


def signer(artifact: Artifact | None, given: Arguments) -> Signer | None:
    """Return the signer, or None without one; a key is opened when it is needed.

    Raises:
        UsageError: the trust configuration is not there.
        SigningError: there is no identity to sign as.
    """
    match signing_mode(artifact, given):
        case None | SigningMode.UNSAFE_UNSIGNED:
            return None
        case SigningMode.KEYLESS:
            from ci_automation.net.network import Network
            from ci_automation.signing.sigstore.exchange import SigstoreExchange
            from ci_automation.signing.sigstore.keyless import KeylessSigner
            from ci_automation.signing.sigstore.oidc import ambient

            root = trust_root(artifact, given)
            if root not in given.keyless:  # one for all artifacts: its certificate lives for ten minutes
                exchange = SigstoreExchange(Network.from_environment(os.environ))
                given.keyless[root] = KeylessSigner(root, ambient(os.environ, exchange, _mask), exchange)
            return given.keyless[root]
        case SigningMode.KEY | SigningMode.KMS:
            return _late_signer(_key(artifact, given), given)


def open_ahead(given: Arguments) -> None:
    """Begin to open the key that the options name: an encrypted one takes a fifth of a second.

    If that fails, the first use raises the error.
    """
    from ci_automation.signing.keys.kms import is_kms

    if given.key and not is_kms(given.key):
        Background(_late_signer(given.key, given).prepare)


def ask_ahead(artifact: Artifact | None, given: Arguments) -> None:
    """Ask the person at the terminal for the password of the key that signs, before it is opened in the background."""
    if signing_mode(artifact, given) is SigningMode.KEY:
        _environment(_key(artifact, given), given)


def beside(opening: Callable[[], T], work: Callable[[], U]) -> tuple[U, T]:
    """Return the results of `work` and of `opening` a key, which go side by side.

    An encrypted key takes a fifth of a second of the other core. What is left of that imports what most steps need.
    """
    from ci_automation.flows.planning.plan import NEEDED_BY_STEPS

    opened = Background(opening)
    done = work()
    for name in ("nacl.secret", "ci_automation.flows.update", *NEEDED_BY_STEPS, "ci_automation.cli.follow_up"):
        if opened.ended.is_set():
            break
        import_module(name)
    return done, opened.result()


def _late_signer(location: str, given: Arguments) -> LateSigner:
    """Return the signer with a key. Artifacts share one that is not in a KMS, so that the run opens it once."""
    from ci_automation.signing.keys.kms import is_kms
    from ci_automation.signing.signer import LateSigner

    made = LateSigner(partial(_key_signer, location, _environment(location, given)))
    return made if is_kms(location) else given.keys.setdefault(location, made)


def _key(artifact: Artifact | None, given: Arguments) -> str:
    location = given.key or (artifact.signing.key if artifact else None)
    assert location is not None  # noqa: S101  # for the type checker: checked where it was given
    return location


def _environment(location: str, given: Arguments) -> Mapping[str, str]:
    """Return the environment that opens a key, for which a person is asked once in a run."""
    if location not in given.environments:
        from ci_automation.cli.public_key import environment_for

        given.environments[location] = environment_for(location)
    return given.environments[location]


def _key_signer(location: str, environment: Mapping[str, str]) -> Signer:
    from ci_automation.signing.keys.kms import is_kms
    from ci_automation.signing.keys.private import open_private_key
    from ci_automation.signing.signer import KeySigner

    if is_kms(location):
        _log_in_as_the_job()
    return KeySigner(open_private_key(location, environment, Path()))


@cache
def _log_in_as_the_job() -> None:
    """Let the clouds' libraries find identity tokens of this job, where it may have some, for as long as we run."""
    import atexit
    import tempfile

    from ci_automation.net.network import Network
    from ci_automation.net.services import Exchange
    from ci_automation.registry.logins import variables

    folder = tempfile.TemporaryDirectory(prefix="flux-manifests-")
    atexit.register(folder.cleanup)
    exchange = Exchange(Network.from_environment(os.environ))
    os.environ.update(variables(os.environ, Path(folder.name), exchange, _mask))


def _mask(secret: str) -> None:
    from ci_automation.action.workflow_commands import hide

    hide(secret, runner=os.environ.get("GITHUB_ACTIONS") == "true")


def trusted(artifact: Artifact | None, given: Arguments, signing: Signer | None) -> Trusted | None:
    """Return who is trusted: as the options say, else the configuration, else the signer of this run.

    Raises:
        UsageError: a key or pattern cannot be used.
        UnanchoredPattern: a pattern also matches longer identities.
        SigningError: who this run signs as cannot be found out.
    """
    said = VerifyConfig(given.public_key, given.identity, given.identity_regexp, given.issuer)
    verify = said if said != VerifyConfig() else artifact.verify if artifact else said
    if verify.public_keys:
        from ci_automation.signing.keys.public import load_public_key
        from ci_automation.signing.trust import TrustedKeys

        return TrustedKeys(tuple(load_public_key(location, os.environ, Path()) for location in verify.public_keys))
    if verify.issuer:
        from ci_automation.policy.patterns import require_anchored
        from ci_automation.signing.trust import Identity, IdentityMatch, TrustedIdentities

        exact = tuple(IdentityMatch.exact(Identity(verify.issuer, subject)) for subject in verify.identities)
        issuer = IdentityMatch.exact(Identity(verify.issuer, "")).issuer
        patterns = tuple(IdentityMatch(issuer, pattern) for pattern in verify.patterns)
        for pattern in verify.patterns:
            require_anchored(pattern)
        return TrustedIdentities((*exact, *patterns), trust_root(artifact, given))
    return signing.trusted if signing else None


def readers_trust(artifact: Artifact | None, given: Arguments, *, as_job: bool) -> tuple[Trusted | None, str]:
    """Return whom a run trusts that only reads, or why it knows no trusted signer. It needs no secret.

    That is whom the options or the configuration name, else the public half of --key; else what the configuration signs
    with, if it can be had here: the public half of its key, its identity. With `as_job` it may be this job's identity.

    Raises:
        UsageError, SigningError: what the options or `verify` name cannot be used.
    """
    if (known := trusted(artifact, given, None)) is not None:
        return known, ""
    named = given.signing or given.key or (artifact and artifact.signing != SigningConfig())
    try:
        return _signs_as(artifact, given) if named or as_job else None, NOBODY_NAMED
    except (UsageError, SigningError) as error:
        if given.key and given.key_must_open:
            raise
        return None, str(error)


def _signs_as(artifact: Artifact | None, given: Arguments) -> Trusted | None:
    """Return what is trusted if no other signer is named: the run's own, of a key its public half."""
    if signing_mode(artifact, given) not in {SigningMode.KEY, SigningMode.KMS}:
        signing = signer(artifact, given)
        return signing.trusted if signing else None
    from ci_automation.signing.keys.kms import is_kms
    from ci_automation.signing.keys.private import load_public_half
    from ci_automation.signing.trust import TrustedKeys

    if is_kms(location := _key(artifact, given)):
        _log_in_as_the_job()
    return TrustedKeys((load_public_half(location, _environment(location, given), Path()),))


def previewed(ports: Ports, artifact: Artifact | None, given: Arguments, subject: str) -> Ports:
    """Return the ports of a job that has no key and no token, with the signer that a later job of its workflow has.

    That is the key that is trusted, which may be an input of the later job alone. Else it is, keyless, the `subject` of
    the workflow: a team that trusts another one is told before the gate waits. Without a subject, that of a called
    workflow, it is whom the configuration trusts. Nothing can be signed with it.
    """
    from ci_automation.config.workflows import GitHubPlace
    from ci_automation.signing.signer import AbsentSigner
    from ci_automation.signing.trust import Identity, IdentityMatch, TrustedIdentities, TrustedKeys

    mode = signing_mode(artifact, given)
    if isinstance(ports.trusted, TrustedKeys) and mode in {None, SigningMode.KEY, SigningMode.KMS}:
        return replace(ports, signer=AbsentSigner(ports.trusted.keys[0].fingerprint, ports.trusted))
    if mode in {SigningMode.KEY, SigningMode.KMS, SigningMode.UNSAFE_UNSIGNED}:
        return ports
    place = GitHubPlace("", server=subject.partition("/.github/")[0].rsplit("/", 2)[0])
    identity = Identity(place.issuer, subject)
    own = TrustedIdentities((IdentityMatch.exact(identity),), trust_root(artifact, given)) if subject else ports.trusted
    return replace(ports, signer=AbsentSigner(identity, own), trusted=ports.trusted or own) if own else ports


def name_key_here(error: BaseException) -> bool:
    """Let the hint about a foreign signature name the key in this folder that made it; return whether one did."""
    from ci_automation.signing.keys.public import load_public_key
    from ci_automation.signing.trust import TrustedKeys
    from ci_automation.signing.verify import ForeignSignature

    if not isinstance(error, ForeignSignature):
        return False
    with suppress(Error):
        here = TrustedKeys((load_public_key(KEY_HERE, os.environ, Path()),))
        if any(it.counts for it in error.again(here)):
            told = f"It is signed by the key of {KEY_HERE}: give --public-key {KEY_HERE}, if that is yours."
            error.hint = error.hint.replace(ForeignSignature.hint, told)
            return True
    return False


def trust_root(artifact: Artifact | None, given: Arguments) -> TrustRoot:
    """Return the Sigstore instance whose certificates count: one's own, or the public one."""
    from ci_automation.signing.sigstore.root import TrustRoot

    location = given.trust_config or (artifact.trust_config if artifact else None)
    return TrustRoot.from_file(Path(location)) if location else TrustRoot.public()


class TooEarlyForBundles(UsageError):
    """Bundles alone are asked for, but some clusters may not read them."""

    hint = (
        "Set minimumFlux: 2.8.6 in the configuration if that is so, give a snapshot of each cluster, or use "
        "--signature-format both."
    )

    def __init__(self, why: str = "") -> None:
        super().__init__(f"the signature format bundle needs clusters with Flux 2.8.6 or later{why}")


def bundle_or_legacy(
    artifact: Artifact | None, given: Arguments, known: Clusters, say: Callable[[str], None]
) -> SignatureFormat:
    """Return the format; bundles alone only if the configuration, or else every snapshot, says that all read them."""
    wanted = SignatureFormat(given.signature_format or (artifact.signing.format if artifact else "legacy"))
    if wanted is not SignatureFormat.BUNDLE:
        return wanted
    stated = artifact.minimum_flux if artifact else None
    if known.oldest and known.oldest[0] < FIRST_WITH_BUNDLES:
        raise TooEarlyForBundles(f": {known.oldest[1]} has {known.oldest[0]}")
    if stated is None and known.oldest:
        say(f"minimumFlux is {known.oldest[0]}, by the snapshot {known.oldest[1]}")
    elif stated is None or stated < FIRST_WITH_BUNDLES:
        raise TooEarlyForBundles
    return wanted
