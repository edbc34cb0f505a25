"""What a command for later has to repeat of what was given to this one, so that it is about the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.cli.trust import signing_mode

if TYPE_CHECKING:
    from ci_automation.cli.arguments import Arguments
    from ci_automation.cli.target import Target


def repeated(given: Arguments, *, begun: bool = False) -> tuple[str, ...]:
    """Return the options that each command has to repeat; `begun` says that something was published in this run."""
    values = _valued(given, "config", "registry_config", "releases", "overlay", "components_file")
    # What was published in this run is signed and unedited: there is nothing left to adopt or to accept.
    once = () if begun else ("adopt", "accept_edits")
    allowed = [_option(name) for name in (*once, "allow_removal", "unsafe_unproven_rendering") if getattr(given, name)]
    known = [
        it
        for name in ("cluster_snapshot", "objects")
        for value in getattr(given, name)
        for it in (_option(name), value)
    ]
    known += ["--kubernetes", given.kubernetes] if given.kubernetes else []
    pins = {True: ["--pin-images"], False: ["--no-pin-images"], None: []}[given.pin_images]
    return (*values, *known, *pins, *allowed)


def flags(given: Arguments) -> tuple[str, ...]:
    """Return the flags of `flux install` that the plan has to repeat."""
    return tuple(
        f"--{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in given.flags.items()
    )


def trusted(given: Arguments) -> tuple[str, ...]:
    """Return whom both commands of an approval have to trust."""
    several = ("public_key", "identity", "identity_regexp")
    values = [item for name in several for value in getattr(given, name) for item in (_option(name), value)]
    return (*values, *_valued(given, "issuer", "trust_config"))


def planned(target: Target, given: Arguments) -> tuple[str, ...]:
    """Return whom the plan for an approval has to trust: who signs it, where nobody else is known."""
    told = trusted(given)
    if given.key and not given.public_key and not given.issuer:
        return ("--key", given.key, *told)
    if told or target.ports.trusted is not None or signed(target, given)[: len(_GUESSED)] != _GUESSED:
        return told
    return ("--public-key", "cosign.pub")


# As `cosign generate-key-pair` calls them.
_GUESSED = ("--signing", "key", "--key", "cosign.key")


def signed(target: Target, given: Arguments) -> tuple[str, ...]:
    """Return how the approved step will be signed: as now, or else as most do."""
    if given.signing == "unsafe-unsigned":
        return ("--signing", "unsafe-unsigned", *trusted(given))
    configured = not given.key and (signing_mode(target.configured, given) is not None or bool(given.issuer))
    form = ("--signature-format", given.signature_format) if given.signature_format else ()
    attested = ("--attestations",) if given.attestations else ()
    mode = given.signing if given.key and given.signing else "key"
    key: tuple[str, ...] = () if configured else ("--signing", mode, "--key", given.key or "cosign.key")
    if given.signing == "keyless":
        key = ("--signing", "keyless")
    return (*key, *form, *attested, *trusted(given))


def lifting(target: Target, given: Arguments) -> tuple[str, ...]:
    """Return what the command has to repeat that lifts the hold of this rollback: it signs as this one."""
    return (*signed(target, given), *_valued(given, "config", "registry_config"))


def _valued(given: Arguments, *names: str) -> tuple[str, ...]:
    """Return the options of these names that have a value, each with it."""
    return tuple(item for name in names if (value := getattr(given, name)) for item in (_option(name), value))


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
