"""What a folder gathers, through bases and components, without kustomize."""

from __future__ import annotations

import pytest

from ci_automation.impact.overlay import folders as module
from tests.unit.impact.overlay.trees import COMPONENTS, MAP, PATH, gather, overlay

COMPONENT = {"kind": "Component", "apiVersion": "kustomize.config.k8s.io/v1alpha1"}


NESTED: dict[str, object] = {
    "kustomization.yaml": {"resources": ["flux-system"]},
    "flux-system/kustomization.yml": {"resources": ["gotk-components.yaml"]},
}
LOCAL = """\
apiVersion: v1
kind: A
metadata: {name: a, annotations: {config.kubernetes.io/local-config: 'true'}}
"""


class TestWhatItGathers:
    def test_files_folders_and_components(self) -> None:
        found = gather(
            {
                "kustomization.yaml": {"resources": ["base", "own.yaml"], "components": ["part"]},
                "base/kustomization.yaml": {"bases": ["../flux-system"]},
                "flux-system/kustomization.yaml": {"resources": ["./gotk-components.yaml"]},
                "part/kustomization.yaml": COMPONENT | {"resources": ["../extra.yaml"]},
                "own.yaml": MAP,
                "extra.yaml": MAP.replace("settings", "extra"),
            }
        )
        assert found.faults == []
        assert [each.id.name for each in found.listed][-2:] == ["settings", "extra"]
        assert found.folders == {".", "base", "flux-system", "part"}
        assert found.files >= {PATH, "own.yaml", "extra.yaml", "base/kustomization.yaml"}
        assert not found.only_lists

    @pytest.mark.parametrize(
        ("files", "only"),
        [
            (overlay(), True),
            (overlay(kind="Kustomization"), True),
            (overlay(sortOptions={"order": "of mine"}), False),
            (overlay(metadata={"name": 5}), False),
            ({"kustomization.yaml": {"resources": [PATH, 5]}}, False),
            ({"kustomization.yaml": {"resources": [PATH, ""]}}, False),
            (NESTED, True),
            (overlay(namespace="x"), False),
            (overlay(unknown="x"), False),
            (overlay(kind="Other"), False),
        ],
    )
    def test_it_may_only_list(self, files: dict[str, object], only: bool) -> None:
        assert gather(files).only_lists is only

    def test_what_is_for_kustomize_alone_is_not_applied(self) -> None:
        found = gather({"kustomization.yaml": {"resources": [PATH, "a.yaml"]}, "a.yaml": LOCAL})
        assert len(found.ids) == len(found.listed) - 1


K = "kustomization.yaml"
NAMESPACE = COMPONENTS.partition("---\napiVersion: apiext")[0]
WRONG: dict[str, tuple[dict[str, object], str, str]] = {
    "nothing": ({}, ". has no kustomization", "."),
    "no YAML": ({K: "a: ["}, f"{K}:1 cannot be read: it is not YAML", f"{K}:1"),
    "a tab": ({K: "a:\n\tb: 1\n"}, f"{K}:2 cannot be read: it is not YAML: a tab character in column 1", f"{K}:2"),
    "a file that is gone": ({K: "resources:\n- gone.yaml\n"}, "gone.yaml is not in the artifact", f"{K}:2"),
    "the components where another artifact has them": (
        {K: "resources:\n- gotk-components.yaml\n"},
        f"gotk-components.yaml is not in the artifact, which has it as {PATH}: write {PATH}",
        f"{K}:2",
    ),
    "the components from a folder above": (
        {K: {"resources": ["a"]}, "a/kustomization.yaml": "resources:\n- flux-system/gotk_components.yaml\n"},
        f"flux-system/gotk_components.yaml is not in the artifact, which has it as {PATH}: write ../{PATH}",
        "a/kustomization.yaml:2",
    ),
    "outside": ({K: "resources:\n- ../../etc/x\n"}, "../../etc/x is not in the artifact", f"{K}:2"),
    "a folder without": ({K: {"resources": ["a"]}, "a/x.txt": ""}, "a has no kustomization", f"{K}:1"),
    "itself": ({K: {"resources": ["."]}}, ". refers to itself", f"{K}:1"),
    "no object": (
        {K: {"resources": ["bad.yaml"]}, "bad.yaml": "\na: b"},
        "bad.yaml:2 cannot be read: an object has no kind",
        "bad.yaml:2",
    ),
    "an object twice": (
        {K: {"resources": [PATH, "a.yaml"]}, "a.yaml": NAMESPACE},
        "Namespace flux-system is there twice: flux-system/gotk-components.yaml:3 and a.yaml:3",
        "a.yaml:3",
    ),
    "a patch that is gone": (overlay(patches=[{"path": "p.yaml"}]), "p.yaml is not in the artifact", f"{K}:1"),
}


class TestWhatIsWrong:
    @pytest.mark.parametrize("name", WRONG)
    def test_is_told(self, name: str) -> None:
        files, sentence, place = WRONG[name]
        (fault,) = gather(files).faults
        assert fault.sentence.startswith(sentence)
        assert str(fault.place) == place

    def test_a_maze_comes_to_an_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_MAX_VISITS", 20)
        files = {f"{n}/kustomization.yaml": {"resources": [f"../{n + 1}", f"../{n + 1}"]} for n in range(30)}
        found = gather(files, "0")
        assert any("too many others" in each.sentence for each in found.faults)

    def test_what_is_elsewhere_is_noted_and_not_missed(self) -> None:
        found = gather(
            {
                "kustomization.yaml": {
                    "resources": [PATH, "https://acme.example/x"],
                    "components": ["github.com/acme/part"],
                    "transformers": ["git@acme.example:x", "here.yaml"],
                }
            }
        )
        assert sorted(each.path for each in found.remotes) == [
            "git@acme.example:x",
            "github.com/acme/part",
            "https://acme.example/x",
        ]
        assert found.faults == []

    def test_what_looks_like_elsewhere_and_is_here_is_taken(self) -> None:
        found = gather({"kustomization.yaml": {"resources": ["github.com/x.yaml"]}, "github.com/x.yaml": MAP})
        assert (found.remotes, len(found.listed)) == ([], 1)

    @pytest.mark.parametrize(
        ("listed", "local"),
        [
            ("github.com/acme/part", "github.com/acme/part/kustomization.yaml"),
            ("git@github.com:acme/part", "git@github.com:acme/part/kustomization.yaml"),
            ("https://acme.example/x.yaml", "https:/acme.example/x.yaml"),
        ],
    )
    def test_what_is_fetched_is_not_what_is_here_under_that_name(self, listed: str, local: str) -> None:
        content = {"resources": ["own.yaml"]} if local.endswith("kustomization.yaml") else MAP
        files = {"kustomization.yaml": {"resources": [listed]}, local: content}
        found = gather({**files, f"{local.rpartition('/')[0]}/own.yaml": MAP})
        assert ([each.path for each in found.remotes], found.listed) == ([listed], [])
