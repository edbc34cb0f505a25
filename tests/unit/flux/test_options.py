"""The flags of flux install: by their own names, checked before anything is fetched."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.flux.options import COMPONENTS, DEFAULT_COMPONENTS, LOG_LEVELS, InvalidOption, Options, UnknownFlag

REFLECTOR = "image-reflector-controller"


def test_the_defaults_are_those_of_flux() -> None:
    assert Options() == Options(
        components=("source-controller", "kustomize-controller", "helm-controller", "notification-controller"),
        namespace="flux-system",
        registry="ghcr.io/fluxcd",
        image_pull_secret="",
        watch_all_namespaces=True,
        network_policy=True,
        log_level="info",
        cluster_domain="cluster.local",
        toleration_keys=(),
    )


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param({}, Options(), id="none"),
        pytest.param({"namespace": "fleet"}, Options(namespace="fleet"), id="a text"),
        pytest.param({"network-policy": False}, Options(network_policy=False), id="a switch"),
        pytest.param(
            {"toleration-keys": ["a", "b/c"]}, Options(toleration_keys=("a", "b/c")), id="a list, in its order"
        ),
        pytest.param({"toleration-keys": "a, b/c"}, Options(toleration_keys=("a", "b/c")), id="a list in one text"),
        pytest.param({"toleration-keys": ""}, Options(), id="an empty list"),
        pytest.param(
            {"components": "source-controller"}, Options(components=("source-controller",)), id="one component"
        ),
        pytest.param(
            {"components-extra": [REFLECTOR]}, Options(components=(*DEFAULT_COMPONENTS, REFLECTOR)), id="one more"
        ),
        pytest.param(
            {"components": ["source-watcher", "source-controller"], "components-extra": REFLECTOR},
            Options(components=("source-watcher", "source-controller", REFLECTOR)),
            id="both: the extra ones come last",
        ),
        pytest.param({"components-extra": DEFAULT_COMPONENTS}, Options(), id="an extra one that is there already"),
    ],
)
def test_flags_go_over_what_is_there(flags: dict[str, Any], expected: Options) -> None:
    assert Options().with_flags(flags) == expected


def test_other_flags_stay() -> None:
    assert Options(namespace="fleet").with_flags({"log-level": "debug"}) == Options(
        namespace="fleet", log_level="debug"
    )


@pytest.mark.parametrize(
    ("flags", "words", "hint"),
    [
        pytest.param({"log_level": "info"}, "has no flag --log_level", "Did you mean log-level?", id="an underscore"),
        pytest.param(
            {"xyzzy.": 1},
            "has no flag --xyzzy",
            "Valid are cluster-domain, components, components-extra, ",
            id="nothing near",
        ),
        pytest.param({"xyzzy": 1.5}, "--xyzzy takes a text, a whole number, true", "", id="a fraction"),
        pytest.param({"xyzzy": [{}]}, "--xyzzy takes a text, a whole number, true", "", id="a list of mappings"),
        pytest.param({"xyzzy": "a\nb"}, "--xyzzy takes a text, a whole number, true", "", id="two lines"),
        pytest.param({"xyzzy": "a" * 1001}, "--xyzzy takes a text, .* 1000 characters", "", id="a long value"),
        pytest.param({"export": True}, "--export is not an option of an artifact", "always exports", id="no option"),
        pytest.param(
            {"registry-creds": "a:b"}, "would put a password into a file", "--image-pull-secret", id="a password"
        ),
        pytest.param({"namespace": 1}, "--namespace takes a text, not 1", "fetched nothing", id="no text"),
        pytest.param({"namespace": True}, "--namespace takes a text, not True", "", id="a switch for a text"),
        pytest.param({"network-policy": "no"}, "--network-policy takes true or false, not 'no'", "", id="no switch"),
        pytest.param(
            {"network-policy": 0}, "--network-policy takes true or false, not 0", "", id="a number for a switch"
        ),
        pytest.param(
            {"toleration-keys": [1]}, r"--toleration-keys takes a list of texts, not \[1\]", "", id="no texts"
        ),
        pytest.param({"components-extra": 1}, "--components-extra takes a list of texts, not 1", "", id="no list"),
        pytest.param({"components": []}, "the list of components is empty", "at least one", id="no components"),
        pytest.param({"components": ""}, "the list of components is empty", "at least one", id="an empty text"),
        pytest.param(
            {"components": "source-contoller"},
            "no component 'source-contoller'",
            "Did you mean source-controller?",
            id="a component's typo",
        ),
        pytest.param(
            {"components": "a,,b"},
            "no component 'a'",
            "Valid are helm-controller, image-automation-controller",
            id="no component",
        ),
        pytest.param(
            {"components": "helm-controller,helm-controller"},
            "helm-controller is named twice",
            "each component once",
            id="a component twice",
        ),
        pytest.param(
            {"components": "helm-controller", "components-extra": "helm-controller"},
            "helm-controller is named twice",
            "",
            id="a component in both lists, as in Flux",
        ),
        pytest.param({"components-extra": [REFLECTOR, REFLECTOR]}, "is named twice", "", id="an extra component twice"),
        pytest.param(
            {"log-level": "warn"},
            "--log-level=warn is not a log level",
            "Valid are debug, info, error.",
            id="a log level",
        ),
    ],
)
def test_a_flag_or_value_that_flux_does_not_know(flags: dict[str, Any], words: str, hint: str) -> None:
    with pytest.raises(InvalidOption, match=words) as error:
        Options().with_flags(flags)
    assert hint in error.value.hint
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("value", "text"),
    [("a=b", "a=b"), (True, "true"), (3, "3"), (["a", 2], "a,2"), (("a", True), "a,true")],
    ids=["a text", "a switch", "a number", "a list", "a tuple"],
)
def test_a_flag_that_nobody_knows_yet_is_an_option_with_a_text(value: object, text: str) -> None:
    options = Options(namespace="fleet").with_flags({"zone": value, "arch": "arm"})
    assert options.others == (("arch", "arm"), ("zone", text))
    assert options.differing() == {"arch": "arm", "namespace": "fleet", "zone": text}
    assert Options().with_flags(options.differing()) == options
    assert options.digest not in {Options(namespace="fleet").digest, options.with_flags({"zone": "other"}).digest}
    assert options.to_arguments() == ("--arch=arm", "--namespace=fleet", f"--zone={text}")
    assert options.with_flags({"zone": "", "arch": []}) == Options(namespace="fleet")


def test_a_flag_that_was_learned_since_has_the_digest_that_was_stated() -> None:
    before = Options(namespace="fleet").with_flags({"strict": True})
    assert Options(namespace="fleet").digest_with(dict(before.others)) == before.digest


@pytest.mark.parametrize(
    ("flag", "listed", "hint"),
    [
        ("log-levle", (), "Did you mean log-level?"),
        ("component", (), "Did you mean components?"),
        ("new-flg", ("new-flag", "export"), "Did you mean new-flag?"),
        ("exprt", ("export",), "Valid are cluster-domain, "),
    ],
)
def test_a_flag_of_no_release_names_the_nearest(flag: str, listed: tuple[str, ...], hint: str) -> None:
    error = UnknownFlag(flag, "v2.9.4", listed)
    assert str(error) == f"flux install of v2.9.4 has no flag --{flag}"
    assert error.hint.startswith(hint)
    assert error.exit_code == 2


GOOD = {
    "namespace": ["flux-system", "a", "1a", "a-1", "0xg", "1e", "x" * 63],
    "registry": [
        *(
            "ghcr.io/fluxcd",
            "ghcr.io",
            "localhost:5000",
            "10.0.0.5:5000/a/b__c-d.e",
            "REGISTRY.example.com/a",
            "fluxcd",
        ),
        *("a--b.example/c--d", "1.5", "on"),
    ],
    "image-pull-secret": ["", "regcred", "a.b", "1.2.3", "x" * 63 + ".y"],
    "cluster-domain": ["cluster.local", "k8s.example.internal", "a", "12", "1.5"],
    "toleration-keys": ["CriticalAddonsOnly", "example.com/gpu", "a", "A.b_c-d", "x" * 63, "1.2.3/4", "nan"],
}
BAD = {
    "namespace": ["", "Flux", "a.b", "a_b", "-a", "a-", "x" * 64, "a\n", "ä", "a b", "{{.}}"],
    "registry": [
        *(
            "",
            "/",
            "a/",
            "/a",
            "https://ghcr.io/a",
            "a b",
            "a//b",
            "a/B",
            "a:b/c",
            "a:123456",
            "a@b",
            "a:5000:1",
            "ä/a",
        ),
        *("[::1]:5000/a", "[::1]", "-a", "a-", "a/b:tag", "a\n", "a'b", 'a"b', "a#b", "{a}"),
    ],
    "image-pull-secret": ["Reg", "a_b", "a/b", "-a", "a.", ".a", "x" * 64, "y." * 127, "a\n", "a b"],
    "cluster-domain": ["", "Cluster.local", "a_b", "a.", ".a", "a..b", "x" * 64, "y." * 127, "a\n", "a/b"],
    "toleration-keys": [
        "",
        "a b",
        "a/b/c",
        "/a",
        "a/",
        "A/b",
        "-a",
        "a-",
        "x" * 64,
        'a"b',
        "a\\b",
        "a\n",
        "y." * 127 + "/a",
    ],
}
NO_TEXTS = [
    *("12", "0", "00", "08", "0123", "1e3", "1E5", "0x10", "0XaF", "0o7", "0b1", "2026-11-21", "2026-1-1"),
    *("y", "yes", "n", "no", "true", "false", "on", "off", "null", "Null", "NO", "True"),
]
FRACTIONS = ["1.5", "3.14e2", "1e-3"]
UNDERSCORES = ["1_000", "0x_1", "1e1_0", "1__0"]


def given_to(flag: str, value: str) -> dict[str, Any]:
    return {flag: [value] if flag == "toleration-keys" else value}


@pytest.mark.parametrize(
    ("flag", "value"), [pytest.param(flag, value, id=f"{flag}={value}"[:60]) for flag in GOOD for value in GOOD[flag]]
)
def test_a_value_that_flux_and_kubernetes_take(flag: str, value: str) -> None:
    expected = (value,) if flag == "toleration-keys" else value
    assert getattr(Options().with_flags(given_to(flag, value)), flag.replace("-", "_")) == expected


@pytest.mark.parametrize(
    ("flag", "value"),
    [pytest.param(flag, value, id=f"{flag}={value!r}"[:60]) for flag in BAD for value in BAD[flag]],
)
def test_a_value_that_they_do_not_take(flag: str, value: str) -> None:
    with pytest.raises(InvalidOption, match=f"^--{flag}=.* is not .* such as|is not the name of a Secret") as error:
        Options().with_flags(given_to(flag, value))
    assert error.value.hint == "Correct the value. This run fetched nothing yet."


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        *(("namespace", value) for value in NO_TEXTS if value.islower() or value.isdigit() or "-" in value),
        *(("image-pull-secret", value) for value in (*NO_TEXTS, *FRACTIONS) if value == value.lower()),
        *(("toleration-keys", value) for value in (*NO_TEXTS, *FRACTIONS, *UNDERSCORES)),
    ],
)
def test_a_name_that_yaml_takes_for_something_else(flag: str, value: str) -> None:
    """What Flux itself makes of them is in tests/real/test_samples.py."""
    with pytest.raises(InvalidOption, match=f"^--{flag}={value} is a number, a date or a boolean"):
        Options().with_flags(given_to(flag, value))


@pytest.mark.parametrize(
    ("options", "differing"),
    [
        pytest.param(Options(), {}, id="the defaults"),
        pytest.param(Options(log_level="debug"), {"log-level": "debug"}, id="by its own name"),
        pytest.param(
            Options(watch_all_namespaces=False, components=("helm-controller",), toleration_keys=("b", "a")),
            {"components": ["helm-controller"], "toleration-keys": ["b", "a"], "watch-all-namespaces": False},
            id="sorted, lists in their order",
        ),
    ],
)
def test_what_differs_from_flux(options: Options, differing: dict[str, Any]) -> None:
    assert options.differing() == differing
    assert list(options.differing()) == sorted(differing)


def test_the_digest_is_over_what_differs_as_json() -> None:
    options = Options(namespace="fleet", toleration_keys=("b", "a"))
    text = '{"namespace":"fleet","toleration-keys":["b","a"]}'
    assert options.digest.hex == hashlib.sha256(text.encode()).hexdigest()
    assert Options().digest.hex == hashlib.sha256(b"{}").hexdigest()


@given(
    st.lists(st.sampled_from(COMPONENTS), min_size=1, unique=True),
    st.booleans(),
    st.sampled_from(LOG_LEVELS),
    st.lists(st.sampled_from(GOOD["toleration-keys"])),
)
def test_what_differs_gives_the_options_again(
    components: list[str],
    policy: bool,
    level: str,
    keys: list[str],
) -> None:
    options = Options(tuple(components), network_policy=policy, log_level=level, toleration_keys=tuple(keys))
    assert Options().with_flags(options.differing()) == options


def test_options_are_written_as_flux_install_takes_them() -> None:
    options = Options(components=("source-controller", "helm-controller"), network_policy=False, log_level="debug")
    assert options.to_arguments() == (
        "--components=source-controller,helm-controller",
        "--log-level=debug",
        "--network-policy=false",
    )
    assert Options().to_arguments() == ()
