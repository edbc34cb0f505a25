"""A bootstrapped folder: what is left out, what covers it, what it refers to, its Secrets, and edits as patches."""

from __future__ import annotations

import pytest
import yaml

from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.impact.overlay.bootstrapped import (
    UnfitBootstrap,
    covering,
    edits_as_patches,
    outside,
    patches_of_sync,
    without_sync,
)
from ci_automation.impact.overlay.secrets import plain_secrets

LISTED = "resources:\n- gotk-components.yaml\n- gotk-sync.yaml\n"
SYNC = """\
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: flux-system, namespace: flux-system}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: flux-system, namespace: flux-system}
spec: {path: PATH, sourceRef: {kind: GitRepository, name: flux-system}}
"""
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
FOLDER = "clusters/production/flux-system"


def tree(**files: str) -> Tree:
    named = {name.replace("__", "/").replace("_DOT_", ".").replace("_DASH_", "-"): text for name, text in files.items()}
    return Tree(tuple(TreeFile(name, text.encode()) for name, text in named.items()))


def folder(kustomization: str | None = LISTED, sync: str | None = SYNC, **more: str) -> Tree:
    given = {"kustomization.yaml": kustomization, "gotk-sync.yaml": sync}
    own = tuple(TreeFile(name, text.encode()) for name, text in given.items() if text is not None)
    return Tree((*own, *tree(**more).files))


class TestSync:
    @pytest.mark.parametrize(
        "line", ["- gotk-sync.yaml\n", "  - ./gotk-sync.yaml # of Git\n", '- "gotk-sync.yaml"', "- 'gotk-sync.yaml'\n"]
    )
    def test_it_is_left_out_with_its_line_and_all_else_keeps_its_bytes(self, line: str) -> None:
        indent = line[: len(line) - len(line.lstrip())]
        before = f"# ours\nresources:\n{indent}- gotk-components.yaml\n"
        left = without_sync(folder(before + line))
        assert left.by_path.keys() == {"kustomization.yaml"}
        assert left["kustomization.yaml"].decode() == before

    @pytest.mark.parametrize(
        ("listed", "left"),
        [
            ("[gotk-components.yaml, gotk-sync.yaml]", "[gotk-components.yaml]"),
            ("[ './gotk-sync.yaml',gotk-components.yaml ] # ours", "[gotk-components.yaml ] # ours"),
            ("[\n  gotk-components.yaml,\n  gotk-sync.yaml,\n]", "[\n  gotk-components.yaml,\n]"),
            ("[ gotk-components.yaml ]", "[ gotk-components.yaml ]"),
        ],
    )
    def test_it_is_left_out_of_a_list_in_one_line(self, listed: str, left: str) -> None:
        written = without_sync(folder(f"resources: {listed}\npatches: [{{path: gotk-sync.yaml}}]\n"))
        assert written["kustomization.yaml"].decode() == f"resources: {left}\npatches: [{{path: gotk-sync.yaml}}]\n"

    def test_nothing_is_done_where_it_is_not_there_or_not_listed(self) -> None:
        assert without_sync(folder(sync=None)) == folder(sync=None)
        assert without_sync(folder(None)) == Tree(())

    @pytest.mark.parametrize("listed", ["resources: [a.yaml, # ours\n  gotk-sync.yaml]\n", "resources: [\n"])
    def test_a_list_that_cannot_be_edited_is_refused(self, listed: str) -> None:
        with pytest.raises(UnfitBootstrap):
            without_sync(folder(listed))


@pytest.mark.parametrize(
    ("patches", "lines"),
    [
        ("patches:\n- {target: {kind: Kustomization, name: flux-system}, patch: '[]'}\n", [4]),
        ("patches:\n- {target: {kind: Deployment}, patch: '[]'}\n- {path: ours.yaml}\n- {path: ./of/git.yaml}\n", [6]),
        ("patches:\n- patch: '{kind: GitRepository}'\n- patch: '['\n- x\n", [4]),
        ("patchesStrategicMerge:\n- ours.yaml\n- of/git.yaml\n", [5]),
        ("patchesStrategicMerge:\n- '{kind: GitRepository}'\n", [4]),
        ("patchesJson6902:\n- {target: {kind: GitRepository}, path: absent.yaml}\n", [4]),
        ("", []),
    ],
)
def test_patches_of_the_sync_objects_are_told_by_their_places(patches: str, lines: list[int]) -> None:
    files = {"ours_DOT_yaml": "kind: Deployment\n", "of__git_DOT_yaml": "kind: GitRepository\n"}
    found = patches_of_sync(folder(f"# ours\nresources: [gotk-components.yaml]\n{patches}", **files))
    assert found == tuple(f"kustomization.yaml:{line}" for line in lines)


def test_no_kustomization_patches_nothing() -> None:
    assert patches_of_sync(folder(None)) == ()


class TestCovering:
    @pytest.mark.parametrize("path", ["./clusters/production", "clusters", "", ".", f"./{FOLDER}/", f"{FOLDER}/inner"])
    def test_a_path_that_holds_the_folder_or_a_part_of_it_covers_it(self, path: str) -> None:
        (found,) = covering(folder(sync=SYNC.replace("PATH", f'"{path}"')), FOLDER)
        assert str(found).startswith("flux-system/flux-system (path ./")

    def test_commands_for_it_need_its_namespace_its_name_and_that_of_its_source(self) -> None:
        sync = SYNC.replace("PATH", ".").replace("GitRepository, name: flux-system", "GitRepository, name: fleet")
        sync = sync.replace("{name: flux-system, namespace: flux-system}\nspec", "{name: all, namespace: flux}\nspec")
        (found,) = covering(folder(sync=sync), FOLDER)
        assert found.names == ("flux", "all", "fleet")

    @pytest.mark.parametrize("path", ["./clusters/prod", "./apps", f"./{FOLDER}-2"])
    def test_another_path_does_not(self, path: str) -> None:
        sync = SYNC.replace("PATH", path)
        assert covering(folder(sync=sync), FOLDER) == ()
        assert len(covering(folder(sync=sync), None)) == 1

    def test_one_that_applies_an_artifact_or_no_file_does_not(self) -> None:
        assert covering(folder(sync=SYNC.replace("kind: GitRepository, ", "kind: OCIRepository, ")), None) == ()
        assert covering(folder(sync=None), None) == ()
        with pytest.raises(UnfitBootstrap, match="it is not YAML"):
            covering(folder(sync="["), None)


class TestOutside:
    @pytest.mark.parametrize(
        "text",
        [
            "resources: [../base]\n",
            "resources: [https://example.com/a.yaml]\n",
            "components: [github.com/acme/base]\n",
            "patches: [{path: /etc/passwd}]\n",
            "configMapGenerator: [{name: a, files: [a=../../b]}]\n",
            "resources: [git@github.com:acme/base]\n",
            "resources: [alice@git.example:acme/base]\n",
            "resources: ['git::alice@git.example:acme/base']\n",
            "resources: [GitHub.com/acme/base]\n",
        ],
    )
    def test_what_is_not_in_the_folder_is_named_with_its_place(self, text: str) -> None:
        (found,) = outside(folder(text))
        assert "(kustomization.yaml" in found

    def test_what_is_in_it_is_not(self) -> None:
        inner = "resources: [../a.yaml]\nconfigMapGenerator: [{name: a, env: b.env, literals: [c=d]}, x]\n"
        assert outside(folder(inner__kustomization_DOT_yaml=inner)) == ()

    def test_a_kustomization_that_is_none_is_refused(self) -> None:
        with pytest.raises(UnfitBootstrap):
            outside(folder("[]"))
        with pytest.raises(UnfitBootstrap, match="not UTF-8"):
            outside(Tree((TreeFile("kustomization.yaml", b"\xff"),)))


class TestSecrets:
    @pytest.mark.parametrize(
        ("files", "found"),
        [
            ({"a_DOT_yaml": "kind: Secret\ndata: {a: Yg==}\n"}, ("a.yaml",)),
            (
                {"a_DOT_json": '{"kind": "List", "items": [1, {"kind": "Secret", "stringData": {"a": "b"}}]}'},
                ("a.json",),
            ),
            ({"a_DOT_yaml": "kind: Secret\nstringData: {a: 'ENC[AES256_GCM,data:x]'}\n"}, ()),
            ({"a_DOT_json": '{"kind": "SecretList", "items": [{"data": {"a": "Yg=="}}]}'}, ("a.json",)),
            (
                {"a_DOT_yaml": "kind: Secret\nmetadata: {annotations: {" + APPLIED + ": '{}'}}\n"},
                ("a.yaml",),
            ),
            ({"a_DOT_yaml": "kind: Secret\nmetadata: {name: a}\n", "b_DOT_txt": "kind: Secret"}, ()),
            ({"a_DOT_yaml": "kind: ConfigMap\ndata: {a: b}\n---\n[]\n"}, ()),
        ],
    )
    def test_one_in_plain_text_is_found(self, files: dict[str, str], found: tuple[str, ...]) -> None:
        assert plain_secrets(folder(**files)) == found

    def test_what_one_is_generated_from_is_found(self) -> None:
        made = "secretGenerator: [{name: a, literals: [b=c]}, {name: b, envs: [x.env], files: [k=y.enc]}]\n"
        held = folder(made, x_DOT_env="A=b", y_DOT_enc="ENC[AES256_GCM,data:x]")
        assert plain_secrets(held) == ("kustomization.yaml", "x.env")
        assert plain_secrets(folder("configMapGenerator: [{name: a, literals: [b=c]}]\n")) == ()

    @pytest.mark.parametrize(
        "written",
        [
            "patches: [{patch: 'PLAIN'}]\n",
            "patches: [{path: a.yaml}]\npatchesStrategicMerge: ['PLAIN', 'b.yaml', '[']\n",
        ],
    )
    def test_a_patch_in_a_kustomization_can_hold_one(self, written: str) -> None:
        plain = "{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {b: c}}"
        assert plain_secrets(folder(written.replace("PLAIN", plain))) == ("kustomization.yaml",)
        assert plain_secrets(folder(written.replace("PLAIN", "[{op: add}]"))) == ()

    @pytest.mark.parametrize("path", ["data/a", "stringData/a", "stringData"])
    @pytest.mark.parametrize("key", ["patches", "patchesJson6902"])
    def test_operations_on_one_can_hold_its_data(self, key: str, path: str) -> None:
        patch = f"[{{op: add, path: /{path}, value: b}}, {{op: add, path: /metadata/labels/a, value: b}}]"
        named = f"{key}: [{{path: p.yaml, target: {{kind: Secret}}}}, {{path: q.yaml, target: {{kind: ConfigMap}}}}]\n"
        assert plain_secrets(folder(named, p_DOT_yaml=patch, q_DOT_yaml=patch)) == ("p.yaml",)
        written = f"{key}: [{{patch: '{patch}', target: {{kind: Secret}}}}]\n"
        assert plain_secrets(folder(written)) == ("kustomization.yaml",)
        assert plain_secrets(folder(written.replace("value: b}, ", 'value: "ENC[AES256_GCM"}, '))) == ()
        assert plain_secrets(folder(written.replace("add", "remove").replace(", value: b", ""))) == ()

    def test_a_patch_of_one_may_say_another_kind(self) -> None:
        named = "patches: [{path: p.yaml, target: {kind: Secret}}, {path: absent.yaml, target: {kind: Secret}}]\n"
        assert plain_secrets(folder(named, p_DOT_yaml="kind: Any\nstringData: {a: b}\n")) == ("p.yaml",)
        assert plain_secrets(folder(named, p_DOT_yaml="kind: Any\nmetadata: {labels: {a: b}}\n")) == ()

    def test_the_plugin_that_generates_one_is_found(self) -> None:
        plugin = "apiVersion: builtin\nkind: SecretGenerator\nmetadata: {name: a}\n"
        listed = "generators: [g.yaml]\n"
        assert plain_secrets(folder(listed, g_DOT_yaml=f"{plugin}literals: [a=b]\n")) == ("g.yaml",)
        assert plain_secrets(folder(listed, g_DOT_yaml=f"{plugin}envs: [x]\n", x="A=b")) == ("x",)
        assert plain_secrets(folder(listed, g_DOT_yaml=f"{plugin}envs: [x]\n", x="A=ENC[AES256_GCM")) == ()
        inline = "".join(f"    {line}\n" for line in f"{plugin}literals: [a=b]".split("\n"))
        assert plain_secrets(folder(f"generators:\n- |\n{inline}")) == ("kustomization.yaml",)

    @pytest.mark.parametrize("kind", ["Secret", "Sec.*", ""])
    @pytest.mark.parametrize("way", ["patches", "file", "inline"])
    def test_a_patch_whose_target_may_be_one_is_found(self, kind: str, way: str) -> None:
        """Kustomize takes the kind of a target for a pattern, and patches by its own plugins too."""

        def found(patch: str, **more: str) -> tuple[str, ...]:
            target = f"{{kind: '{kind}', name: a}}" if kind else "{name: a}"
            entry = f"{{kind: PatchTransformer, target: {target}, patch: '{patch}'}}"
            written = f"transformers: [{{}}, {yaml.safe_dump(entry).strip()}]\n" if way == "inline" else ""
            if way == "patches":
                written = f"patches: [{{target: {target}, patch: '{patch}'}}]\n"
            files = {"a_DOT_yaml": "kind: Secret\n"} | ({"t_DOT_yaml": entry} if way == "file" else {}) | more
            return plain_secrets(folder(written or "transformers: [t.yaml]\n", **files))

        here = ("t.yaml" if way == "file" else "kustomization.yaml",)
        for plain in ("[{op: add, path: /data/a, value: b}]", "{kind: Any, stringData: {a: b}}"):
            assert found(plain) == here
            assert found(plain, a_DOT_yaml="kind: ConfigMap\n") == (here if kind == "Secret" else ())
        assert found("{kind: ConfigMap, data: {a: b}}") == (here if kind == "Secret" else ())

    def test_what_one_is_merged_with_is_found(self) -> None:
        merging = "kind: PatchStrategicMergeTransformer\npatches: '{kind: Secret, stringData: {a: b}}'\n"
        assert plain_secrets(folder("transformers: [t.yaml]\n", t_DOT_yaml=merging)) == ("t.yaml",)
        json = "kind: PatchJson6902Transformer\ntarget: {kind: Secret}\njsonOp: '[{op: add, path: /data, value: {}}]'\n"
        assert plain_secrets(folder("transformers: [t.yaml]\n", t_DOT_yaml=json)) == ("t.yaml",)

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
    @pytest.mark.parametrize(
        ("files", "found"),
        [
            ({"a.yaml": "kind: Secret\nstringData: {a: b}\n"}, "a.yaml"),
            ({"a": "kind: Secret\nstringData: {a: b}\n"}, "a"),
            ({"kustomization.yaml": "secretGenerator: [{name: a, literals: [b=c]}]\n"}, "kustomization.yaml"),
            (
                {
                    "a.yaml": "kind: Secret\n",
                    "kustomization.yaml": "patches: [{path: p.yaml, target: {name: a}}]\n",
                    "p.yaml": "[{op: add, path: /stringData, value: {a: b}}]\n",
                },
                "p.yaml",
            ),
        ],
    )
    def test_one_in_utf_16_is_found(self, files: dict[str, str], found: str, encoding: str) -> None:
        """PowerShell writes it, and kustomize reads it."""
        written = (
            TreeFile(name, (text if encoding == "utf-16" else f"\ufeff{text}").encode(encoding))
            for name, text in sorted(files.items())
        )
        assert plain_secrets(Tree((*written,))) == (found,)

    def test_a_file_that_cannot_be_read_hides_no_other(self) -> None:
        made = "secretGenerator: [{name: a, literals: [b=c]}]\npatches: [{path: p.txt, target: {kind: Secret}}]\n"
        held = folder(made.replace("kind: Secret", "name: secret"), p_DOT_txt="[")
        assert plain_secrets(held, lenient=True) == ("kustomization.yaml",)
        files = (TreeFile("a.yaml", "kind: Secret".encode("utf-16-le")), TreeFile("b.yaml", b"\xff\xfe\0"))
        assert plain_secrets(Tree(files), lenient=True) == ("a.yaml",)

    def test_literals_are_plain_whatever_is_beside_them(self) -> None:
        made = "secretGenerator: [{name: a, literals: [b=c]}] # ENC[AES256_GCM\n"
        assert plain_secrets(folder(made)) == ("kustomization.yaml",)

    def test_a_file_of_any_name_can_hold_one(self) -> None:
        plain = b"{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {b: c}}"
        files = (TreeFile("secret.txt", plain), TreeFile("README", b"{"), TreeFile("image", b"\xff\0"))
        assert plain_secrets(Tree(files)) == ("secret.txt",)

    def test_a_file_that_is_no_yaml_is_refused(self) -> None:
        with pytest.raises(UnfitBootstrap):
            plain_secrets(folder(a_DOT_yaml="["))
        with pytest.raises(UnfitBootstrap):
            plain_secrets(Tree((TreeFile("a.yaml", b"\xff"),)))


OBJECT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, namespace: flux-system, labels: {x/y: "1"}}
spec: {args: [--a, --b], replicas: 1, old: 1}
"""
ROLE = "apiVersion: rbac/v1\nkind: ClusterRole\nmetadata: {name: r}\n"


class TestEdits:
    def test_each_edit_becomes_an_operation_of_a_patch(self) -> None:
        edited = OBJECT.replace('x/y: "1"', 'x/y: "2", z~: "3"').replace("--b]", "--c]").replace("old: 1", "new: 2")
        (patch,) = yaml.safe_load(edits_as_patches(OBJECT, edited))["patches"]
        assert patch["target"] == {"kind": "Deployment", "name": "a", "namespace": "flux-system"}
        assert yaml.safe_load(patch["patch"]) == [
            {"op": "replace", "path": "/metadata/labels/x~1y", "value": "2"},
            {"op": "add", "path": "/metadata/labels/z~0", "value": "3"},
            {"op": "replace", "path": "/spec/args/1", "value": "--c"},
            {"op": "remove", "path": "/spec/old"},
            {"op": "add", "path": "/spec/new", "value": 2},
        ]

    def test_a_longer_list_is_added_to_and_another_one_is_replaced(self) -> None:
        (longer,) = yaml.safe_load(edits_as_patches(OBJECT, OBJECT.replace("--b]", "--b, --c]")))["patches"]
        assert yaml.safe_load(longer["patch"]) == [{"op": "add", "path": "/spec/args/-", "value": "--c"}]
        (other,) = yaml.safe_load(edits_as_patches(OBJECT, OBJECT.replace("[--a, --b]", "[--b]")))["patches"]
        assert yaml.safe_load(other["patch"]) == [{"op": "replace", "path": "/spec/args", "value": ["--b"]}]

    def test_an_object_that_is_gone_is_deleted_and_one_that_is_new_is_named(self) -> None:
        both = f"{OBJECT}---\n{ROLE}"
        (gone,) = yaml.safe_load(edits_as_patches(both, OBJECT))["patches"]
        deleted = {"$patch": "delete", "apiVersion": "rbac/v1", "kind": "ClusterRole", "metadata": {"name": "r"}}
        assert yaml.safe_load(gone["patch"]) == deleted
        (other,) = yaml.safe_load(edits_as_patches(both, ROLE))["patches"]
        assert yaml.safe_load(other["patch"])["metadata"] == {"name": "a", "namespace": "flux-system"}
        assert edits_as_patches(OBJECT, both) == "# put ClusterRole r into a file of its own, and list it"
        assert edits_as_patches(OBJECT, OBJECT) == ""

    def test_a_name_cannot_leave_its_comment(self) -> None:
        both = OBJECT + '---\nkind: A\nmetadata: {name: "r\\npatches: []"}\n'
        assert edits_as_patches(OBJECT, both) == r"# put A r\npatches: [] into a file of its own, and list it"
