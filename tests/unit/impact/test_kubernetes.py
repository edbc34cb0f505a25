"""Versions of Kubernetes as people state them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.impact.check import InvalidKubernetes, KubernetesRange


@pytest.mark.parametrize(
    ("text", "found", "printed"),
    [
        ("1.33", KubernetesRange(33, 33), "1.33"),
        ("v1.33.4", KubernetesRange(33, 33), "1.33"),
        ("1.31-1.34", KubernetesRange(31, 34), "1.31-1.34"),
        (" v1.31.2 - v1.34.0 ", KubernetesRange(31, 34), "1.31-1.34"),
    ],
)
def test_a_version_or_a_range_is_read(text: str, found: KubernetesRange, printed: str) -> None:
    assert KubernetesRange.parse(text) == found
    assert str(found) == printed


@pytest.mark.parametrize("text", ["", "33", "2.1", "1.34-1.31", "1.33-", ">=1.33", "1.33,1.34", "1.3333"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidKubernetes, match="is no version of Kubernetes"):
        KubernetesRange.parse(text)


@given(st.integers(0, 999), st.integers(0, 999))
def test_what_is_printed_is_read_again(lowest: int, more: int) -> None:
    known = KubernetesRange(lowest, min(lowest + more, 999))
    assert KubernetesRange.parse(str(known)) == known
