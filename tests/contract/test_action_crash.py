"""Wherever a run of the action dies, a re-run ends as if it had not, and nothing is asked or told twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pytest
import requests

from tests.contract.scene import EVERYTHING, FIRST, MINOR, PATCH, Scene, staged
from tests.contract.test_action_overlay import FOLDER, by_request, checkout, configure, first_content, patch
from tests.fakes.forge import LOST, RESET

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fakes.forge import Fault
    from tests.fakes.forge.exchange import Request

ANNOUNCE = ", announce: [acme/apps]"
WHOLE: dict[str, Whole] = {}  # by act: how it goes if nothing happens, played once for all ways to die


class Whole(NamedTuple):
    """How an act goes: what there is to be seen at its end, what was asked of GitHub, and what was stored by then."""

    pictures: tuple[object, ...]
    asked: list[Request]
    stored: list[bytes]


class Killed(BaseException):
    """The process is gone: nothing of it is caught, and nothing is done after it."""


@dataclass
class Death:
    """How a run ends at its n-th request, which GitHub does or does not."""

    number: int
    fault: Fault
    lasts: bool = False  # GitHub is gone from then on
    kills: bool = False  # and so is the run
    struck: bool = field(default=False, init=False)
    _seen: int = field(default=0, init=False)

    def __call__(self, _verb: str, _path: str, _body: object) -> Fault | None:
        self._seen += 1
        self.struck = self.struck or self._seen == self.number
        if self._seen == self.number:
            return self.fault
        return RESET if self.lasts and self._seen > self.number else None


def writes(request: Request) -> bool:
    """Return whether a request changes something: what only reads is asked again where its answer is lost."""
    if request.path == "/graphql":
        return str(request.body["query"]).startswith("mutation")
    return request.method != "GET"


def changes(whole: Whole, number: int) -> bool:
    """Return whether it leaves something else to be killed at a request than at the one before."""
    asked, stored = whole.asked[number - 1], whole.stored
    return number == 1 or writes(asked) or stored[number - 1] != stored[number - 2]


WAYS: dict[str, tuple[Callable[[Whole, int], bool], Callable[[int], Death]]] = {
    "it is killed": (changes, lambda number: Death(number, LOST, kills=True)),
    "GitHub is gone": (lambda _, __: True, lambda number: Death(number, RESET, lasts=True)),
    "an answer is lost": (lambda whole, number: writes(whole.asked[number - 1]), lambda number: Death(number, LOST)),
}


def was_asked(scene: Scene) -> None:
    """Let the minor have been asked for by pull request, from the patch."""
    scene.configure(approval=EVERYTHING, more=ANNOUNCE)
    assert scene.run().code == 0


def a_patch_and_a_minor(scene: Scene) -> dict[str, str]:
    del scene.own["releases"]  # so that the releases are GitHub's too
    scene.configure(approval=EVERYTHING, more=ANNOUNCE)
    return {}


def merged(scene: Scene) -> dict[str, str]:
    was_asked(scene)
    scene.fleet.review(1, "ben", "APPROVED")
    assert scene.fleet.pulls[0].state == "MERGED"  # by itself
    return {}


def merged_and_pushed(scene: Scene) -> dict[str, str]:
    merged(scene)
    scene.pushed()
    return {"command": "apply"}


def something_newer(scene: Scene) -> dict[str, str]:
    scene.offer(FIRST, PATCH)
    scene.configure(approval=EVERYTHING, policy="{patch: approval}", more=ANNOUNCE)
    assert scene.run().code == 0
    scene.offer(FIRST, PATCH, MINOR)
    scene.configure(approval=EVERYTHING, more=ANNOUNCE)
    return {}


def nothing_waits_any_more(scene: Scene) -> dict[str, str]:
    was_asked(scene)
    scene.configure(approval=EVERYTHING, policy="{minor: auto, escalate: []}", more=ANNOUNCE)
    return {}


BY_RUN = "{via: workflow-dispatch}"


def a_run_is_wanted(scene: Scene) -> dict[str, str]:
    scene.configure(approval=BY_RUN, more=ANNOUNCE)
    return {}


def another_run_is_wanted(scene: Scene) -> dict[str, str]:
    scene.offer(FIRST, PATCH)
    scene.configure(approval=BY_RUN, policy="{patch: approval}", more=ANNOUNCE)
    assert scene.run().code == 0
    scene.offer(FIRST, PATCH, MINOR)
    scene.configure(approval=BY_RUN, more=ANNOUNCE)
    return {}


def a_run_was_approved(scene: Scene) -> dict[str, str]:
    scene.configure(approval=BY_RUN, more=ANNOUNCE)
    assert scene.run().code == 0
    scene.forge.approve(scene.fleet.runs[-1].id, "ada")
    return {"command": "approve", **scene.approving()}


def another_repository_decides(scene: Scene) -> dict[str, str]:
    scene.configure(approval="{via: repository-dispatch, repository: acme/apps}", more=ANNOUNCE)
    return {}


def others_pin_it(scene: Scene) -> dict[str, str]:
    scene.configure(more=", consumers: [{repository: acme/apps}]")
    return {"command": "consumers"}


def content_was_merged(scene: Scene) -> dict[str, str]:
    overlaid(scene)
    scene.fleet.merge(by_request(scene, patch("2Gi")), "ben")
    checkout(scene)
    return {}


def overlaid(scene: Scene) -> None:
    """Let the channel have content of Git that was approved by its digest."""
    scene.fleet.protections.clear()
    scene.offer(FIRST)
    configure(scene)
    scene.fleet.push("main", {f"{FOLDER}/more.yaml": patch("1Gi")}, "ada")
    first_content(scene)


def the_check_is_silent(_: Scene) -> dict[str, str]:
    return {"command": "watch", "workflow": "flux.yaml"}


ACTS: dict[str, Callable[[Scene], dict[str, str]]] = {
    each.__name__.replace("_", " "): each
    for each in (
        a_patch_and_a_minor,
        merged,
        merged_and_pushed,
        something_newer,
        nothing_waits_any_more,
        a_run_is_wanted,
        another_run_is_wanted,
        a_run_was_approved,
        another_repository_decides,
        others_pin_it,
        content_was_merged,
        the_check_is_silent,
    )
}


READS_ALONE = ("content was merged", "an answer is lost")  # its publication writes nothing to GitHub


@pytest.mark.parametrize(("act", "way"), [(act, way) for act in ACTS for way in WAYS if (act, way) != READS_ALONE])
def test_wherever_it_dies_a_re_run_ends_the_same(
    act: str,
    way: str,
    stage: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    strikes, make = WAYS[way]
    with staged(stage, tmp_path / "scene", monkeypatch, capsys) as scene:
        inputs = ACTS[act](scene)
        again = scene.saved()
        if act not in WHOLE:
            WHOLE[act] = _whole(scene, inputs)
        whole, left = WHOLE[act], list[object]()
        asked = whole.asked
        numbers = [number for number in range(1, len(asked) + 1) if strikes(whole, number)]
        assert numbers
        for number in numbers:
            again()
            _die(scene, inputs, make(number), monkeypatch)
            if (state := (scene.pictures, _files(scene))) in left:
                continue  # the re-run would be the same
            left.append(state)
            scene.runner.variables["GITHUB_RUN_ATTEMPT"] = "2"
            ran = scene.run(**inputs)
            died_at = f"request {number} of {len(asked)}, {asked[number - 1].method} {asked[number - 1].path}"
            assert scene.pictures == whole.pictures, f"{died_at}: {ran}"


def _whole(scene: Scene, inputs: dict[str, str]) -> Whole:
    """Play an act to its end."""
    before, stored = len(scene.forge.requests), list[bytes]()
    scene.forge.faults.append(lambda *_: stored.append(_index(scene)))
    scene.run(**inputs)
    return Whole(scene.pictures, scene.forge.requests[before:], stored)


def _index(scene: Scene) -> bytes:
    """Return what the registry has."""
    return (scene.runner.workspace / "registry/index.json").read_bytes()


def _files(scene: Scene) -> dict[str, bytes]:
    """Return the files of the workspace but for the registry, which the pictures show."""
    root = scene.runner.workspace
    paths = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return {str(path): (root / path).read_bytes() for path in paths if path.parts[0] != "registry"}


def _die(scene: Scene, inputs: dict[str, str], death: Death, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a job to its death."""
    scene.forge.faults.append(death)
    with monkeypatch.context() as patch:
        _mortal(patch, death)
        try:
            scene.run(**inputs)
        except Killed:
            assert death.kills
    assert death.struck
    scene.forge.faults.clear()


def _mortal(patch: pytest.MonkeyPatch, death: Death) -> None:
    """Let the process end where it should: at the request, whatever the program would do about its failure."""
    send = requests.Session.send

    def mortal(self: requests.Session, *given: object, **more: object) -> requests.Response:
        try:
            return send(self, *given, **more)  # type: ignore[arg-type]
        finally:
            if death.struck and death.kills:
                raise Killed

    patch.setattr(requests.Session, "send", mortal)
