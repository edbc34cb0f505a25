"""The events that repositories send each other: what is sent is what is read, and nothing else is."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_automation.approval.dispatch import Dispatch, EventType, InvalidDispatch, Sender, midnight
from ci_automation.approval.port import ApprovalRequest, RequestKind
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.flux.version import Version

CHANNEL = Reference.parse("oci://ghcr.io/acme/flux-manifests:production")
REQUEST = ApprovalRequest(CHANNEL, Version.parse("v2.9.4"), Digest.of(b"base"), Digest.of(b"target"))
SENDER = Sender("acme/fleet", "https://github.com/acme/fleet/actions/runs/7")
AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
ASKING = Dispatch.requesting(REQUEST, SENDER)
CONTENT = Dispatch.requesting(replace(REQUEST, kind=RequestKind.CONTENT), SENDER)
TELLING = Dispatch.telling(REQUEST, AT, SENDER)


def event(dispatch: Dispatch = ASKING, /, **changes: Any) -> dict[str, Any]:
    """Return the event as the receiver's runner has it, with changes to the payload; None takes a key away."""
    payload = {key: value for key, value in {**dispatch.to_payload(), **changes}.items() if value is not None}
    return {"action": str(dispatch.type), "client_payload": payload, "sender": {"login": "acme-bot"}}


@pytest.mark.parametrize("dispatch", [ASKING, TELLING, Dispatch.requesting(REQUEST, Sender()), CONTENT])
def test_what_is_sent_is_what_is_read(dispatch: Dispatch) -> None:
    payload = dispatch.to_payload()
    assert len(payload) < 10
    assert payload["schema"] == "flux-manifests.dispatch/v1"
    assert Dispatch.parse(json.loads(json.dumps(event(dispatch)))) == dispatch


def test_the_keys_of_a_payload_are_documented_and_stay() -> None:
    keys = {"schema", "key", "artifact", "version", "base", "target", "repository", "run"}
    assert ASKING.to_payload().keys() == TELLING.to_payload().keys() == keys


def test_what_is_told_has_a_key_of_its_own_each_time() -> None:
    again = Dispatch.telling(REQUEST, AT + timedelta(hours=1), SENDER)
    assert len({ASKING.key, TELLING.key, again.key}) == 3
    assert Dispatch.telling(REQUEST, AT, Sender("acme/other")).key == TELLING.key


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        pytest.param({"action": "flux-manifests-approved"}, "another type", id="a type that is not ours"),
        pytest.param({"action": ["flux-manifests-published"]}, "another type", id="a type that is a list"),
        pytest.param({"action": None}, "another type", id="no type"),
        pytest.param({"client_payload": None}, "no payload", id="no payload"),
        pytest.param({"client_payload": [1]}, "no payload", id="a payload that is a list"),
        pytest.param({"client_payload": {}}, "schema", id="an empty payload"),
    ],
)
def test_an_event_of_somebody_elses_is_refused(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidDispatch, match=reason):
        Dispatch.parse(event() | changed)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param({"schema": "flux-manifests.dispatch/v2"}, "schema", id="another schema"),
        pytest.param({"schema": ["x"]}, "schema", id="a schema that is a list"),
        pytest.param({"approved": "true"}, "unknown", id="a key too many"),
        pytest.param({"run": None}, "missing required field `run`", id="a key too few"),
        pytest.param({"version": 2}, "Expected `str`, got `int`", id="a number"),
        pytest.param({"version": {"a": "b"}}, "Expected `str`, got `object`", id="an object"),
        pytest.param({"run": "https://x.example/" + "x" * 1024}, "length <= 1024", id="oversized"),
        pytest.param({"artifact": "ghcr.io/acme/flux:production"}, "not the address", id="no address"),
        pytest.param({"artifact": "oci://ghcr.io/acme/flux"}, "not the address", id="an address without a channel"),
        pytest.param({"version": "newest"}, "not a version", id="no version"),
        pytest.param({"version": "2.9.4"}, "the form that this program writes", id="a version written otherwise"),
        pytest.param({"base": "latest"}, "not a sha256", id="no digest"),
        pytest.param({"target": "sha256:" + "A" * 64}, "not a sha256", id="a digest in upper case"),
        pytest.param(
            {"target": str(Digest.of(b"evil"))}, "does not belong to the step that it asks", id=("another target")
        ),
        pytest.param({"base": str(Digest.of(b"evil"))}, "does not belong to the step that it asks", id="another base"),
        pytest.param({"key": "0" * 16}, "does not belong to the step that it asks", id="another request's key"),
        pytest.param({"key": "0" * 15 + "\n"}, "16 hex digits", id="a key with a line break"),
        pytest.param({"repository": "acme/fleet/../x"}, "OWNER/NAME", id="no repository"),
        pytest.param({"repository": "acme/.."}, "OWNER/NAME", id="a repository that climbs"),
        pytest.param({"run": "javascript:alert(1)"}, "address of a page", id="no page"),
        pytest.param({"run": "https://x.example/\n::set-output"}, "address of a page", id="a page with a line break"),
    ],
)
def test_a_payload_that_is_not_exactly_ours_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidDispatch, match=reason):
        Dispatch.parse(event(**changes))


def test_the_key_of_what_is_told_is_not_computed_from_the_payload() -> None:
    assert Dispatch.parse(event(TELLING, key="0123456789abcdef")).key == "0123456789abcdef"


@pytest.mark.parametrize("path", ["x" * 1100, "wide\u2028line"])
def test_an_artifact_that_could_not_be_read_is_not_sent(path: str) -> None:
    artifact = Reference.parse(f"layout:{path}:production")
    with pytest.raises(InvalidDispatch, match="artifact"):
        Dispatch.requesting(replace(REQUEST, artifact=artifact), SENDER)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_whatever_comes_is_refused_in_one_way(value: object) -> None:
    for strange in ({"action": value}, {"action": str(EventType.PUBLISHED), "client_payload": value}):
        with pytest.raises(InvalidDispatch):
            Dispatch.parse(strange)


@given(st.sampled_from(sorted(ASKING.to_payload())), st.text(max_size=80))
def test_no_text_in_one_key_makes_another_event(key: str, text: str) -> None:
    changed = event(**{key: text})
    try:
        parsed = Dispatch.parse(changed)
    except InvalidDispatch:
        return
    assert parsed.to_payload() == changed["client_payload"]
    assert parsed.request == REQUEST or key == "version"


def test_lists_of_one_day_have_one_address() -> None:
    assert midnight(AT) == midnight(AT + timedelta(hours=11)) == datetime(2026, 11, 21, tzinfo=UTC)
