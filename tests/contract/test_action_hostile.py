"""Text that others write, through the whole action: it can be read in the log and on the pages, and does nothing."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from markdown_it import MarkdownIt

from ci_automation.action.workflow_commands import OUTPUTS
from tests.contract.hostile_registry import HostileRegistry, Reply
from tests.contract.scene import MINOR, PATCH, Scene
from tests.fakes.forge import Fault, times

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it.token import Token

    from tests.fakes.runner import Ran

LINE = "@mallory fixes #4711 ![x](https://evil.example/x) | owned | `<img src=https://evil.example>` ##[error]owned"
HOSTILE = (
    f"{LINE}\n::error::owned\n\r::set-output name=changed::true\r\n##[error]owned\n\ufeff ::add-mask::owned\n"
    f"changed<<x\ntrue\nx\n\n| owned |\n```\n</details>\n# owned\nFixes https://github.com/acme/fleet/issues/4711\n{LINE}\n"
)
NAME = "x@mallory-fixes-#4711-|owned|-![x](evil.example)`<img>"  # what git and file systems take as a name
KNOWN = {"error", "warning", "notice", "add-mask"}
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


@pytest.fixture
def scene(scene: Scene) -> Scene:
    scene.fleet.protections.clear()
    return scene


def acting(markdown: str) -> list[str]:
    """Return what a page would do of what nobody should make it do."""
    found: list[str] = []
    tokens = MARKDOWN.parse(markdown)
    for before, token in zip([*tokens[:1], *tokens], tokens, strict=False):
        if token.type == "inline":
            found += _acting(token)
            if before.type in {"td_open", "th_open", "heading_open"} and token.content.strip() == "owned":
                found.append(f"{before.type}: {token.content}")
        elif token.type == "html_block" and not token.content.strip().startswith(("<!-- flux-manifests", "<details>")):
            found += [token.content] if re.search("<img|evil|owned", token.content) else []
    return found


def _acting(inline: Token) -> Iterator[str]:
    in_code = False
    for part in inline.children or ():
        if part.type == "html_inline":
            in_code = {"<code>": True, "</code>": False}.get(part.content, in_code)
            if "img" in part.content:
                yield part.content
        elif part.type == "image" or (part.type == "link_open" and "evil" in str(part.attrs.get("href"))):
            yield f"{part.type}: {part.attrs}"
        elif part.type == "text" and not in_code:
            yield from re.findall(r"@mallory|#4711|https?://\S+", part.content)


def harmless(ran: Ran) -> None:
    """Check what a run gave to the runner and to the page of the run."""
    assert {each.name for each in ran.commands} <= KNOWN
    assert [each for each in ran.commands if each.data.strip() == "owned" or "owned" in each.properties.values()] == []
    assert set(ran.outputs) == {each.name for each in OUTPUTS}
    assert acting(ran.summary) == []


def test_the_oracle_sees_what_acts() -> None:
    assert len(acting(f"{LINE}\n\n| a |\n| - |\n| owned |\n\n# owned\n")) >= 5
    assert acting(f"`{LINE.replace('`', '')}`") == []


def changed_releases(scene: Scene, **values: Any) -> None:
    """Let upstream's newest release have other values."""
    path = scene.folder / "releases/releases.json"
    listed = json.loads(path.read_bytes())
    path.write_text(json.dumps([{**listed[0], **values}, *listed[1:]]))


def test_the_notes_of_a_release(scene: Scene) -> None:
    changed_releases(scene, body=HOSTILE, name=HOSTILE)
    scene.configure(approval="{via: pull-request}")
    for releases in ({}, {"releases": ""}):
        ran = scene.run(**releases)
        assert (ran.code, ran.outputs["pending-version"]) == (0, MINOR), ran
        harmless(ran)
        (pull,) = scene.fleet.pulls
        assert "mallory" in pull.body
        assert acting(pull.body) == []
        assert not re.search(r"@mallory|#4711|(?i:fixes|closes) https", f"{pull.title}\n{pull.body}")
        commit = scene.fleet.commits(pull.branch)[0].message
        assert "mallory" not in commit


@pytest.mark.parametrize("tag", [HOSTILE, f"v2.99.9\n{HOSTILE}", f"v2.99.9-{LINE}", "v2.99.9+::error::owned"])
def test_the_tag_of_a_release(scene: Scene, tag: str) -> None:
    path = scene.folder / "releases/releases.json"
    listed = json.loads(path.read_bytes())
    path.write_text(json.dumps([{**listed[0], "tag_name": tag}, *listed]))
    scene.configure(approval="{via: pull-request}")
    ran = scene.run(releases="")
    harmless(ran)
    assert ran.outputs["target-version"] in {PATCH, ""}


def test_the_name_of_a_file_that_pins_it(scene: Scene) -> None:
    pins = b'spec:\n  digest: "" # {"$flux-manifests": "production:digest"}\n'
    names = (f"{NAME}.yaml", f"a/{LINE.replace('/', ':')}.yml", "::error::owned.yaml", "a\n::error::owned\n.yaml")
    scene.apps.push("main", dict.fromkeys(names, pins), "acme")
    scene.configure(more=", consumers: [{repository: acme/apps}]")
    ran = scene.run("consumers")
    harmless(ran)
    (pull,) = scene.apps.pulls
    assert acting(pull.body) == []
    assert "mallory" in pull.body
    assert not re.search(r"@mallory|#4711", scene.apps.commits(pull.branch)[0].message)


def test_the_name_of_a_branch(scene: Scene) -> None:
    scene.configure(approval="{via: workflow-dispatch}")
    scene.run()
    inputs = {name: str(value) for name, value in scene.fleet.runs[-1].inputs.items()}
    scene.fleet.push(NAME, {"x": b"x"}, "ben")
    scene.fleet.dispatch("approve.yaml", NAME, inputs, "ben")
    scene.forge.approve(scene.fleet.runs[-1].id, "ada")
    own = scene.approving()
    scene.runner.variables["GITHUB_REF"] = f"refs/heads/{NAME}"
    ran = scene.run("approve", **own)
    assert ran.code == 2
    assert "mallory" in ran.said("error")[0]
    harmless(ran)


@pytest.mark.parametrize("key", ["io.github.flux-manifests.version", "org.opencontainers.image.revision", HOSTILE])
@pytest.mark.parametrize("adopt", [False, True])
def test_the_annotations_of_an_artifact(scene: Scene, key: str, *, adopt: bool) -> None:
    digest = tampered(scene, {key: HOSTILE})
    scene.configure(approval="{via: pull-request}")
    ran = scene.run(**({"adopt": digest} if adopt else {}))
    harmless(ran)
    assert ran.code != 1, ran
    if not adopt:
        assert ran.code == 10, ran


def tampered(scene: Scene, annotations: dict[str, str]) -> str:
    """Let the channel have a manifest with other annotations, by the hand of who writes to the registry."""
    registry = scene.runner.workspace / "registry"
    index = json.loads((registry / "index.json").read_bytes())
    old = scene.channel
    manifest = json.loads((registry / "blobs/sha256" / old.removeprefix("sha256:")).read_bytes())
    raw = json.dumps({**manifest, "annotations": {**manifest["annotations"], **annotations}}).encode()
    hexadecimal = hashlib.sha256(raw).hexdigest()
    (registry / "blobs/sha256" / hexadecimal).write_bytes(raw)
    for entry in index["manifests"]:
        if entry.get("annotations", {}).get("org.opencontainers.image.ref.name") == "production":
            entry.update(digest=f"sha256:{hexadecimal}", size=len(raw))
    (registry / "index.json").write_text(json.dumps(index))
    assert scene.channel == f"sha256:{hexadecimal}"
    return scene.channel


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(Reply.json({"errors": [{"code": HOSTILE, "message": HOSTILE}]}, 403), id="an error"),
        pytest.param(Reply(400, HOSTILE.encode()), id="text"),
        pytest.param(Reply(401, b"", {"WWW-Authenticate": f'Bearer realm="{LINE}",scope="{LINE}"'}), id="a challenge"),
        pytest.param(Reply(200, HOSTILE.encode(), {"Content-Type": LINE}), id="a manifest"),
    ],
)
def test_the_answer_of_a_registry(scene: Scene, reply: Reply) -> None:
    with HostileRegistry(lambda _: reply) as registry:
        scene.configure(approval="{via: pull-request}")
        path = scene.runner.workspace / ".github/flux-manifests.yaml"
        path.write_text(path.read_text().replace("layout:registry:", f"oci://{registry.host}/acme/flux:"))
        ran = scene.run()
    assert ran.code in {10, 20}, ran
    assert ran.outputs["changed"] == "false"
    harmless(ran)


@pytest.mark.parametrize("status", [403, 404, 422])
def test_the_answer_of_github(scene: Scene, status: int) -> None:
    said = {"message": HOSTILE, "errors": [{"message": HOSTILE, "field": HOSTILE, "code": HOSTILE}]}
    scene.forge.faults.append(times(9, Fault(status, said), "POST", "/pulls"))
    scene.configure(approval="{via: pull-request}")
    ran = scene.run()
    assert (ran.code, ran.outputs["target-version"]) == (21, PATCH), ran
    harmless(ran)


def test_the_changes_of_people_to_the_configuration(scene: Scene) -> None:
    path = scene.runner.workspace / ".github/flux-manifests.yaml"
    path.write_text(f"version: 1\n{json.dumps(HOSTILE)}: 1\nartifacts:\n- {{name: {json.dumps(HOSTILE)}, url: x}}\n")
    ran = scene.run()
    assert ran.code == 2
    assert all(
        each.properties["file"] == ".github/flux-manifests.yaml" for each in ran.commands if each.name == "error"
    )
    harmless(ran)
