"""Whether the overlay still fits: what is told, how sure it is, and what is built for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pytest

from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.impact.change import Certainty, Place
from ci_automation.impact.overlay.builder import BuildFailed, BuildStopped, KustomizeUnusable
from ci_automation.impact.overlay.folders import applied_folders
from ci_automation.impact.overlay.kustomization import Effort
from ci_automation.impact.overlay.outcome import looked_into
from ci_automation.impact.overlay.preflight import Preflight, preflight
from tests.unit.impact.overlay.trees import (
    CHANGED,
    COMPONENTS,
    MAP,
    PATH,
    Builder,
    Recorded,
    check,
    failing,
    has_marks,
    overlay,
    tree,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCE = {"kind": "Namespace", "name": "flux-system", "fieldPath": "metadata.name"}
NOTE = {"fieldPaths": ["metadata.annotations.home"], "options": {"create": True}}
REPLACED = overlay(replacements=[{"source": SOURCE, "targets": [{"select": {"name": "helm-.*"}, **NOTE}]}])
DELETED = {"target": {"kind": "Deployment"}, "patch": "$patch: delete\nkind: Any\nmetadata: {name: any}\n"}
REPLICAS = json.dumps([{"op": "add", "path": "/spec/replicas", "value": 2}])
PATCHED = overlay(patches=[{"target": {"kind": "Deployment"}, "patch": REPLICAS}])
WITHOUT_HELM = COMPONENTS[: COMPONENTS.rindex("---\napiVersion: apps/v1")]
RULE = "- {apiGroups: [source]"
MORE_RULES = COMPONENTS.replace(RULE, f"- {{apiGroups: [new], verbs: [get]}}\n{RULE}")
FEWER_ARGS = COMPONENTS.replace("[--log-level=info, --storage-path=/data]", "[--storage-path=/data]")
UNLABELED = COMPONENTS.replace("{part-of: flux, component: helm}", "{component: helm}")


TAB = "a:\n\tb: 1\n"
CONFLICT = f"{MAP.splitlines()[0]}\n<<<<<<< HEAD\nkind: A\n=======\nkind: B\n>>>>>>> topic\n"
DEEP: dict[str, object] = {"kustomization.yaml": {"resources": [PATH, "own.yaml"]}, "own.yaml": "[" * 101 + "]" * 101}
CLUSTERS: dict[str, object] = {
    "clusters/a/kustomization.yaml": {"resources": [f"../../{PATH}"]},
    "clusters/b/kustomization.yaml": {"resources": [f"../../{PATH}", "own.yaml"]},
    "clusters/b/own.yaml": MAP,
}
UNKNOWN = 'json: unknown field "foo"'
LEFT_OUT = "the overlay at ./ leaves out"
OTHER: dict[str, object] = {"kustomization.yaml": {"resources": ["own.yaml"]}, "own.yaml": MAP}


SOME = (
    f"no kustomization lists {PATH}: clusters that apply a folder with one do not get Flux's components (only "
    "those whose path is ./flux-system do), and delete Flux if they prune"
)


def said(found: Preflight) -> list[tuple[str, str]]:
    """Return how sure each hazard is, and its sentence."""
    return [(str(hazard.certainty), hazard.sentence) for hazard in found.hazards]


def patch(operations: list[dict[str, Any]], **target: str) -> dict[str, object]:
    """Return an overlay with a JSON patch."""
    return overlay(patches=[{"target": target, "patch": json.dumps(operations)}])


def replace(path: str, value: object = 1) -> dict[str, Any]:
    """Return an operation."""
    return {"op": "replace", "path": path, "value": value}


def texts(files: Mapping[str, object]) -> tuple[str | None, ...]:
    """Return what is known of the builds with the old and with the new components."""
    before, after = (applied_folders(tree(files, text), PATH, Effort()) for text in (COMPONENTS, CHANGED))
    return tuple(found["."].text for found in looked_into(before, after, Builder(), Effort()))


class TestWhatIsBuilt:
    @pytest.mark.parametrize(
        "files",
        [{}, {"own.yaml": MAP}, overlay(), {"flux-system/kustomization.yaml": {"resources": ["gotk-components.yaml"]}}],
        ids=["nothing", "an object", "a list", "a list beside"],
    )
    def test_nothing_where_all_is_listed(self, files: Mapping[str, object]) -> None:
        builder = Builder()
        assert check(files, builder=builder).hazards == ()
        assert check(files, builder=builder) == preflight(tree(files), tree(files, CHANGED), PATH, None)
        assert builder.asked == []

    def test_the_old_and_the_new_at_once_with_marks_and_the_new_without(self) -> None:
        builder = Builder()
        assert check(PATCHED, builder=builder).hazards == ()
        assert [[(build[0][PATH].decode(), has_marks(build)) for build in asked] for asked in builder.asked] == [
            [(CHANGED, True), (CHANGED, False), (COMPONENTS, True)]
        ]

    def test_once_where_nothing_changes(self) -> None:
        builder = Builder()
        assert check(PATCHED, COMPONENTS, builder).hazards == ()
        assert [list(map(has_marks, asked)) for asked in builder.asked] == [[True, False]]

    def test_the_old_without_marks_too_where_more_than_the_marks_differs(self) -> None:
        builder = Builder()
        found = check(overlay(images=[{"name": "ghcr.io/fluxcd/helm-controller", "newTag": "x"}]), builder=builder)
        assert found.hazards == ()
        assert [list(map(has_marks, asked)) for asked in builder.asked] == [[True, False, True, False]]

    @pytest.mark.parametrize("fields", [{}, {"namePrefix": "our-"}, {"patches": [DELETED]}], ids=str)
    def test_what_is_built_is_told_as_without_marks(self, fields: dict[str, Any]) -> None:
        files = overlay(patches=[{"target": {"kind": "ClusterRole"}, "patch": json.dumps([replace("/rules/1", {})])}])
        files = {"kustomization.yaml": {**cast("dict[str, object]", files["kustomization.yaml"]), **fields}}
        assert texts(files) == Recorded().builds([(tree(files), "."), (tree(files, CHANGED), ".")])

    def test_nothing_of_what_only_lists(self) -> None:
        assert texts(overlay()) == (None, None)

    def test_what_kustomize_controller_makes(self) -> None:
        builder = Builder()
        check(
            {"flux-system/kustomization.yaml": {"resources": ["gotk-components.yaml"], "namespace": "x"}},
            builder=builder,
        )
        made = [build[0]["kustomization.yaml"] for build in builder.asked[0] if not has_marks(build)]
        assert made == [b'resources:\n- "./flux-system"\n']

    def test_nothing_with_a_remote_base(self) -> None:
        builder = Builder()
        files = overlay(resources=[PATH, "https://acme.example/base", "github.com/acme/x"], namespace="x")
        (hazard,) = check(files, builder=builder).hazards
        assert (hazard.certainty, hazard.sentence) == (
            Certainty.CERTAIN,
            (
                "the overlay at ./ was not built: it has a remote base, and nothing is "
                "fetched here: github.com/acme/x, https://acme.example/base"
            ),
        )
        assert [str(place) for place in hazard.places] == ["kustomization.yaml:1", "kustomization.yaml:1"]
        assert hazard.remedies == ("put the files of the remote base into the artifact, and list them instead of it",)
        assert builder.asked == []

    def test_nothing_without_kustomize(self) -> None:
        found = preflight(tree(PATCHED), tree(PATCHED, CHANGED), PATH, None)
        sentence = "the overlay at ./ was not built: there is no kustomize"
        assert said(found) == [("unchecked", sentence)]

    @pytest.mark.parametrize("reason", ["could not be started: Permission denied", "has no room"])
    def test_nothing_where_kustomize_cannot_be_used(self, reason: str) -> None:
        """The overlay is not broken then: nobody knows."""
        (hazard,) = check(
            PATCHED,
            builder=Builder(
                dict.fromkeys((COMPONENTS.encode(), CHANGED.encode()), KustomizeUnusable(f"kustomize {reason}"))
            ),
        ).hazards
        assert hazard.certainty is Certainty.UNCHECKED
        assert hazard.sentence == f"the overlay at ./ was not built: kustomize {reason}"
        assert hazard.remedies[0].startswith("install kustomize 5 or kubectl (not a version manager's shim)")


class TestWhereNothingWasBefore:
    def test_what_fits_is_no_hazard(self) -> None:
        for files in ({PATH: COMPONENTS}, {PATH: COMPONENTS, "kustomization.yaml": {"resources": [PATH]}}):
            found = preflight(Tree(()), tree(files), PATH, None)
            assert (found.hazards, found.pruned) == ((), ())

    def test_nothing_is_broken_already_and_nothing_is_deleted(self) -> None:
        files = tree({PATH: COMPONENTS, "kustomization.yaml": {"resources": [PATH, "gone.yaml"]}})
        found = preflight(Tree(()), files, PATH, None)
        assert [hazard.certainty for hazard in found.hazards] == [Certainty.CERTAIN]
        assert "already" not in found.hazards[0].sentence
        assert found.pruned == ()

    def test_components_that_no_kustomization_lists_are_certain(self) -> None:
        files = tree({"gotk-components.yaml": COMPONENTS, "kustomization.yaml": {"resources": []}})
        (hazard,) = preflight(Tree(()), files, "gotk-components.yaml", None).hazards
        assert hazard.certainty is Certainty.CERTAIN

    def test_a_file_that_is_no_yaml_is_told_beside_components_that_a_first_kustomization_does_not_list(self) -> None:
        files = tree({"kustomization.yaml": {"resources": ["a.yaml"]}, "a.yaml": TAB})
        unlisted, broken = preflight(Tree(()), files, PATH, None).hazards
        assert (unlisted.sentence, unlisted.final) == (SOME, False)
        assert (broken.certainty, broken.final, broken.places) == (Certainty.CERTAIN, True, (Place("a.yaml", 2),))
        assert broken.sentence.startswith("the overlay at ./ cannot be built: a.yaml:2 ")

    def test_what_a_kustomization_lists_that_cannot_be_read_is_not_guessed(self) -> None:
        broken = f"resources:\n- {PATH}\n\t- limits.yaml\n".encode()
        files = Tree((TreeFile("kustomization.yaml", broken), TreeFile(PATH, COMPONENTS.encode())))
        (hazard,) = preflight(Tree(()), files, PATH, None).hazards
        assert (hazard.certainty, hazard.places) == (Certainty.CERTAIN, (Place("kustomization.yaml", 3),))
        assert hazard.sentence == (
            "the overlay at ./ cannot be built: kustomization.yaml:3 cannot be read: it is not YAML: a tab character "
            "in column 1; YAML indents with blanks"
        )


class TestWhatCannotBeBuilt:
    def test_is_certain(self) -> None:
        (hazard,) = check(PATCHED, builder=failing(new="no such thing")).hazards
        assert hazard.certainty is Certainty.CERTAIN
        assert hazard.sentence == ("the overlay at ./ cannot be built with the new components: no such thing")

    @pytest.mark.parametrize(
        ("old", "words"),
        [("no such thing", "; it is broken already"), ("another", "; with the present ones neither: another")],
    )
    def test_and_was_not_built_before(self, old: str, words: str) -> None:
        (hazard,) = check(PATCHED, builder=failing(old=old, new="no such thing")).hazards
        assert hazard.certainty is Certainty.CERTAIN
        assert hazard.sentence.endswith(f"no such thing{words}")

    def test_by_an_edit_of_the_overlay_is_not_laid_on_the_components(self) -> None:
        old, new = tree(overlay(), CHANGED), tree(PATCHED, CHANGED)
        (hazard,) = preflight(old, new, PATH, failing(new="no such thing")).hazards
        assert hazard.sentence == "the overlay at ./ cannot be built: no such thing"
        assert preflight(Tree(()), new, PATH, failing(new="no such thing")).hazards == (hazard,)
        assert hazard.remedies[0].startswith("see it with `kustomize build .` in the artifact's files")
        (named,) = preflight(old, new, PATH, failing(new="no such thing"), "own/").hazards
        assert named.remedies == ("correct the files of `own`, and run the command again",)

    def test_but_was_before_is_no_hazard(self) -> None:
        assert check(PATCHED, builder=failing(old="no such thing")).hazards == ()

    def test_names_the_patch_that_finds_nothing(self) -> None:
        files = patch([replace("/spec/template/spec/containers/0/args/1/x")], name="source-controller")
        (hazard,) = check(files).hazards
        assert [str(place) for place in hazard.places] == ["kustomization.yaml:1"]

    @pytest.mark.parametrize(
        ("before", "certainty"),
        [(None, Certainty.CERTAIN), ("another", Certainty.CERTAIN), (UNKNOWN, Certainty.POSSIBLE)],
        ids=["new", "another before", "before too"],
    )
    def test_for_an_unknown_field_is_certain_unless_clusters_ignore_it_already(
        self, before: str | None, certainty: Certainty
    ) -> None:
        builder = failing(new=UNKNOWN) if before is None else failing(old=before, new=UNKNOWN)
        (hazard,) = check(PATCHED, builder=builder).hazards
        assert hazard.certainty is certainty
        assert hazard.remedies == ("correct the field: clusters ignore it, with everything in it",)

    def test_an_unknown_field_is_told_without_kustomize_too(self) -> None:
        old, new = tree(overlay()), tree(overlay(pathces=[]))
        found = preflight(old, new, PATH, None)
        assert ("certain", "the overlay at ./ cannot be built: kustomize knows no field pathces") in said(found)
        assert [each for each in said(preflight(new, new, PATH, None)) if each[0] == "certain"] == []

    def test_is_no_yaml(self) -> None:
        builder = Builder({CHANGED.encode(): "a: ["})
        (hazard,) = check(PATCHED, builder=builder).hazards
        assert "it is not YAML" in hazard.sentence

    def test_is_told_without_kustomize_too_where_nothing_is_patched(self) -> None:
        twice = CHANGED + "---\n" + MAP
        files = {"own.yaml": MAP}
        found = preflight(tree(files), tree(files, twice), PATH, None)
        assert said(found) == [
            (
                "certain",
                (
                    "the overlay at ./ cannot be built with the new components: "
                    "ConfigMap flux-system/settings is there twice: flux-system/gotk-components.yaml:50 and own.yaml:1"
                ),
            )
        ]

    def test_is_told_without_kustomize_where_a_file_is_missing(self) -> None:
        files = overlay(patches=[{"path": "gone.yaml"}])
        found = preflight(tree(overlay()), tree(files), PATH, None)
        assert ("certain", "the overlay at ./ cannot be built: gone.yaml is not in the artifact") in said(found)

    def test_is_told_from_a_build_without_marks(self) -> None:
        builder = Builder(only_marked={CHANGED.encode(): CHANGED})
        (hazard,) = check(patch([replace("/rules/7/verbs")], kind="ClusterRole"), builder=builder).hazards
        assert hazard.sentence.endswith("doc is missing path: /rules/7/verbs: missing value; it is broken already")

    def test_is_one_line_and_no_longer_than_one_reads(self) -> None:
        (hazard,) = check(PATCHED, builder=failing(new="a\n::error::\x1b[31m" + "x" * 5000)).hazards
        assert hazard.sentence.isprintable()
        assert len(hazard.sentence) == 1003


class TestWhatNoClusterCanBuild:
    """It is refused for good where the step breaks it, or changes what is broken."""

    @pytest.mark.parametrize("content", [TAB, 'a: "b\n', CONFLICT], ids=["a tab", "a quote", "a conflict"])
    @pytest.mark.parametrize("name", ["own.yaml", "new.yaml"])
    @pytest.mark.parametrize("listed", [True, False], ids=["listed", "found"])
    def test_is_a_file_that_is_not_yaml(self, content: str, name: str, listed: bool) -> None:
        files: dict[str, object] = {"own.yaml": MAP}
        before, after = files, files | {name: content}
        if listed:
            before = before | {"kustomization.yaml": {"resources": [PATH, "own.yaml"]}}
            after = after | {"kustomization.yaml": {"resources": [PATH, *{"own.yaml", name}]}}
        (hazard,) = preflight(tree(before), tree(after), PATH, None, "mine").hazards
        (place,) = hazard.places
        assert (hazard.certainty, hazard.final, place.file) == (Certainty.CERTAIN, True, name)
        assert hazard.sentence.startswith(
            f"the overlay at ./ cannot be built: {name}:{place.line} cannot be read: it is"
        )
        assert hazard.remedies == (f"correct `mine/{name}:{place.line}`, and run the command again",)

    def test_is_a_patch_that_is_not_yaml_and_its_line_is_told(self) -> None:
        files = overlay(patches=[{"path": "patch.yaml"}]) | {"patch.yaml": TAB}
        reason = 'trouble configuring PatchTransformer: unable to parse SM or JSON patch from [path: "patch.yaml"]'
        for builder in (failing(new=reason), None):
            hazard = preflight(tree({}, CHANGED), tree(files, CHANGED), PATH, builder).hazards[0]
            assert (hazard.final, hazard.places) == (True, (Place("patch.yaml", 2),))
            assert "cannot be built: patch.yaml:2 cannot be read: it is not YAML: a tab" in hazard.sentence

    def test_names_a_conflict_of_git(self) -> None:
        (hazard,) = preflight(tree({"own.yaml": MAP}), tree({"own.yaml": CONFLICT}), PATH, None).hazards
        assert "own.yaml:2 cannot be read: it is not YAML: <<<<<<< is a conflict marker of Git" in hazard.sentence

    @pytest.mark.parametrize("broken", ["kustomization.yaml", "own.yaml"])
    def test_is_told_of_one_folder_of_several(self, broken: str) -> None:
        then = {**CLUSTERS, f"clusters/b/{broken}": CONFLICT}
        (hazard,) = preflight(tree(CLUSTERS), tree(then), PATH, None).hazards
        assert (hazard.final, hazard.places) == (True, (Place(f"clusters/b/{broken}", 2),))

    def test_may_be_for_the_release_alone(self) -> None:
        (hazard,) = check(PATCHED, builder=failing(new="no such thing")).hazards
        assert hazard.final

    @pytest.mark.parametrize("before", ["no such thing", "another"])
    def test_does_not_hold_up_a_release_where_it_is_broken_already(self, before: str) -> None:
        (hazard,) = check(PATCHED, builder=failing(old=before, new="no such thing")).hazards
        assert (hazard.certainty, hazard.final) == (Certainty.CERTAIN, False)

    def test_nor_a_change_of_other_files_but_a_change_of_that_file(self) -> None:
        broken = {**CLUSTERS, "clusters/b/own.yaml": TAB}
        (hazard,) = preflight(tree(broken), tree({**broken, "clusters/a/notes.txt": "x"}), PATH, None).hazards
        assert (hazard.certainty, hazard.final) == (Certainty.CERTAIN, False)
        assert hazard.sentence.endswith("; it is broken already")
        (hazard,) = preflight(tree(broken), tree({**broken, "clusters/b/own.yaml": f"{TAB}\n"}), PATH, None).hazards
        assert hazard.final

    def test_is_the_next_file_behind_the_one_that_is_broken_already(self) -> None:
        broken = {"a.yaml": TAB, "b.yaml": MAP, "kustomization.yaml": {"resources": [PATH, "a.yaml", "b.yaml"]}}
        found = preflight(tree(broken), tree({**broken, "b.yaml": TAB}), PATH, None).hazards
        assert [(it.places[0].file, it.final) for it in found] == [("a.yaml", False), ("b.yaml", True)]

    def test_is_a_broken_kustomization_that_is_broken_in_another_way(self) -> None:
        old, new = (tree({"kustomization.yaml": each}) for each in (TAB, CONFLICT))
        (hazard,) = preflight(old, new, PATH, None).hazards
        assert (hazard.certainty, hazard.final) == (Certainty.CERTAIN, True)
        same = preflight(old, tree({"kustomization.yaml": TAB}, CHANGED), PATH, None).hazards
        assert [(it.certainty, it.final) for it in same] == [(Certainty.POSSIBLE, False)]

    def test_is_told_without_kustomize_too(self) -> None:
        then = PATCHED | {"kustomization.yaml": {"resources": [PATH, "own.yaml"], "namespace": "x"}, "own.yaml": TAB}
        found = preflight(tree(PATCHED), tree(then), PATH, None).hazards
        assert [(str(it.certainty), it.final) for it in found] == [("certain", True), ("unchecked", False)]

    @pytest.mark.parametrize(
        "then",
        [
            pytest.param(DEEP, id="deeper than is read here"),
            pytest.param(overlay(pathces=[]), id="a field that clusters ignore"),
        ],
    )
    def test_is_nothing_that_a_cluster_may_build(self, then: dict[str, object]) -> None:
        found = preflight(tree({"own.yaml": MAP}), tree(then), PATH, None).hazards
        assert found[0].certainty is Certainty.CERTAIN
        assert not any(it.final for it in found)

    def test_is_not_what_this_machine_gave_up(self) -> None:
        (hazard,) = check(PATCHED, builder=Builder({CHANGED.encode(): BuildStopped("stopped")})).hazards
        assert (hazard.certainty, hazard.final) == (Certainty.CERTAIN, False)

    def test_may_be_on_purpose_in_a_first_artifact_without_a_kustomization(self) -> None:
        (hazard,) = preflight(Tree(()), tree({"template.yaml": TAB}), PATH, None).hazards
        assert (hazard.certainty, hazard.final, hazard.places) == (
            Certainty.POSSIBLE,
            False,
            (Place("template.yaml", 2),),
        )
        assert "cannot be built, so only clusters whose path is ./flux-system get Flux: template" in hazard.sentence
        assert preflight(tree({"template.yaml": TAB}), tree({"template.yaml": f"{TAB}\n"}), PATH, None).hazards == ()

    def test_is_no_file_of_values_where_nothing_lists_it(self) -> None:
        assert preflight(tree({"own.yaml": MAP}), tree({"own.yaml": "a: 1\n"}), PATH, None).hazards == ()
        assert preflight(Tree(()), tree({"own.yaml": "a: 1\n"}), PATH, None).hazards == ()


class TestAFolderThatLosesTheComponents:
    def test_is_told_beside_one_that_has_them(self) -> None:
        then = {**CLUSTERS, "clusters/b/kustomization.yaml": {"resources": ["own.yaml"]}}
        assert said(preflight(tree(CLUSTERS), tree(then), PATH, None)) == [
            (
                "possible",
                "the overlay at ./clusters/b leaves out helm-controller: a Kustomization that prunes deletes it",
            ),
            (
                "certain",
                "the overlay at ./clusters/b leaves out source-controller: a Kustomization that prunes deletes it",
            ),
        ]

    def test_is_not_told_if_it_goes_or_becomes_a_part_of_another(self) -> None:
        gone = {path: it for path, it in CLUSTERS.items() if not path.startswith("clusters/b")}
        assert preflight(tree(CLUSTERS), tree(gone), PATH, None).hazards == ()
        parent = {**CLUSTERS, "clusters/c/kustomization.yaml": {"resources": ["../b"]}}
        assert preflight(tree(CLUSTERS), tree(parent), PATH, None).hazards == ()


class TestWhatHitsNothingAnyMore:
    @pytest.mark.parametrize(
        ("files", "sentence"),
        [
            pytest.param(
                overlay(patches=[{"target": {"name": "helm-controller"}, "patch": REPLICAS}]),
                "the patch of objects helm-controller matched Deployment flux-system/helm-controller, and matches "
                "nothing of the new components",
                id="a patch",
            ),
            pytest.param(
                overlay(images=[{"name": "ghcr.io/fluxcd/helm-controller", "newTag": "x"}]),
                "the image ghcr.io/fluxcd/helm-controller matched Deployment flux-system/helm-controller, and matches "
                "nothing of the new components",
                id="an image",
            ),
            pytest.param(
                REPLACED,
                "the replacement in objects helm-.* matched Deployment flux-system/helm-controller, and matches "
                "nothing "
                "of the new components",
                id="a replacement",
            ),
        ],
    )
    def test_is_certain(self, files: Mapping[str, object], sentence: str) -> None:
        found = check(files, WITHOUT_HELM)
        assert said(found) == [("certain", sentence)]
        assert [str(place) for place in found.hazards[0].places] == ["kustomization.yaml:1"]

    def test_says_what_is_there_instead(self) -> None:
        (hazard,) = check(overlay(patches=[{"target": {"name": "helm-.*"}, "patch": REPLICAS}]), WITHOUT_HELM).hazards
        assert hazard.remedies == (
            (
                "kustomization.yaml:1: name what it is meant for, or remove patches[0]; there is "
                "Deployment flux-system/source-controller"
            ),
        )

    def test_a_name_and_a_namespace(self) -> None:
        only = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x}\n"
        found = check(overlay(namespace="gitops", namePrefix="our-"), only)
        lost = [hazard for hazard in found.hazards if hazard.certainty is Certainty.CERTAIN]
        assert [hazard.sentence.partition(" matched ")[0] for hazard in lost] == ["namespace gitops", "namePrefix our-"]
        assert [hazard.remedies[0].partition(": ")[0] for hazard in lost] == ["kustomization.yaml:1"] * 2

    def test_and_never_did_is_advice(self) -> None:
        found = check(overlay(patches=[{"target": {"name": "ghost"}, "patch": REPLICAS}]))
        assert said(found) == [("advice", "the patch of objects ghost matches nothing")]

    def test_and_may_do_so_in_a_remote_base_is_none(self) -> None:
        files = overlay(resources=[PATH, "github.com/a/b"], images=[{"name": "ghost"}])
        assert [name for name, _ in said(check(files))] == ["certain"]

    def test_one_of_several_is_possible(self) -> None:
        files = overlay(patches=[{"target": {"kind": "Deployment", "labelSelector": "part-of"}, "patch": REPLICAS}])
        assert said(check(files, UNLABELED)) == [
            (
                "possible",
                (
                    "the patch of Deployment with part-of does not match Deployment flux-system/helm-controller "
                    "any more, "
                    "which is still there"
                ),
            )
        ]
        assert check(files, WITHOUT_HELM).hazards == ()

    def test_many_are_counted(self) -> None:
        maps = "---\n".join(MAP.replace("settings", f"s{number}") for number in range(10))
        files = overlay(patches=[{"target": {"kind": "ConfigMap"}, "patch": "kind: A\nmetadata: {name: a}"}])
        old, new = tree(files, f"{COMPONENTS}---\n{maps}"), tree(files)
        assert (
            "ConfigMap flux-system/s7 and 2 more, and matches"
            in preflight(old, new, PATH, Builder()).hazards[0].sentence
        )

    def test_is_acknowledged_by_all_that_it_says(self) -> None:
        def fingerprint(text: str) -> str:
            files = overlay(patches=[{"target": {"name": "helm-.*"}, "patch": text}])
            return check(files, WITHOUT_HELM).hazards[0].fingerprint

        assert fingerprint(REPLICAS) == fingerprint(REPLICAS)
        assert fingerprint(REPLICAS) != fingerprint(REPLICAS.replace("2", "3"))


class TestWhatMeansSomethingElse:
    def test_a_rule_by_its_number(self) -> None:
        (hazard,) = check(patch([replace("/rules/1/verbs", [])], kind="ClusterRole"), MORE_RULES).hazards
        assert hazard.certainty is Certainty.CERTAIN
        assert hazard.sentence == (
            "the patch of ClusterRole means /rules/1 of ClusterRole crd-controller: that was "
            '{"apiGroups": [""], "resources": ["tokens"], "verbs": ["create"]} and is '
            '{"apiGroups": ["source"], "resources": ["*"], "verbs": ["*"]} in the new components; '
            "the former is number 2 now"
        )
        assert hazard.remedies[0] == "kustomization.yaml:1: change the number 1 in /rules/1 to 2"

    def test_an_argument_that_is_gone(self) -> None:
        files = patch([replace("/spec/template/spec/containers/0/args/0", "x")], name="source-controller")
        (hazard,) = check(files, FEWER_ARGS).hazards
        assert "that was --log-level=info and is --storage-path=/data in the new components" in hazard.sentence
        assert hazard.sentence.endswith("; the former is gone")
        assert len(hazard.remedies) == 1

    def test_is_told_once_for_each_way(self) -> None:
        operations = [replace("/rules/1/verbs/0"), replace("/rules/1/resources/0"), replace("/rules/0/verbs/0")]
        found = check(patch(operations, kind="ClusterRole"), MORE_RULES)
        assert [hazard.sentence.split()[5] for hazard in found.hazards] == ["/rules/1", "/rules/0"]

    def test_may_be_the_same_edited(self) -> None:
        edited = MORE_RULES.replace("tokens", "tickets")
        (hazard,) = check(patch([replace("/rules/1/verbs", [])], kind="ClusterRole"), edited).hazards
        assert hazard.certainty is Certainty.POSSIBLE

    @pytest.mark.parametrize(
        "operations",
        [
            [{"op": "add", "path": "/rules/0", "value": {}}],
            [{"op": "add", "path": "/rules/-", "value": {}}],
            [replace("/aggregationRule")],
        ],
        ids=["put before", "put behind", "no number"],
    )
    def test_what_means_nothing_by_number_is_none(self, operations: list[dict[str, Any]]) -> None:
        assert check(patch(operations, kind="ClusterRole"), MORE_RULES).hazards == ()

    def test_a_patch_that_is_new_is_none(self) -> None:
        files = patch([replace("/rules/1/verbs", [])], kind="ClusterRole")
        assert check(overlay(), MORE_RULES, then=files).hazards == ()

    def test_an_object_that_is_new_is_none(self) -> None:
        role = "apiVersion: v1\nkind: ClusterRole\nmetadata: {name: new}\nrules: [{verbs: [x]}, {verbs: [y]}]\n"
        files = patch([replace("/rules/1/verbs", [])], kind="ClusterRole")
        assert check(files, f"{COMPONENTS}---\n{role}").hazards == ()

    def test_a_test_before_it_is_enough(self) -> None:
        rule = {"apiGroups": [""], "resources": ["tokens"], "verbs": ["create"]}
        operations = [{"op": "test", "path": "/rules/1", "value": rule}, replace("/rules/1/verbs", [])]
        (hazard,) = check(patch(operations, kind="ClusterRole"), MORE_RULES).hazards
        assert "cannot be built with the new components: testing value /rules/1 failed" in hazard.sentence

    def test_a_number_that_begins_like_another_one_is_told_too(self) -> None:
        rules = [{"verbs": [f"v{number}"]} for number in range(12)]
        role = {"apiVersion": "v1", "kind": "ClusterRole", "metadata": {"name": "own"}}
        before, after = (f"{COMPONENTS}---\n{json.dumps(role | {'rules': its})}\n" for its in (rules, rules[::-1]))
        files = patch([replace("/rules/1/verbs"), replace("/rules/11/verbs")], name="own")
        found = preflight(tree(files, before), tree(files, after), PATH, Builder()).hazards
        assert [hazard.sentence.partition(" means ")[2][:9] for hazard in found] == ["/rules/1 ", "/rules/11"]


class TestWhatCouldNotBeFollowed:
    @pytest.mark.parametrize("which", [COMPONENTS, CHANGED], ids=["before", "after"])
    @pytest.mark.parametrize("answer", [BuildFailed("a mark in the way"), "a: ["], ids=["not built", "no YAML"])
    def test_is_not_checked_where_kustomize_builds_it(self, which: str, answer: str | BuildFailed) -> None:
        found = check(PATCHED, builder=Builder(only_marked={which.encode(): answer}))
        ((certainty, sentence),) = [each for each in said(found) if each[0] != "advice"]
        assert certainty == "unchecked"
        assert sentence.startswith("the overlay at ./ is built, but what its rules hit could not be followed: ")

    @pytest.mark.parametrize("forged", ["fluxManifestsGone-0: x", "data: {it: x.fluxManifestsImage-0.}"])
    def test_is_not_checked_where_an_object_brings_marks(self, forged: str) -> None:
        builder = Builder({CHANGED.encode(): f"{CHANGED}---\n{MAP}{forged}\n", COMPONENTS.encode(): COMPONENTS})
        hazards = check(PATCHED, builder=builder).hazards
        (hazard,) = [each for each in hazards if each.certainty is Certainty.UNCHECKED]
        assert "could not be followed: an object says itself what the marks" in hazard.sentence

    def test_is_not_checked_where_we_do_not_read_a_patch(self) -> None:
        files = overlay(patches=[{"target": {"kind": "Deployment"}, "patch": "a: ["}])
        (hazard,) = check(files, builder=Builder({CHANGED.encode(): CHANGED, COMPONENTS.encode(): COMPONENTS})).hazards
        assert hazard.certainty is Certainty.UNCHECKED
        assert "could not be followed: it is not YAML" in hazard.sentence


class TestClustersThatDoNotGetTheComponents:
    def test_may_be_some(self) -> None:
        assert said(check(OTHER)) == [
            (
                "possible",
                SOME,
            )
        ]

    def test_may_be_all(self) -> None:
        files = {"flux-system/kustomization.yaml": {"resources": ["own.yaml"]}, "flux-system/own.yaml": MAP}
        ((certainty, sentence),) = said(check(files))
        assert certainty == "possible"
        assert sentence.endswith("do not get Flux's components, and delete Flux if they prune")

    @pytest.mark.parametrize("before", [{}, overlay()], ids=["made", "listed"])
    def test_are_certain_where_they_got_them_before(self, before: dict[str, object]) -> None:
        found = check(before, then=OTHER)
        assert [each for each in said(found) if each[0] == "certain"] == [
            (
                "certain",
                SOME,
            )
        ]


class TestControllersThatTheOverlayLeavesOut:
    LEAVING: ClassVar = overlay(patches=[DELETED])
    TOLD: ClassVar = {
        ("possible", f"{LEFT_OUT} helm-controller: a Kustomization that prunes deletes it"),
        ("certain", f"{LEFT_OUT} source-controller: a Kustomization that prunes deletes it"),
    }

    def test_are_certain_where_no_update_would_come_without_them(self) -> None:
        assert set(said(check(overlay(), then=self.LEAVING))) == self.TOLD
        assert set(said(preflight(Tree(()), tree(self.LEAVING, CHANGED), PATH, Recorded()))) == self.TOLD

    def test_are_none_where_they_were_left_out_before(self) -> None:
        assert said(check(self.LEAVING)) == []

    def test_are_none_that_have_another_name_now(self) -> None:
        assert said(check(overlay(), then=overlay(namePrefix="own-"))) == []


class TestWhatAPruneDeletes:
    def test_is_what_is_not_there_any_more(self) -> None:
        files = {"own.yaml": MAP}
        found = check(files, then={"own.yaml": MAP.replace("settings", "others")})
        assert [str(each) for each in found.pruned] == ["ConfigMap flux-system/settings"]
        assert found.hazards == ()

    def test_is_what_was_built(self) -> None:
        found = check(overlay(), then=overlay(namespace="gitops", namePrefix="own-"))
        assert "Deployment flux-system/source-controller" in map(str, found.pruned)

    def test_is_also_what_is_within_another_object_as_clusters_take_it_apart(self) -> None:
        holder = "apiVersion: v1\nkind: Template\nmetadata: {name: own}\nitems:\n- " + MAP.replace("\n", "\n  ")
        builder = Builder({COMPONENTS.encode(): holder})
        assert "ConfigMap flux-system/settings" in map(str, check(PATCHED, builder=builder).pruned)

    def test_is_seen_without_a_build_where_the_one_before_fails(self) -> None:
        found = check(
            PATCHED, WITHOUT_HELM, Builder({COMPONENTS.encode(): BuildFailed("x"), WITHOUT_HELM.encode(): WITHOUT_HELM})
        )
        assert [str(each) for each in found.pruned] == ["Deployment flux-system/helm-controller"]

    def test_is_nothing_where_a_build_fails(self) -> None:
        assert check(PATCHED, WITHOUT_HELM, Builder({WITHOUT_HELM.encode(): BuildFailed("x")})).pruned == ()

    def test_is_nothing_of_a_folder_that_cannot_be_built_beside_one_that_can(self) -> None:
        files = {**CLUSTERS, "clusters/a/more.yaml": MAP.replace("settings", "others")}
        files["clusters/a/kustomization.yaml"] = {"resources": [f"../../{PATH}", "more.yaml"]}
        then = {**CLUSTERS, "clusters/b/own.yaml": TAB}
        found = preflight(tree(files), tree(then), PATH, None)
        assert [str(each) for each in found.pruned] == ["ConfigMap flux-system/others"]

    def test_with_what_is_in_it_is_possible(self) -> None:
        own = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: own}\n"
        files = {"own.yaml": own, "space.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: space}\n"}
        assert said(check(files, then={})) == [
            (
                "possible",
                (
                    "Namespace space is not applied any more: a Kustomization that prunes deletes it, "
                    "with everything in it"
                ),
            ),
            (
                "possible",
                (
                    "CustomResourceDefinition own is not applied any more: a Kustomization that prunes deletes "
                    "it, with "
                    "every object of its kind"
                ),
            ),
        ]

    def test_by_the_release_itself_is_told_by_another_gate(self) -> None:
        without = COMPONENTS.replace("kind: CustomResourceDefinition", "kind: Other")
        found = check({}, without)
        assert [str(each) for each in found.pruned] == ["CustomResourceDefinition buckets.source"]
        assert found.hazards == ()


def test_several_ways_tell_the_same_once() -> None:
    base = {"resources": ["../../base"]}
    files = {
        "base/kustomization.yaml": {
            "resources": [f"../{PATH}"],
            "images": [{"name": "ghcr.io/fluxcd/helm-controller"}],
        },
        "clusters/a/kustomization.yaml": base,
        "clusters/b/kustomization.yaml": base,
    }
    assert len(check(files, WITHOUT_HELM).hazards) == 1
