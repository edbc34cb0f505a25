"""What becomes known after a person approved: the approval counts for what its page showed, and there is an end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.cli import run
from ci_automation.impact.change import Certainty, Hazard
from tests.contract.scene import BRANCH, CHANNEL, FIRST, MINOR, PATCH
from tests.fakes.forge import RESET

if TYPE_CHECKING:
    from tests.contract.scene import Scene
    from tests.fakes.forge import Pull
    from tests.fakes.runner import Ran

A = Hazard("crds", Certainty.POSSIBLE, "a.example v1", "objects may use v1 of A")
B = Hazard("crds", Certainty.POSSIBLE, "b.example v1", "objects may use v1 of B")
LATE = "was merged for these digests before it was known that"
KUBERNETES = ", clusters: {kubernetes: '1.34'}"  # of which no table says what this release needs


@pytest.fixture
def fleet(scene: Scene) -> Scene:
    """Return a fleet whose channel has the patch, and which finds a minor."""
    scene.fleet.protections.clear()
    scene.configure(approval="{via: pull-request}")
    scene.offer(FIRST, PATCH)
    assert scene.run().outputs["target-version"] == PATCH
    scene.offer(FIRST, PATCH, MINOR)
    return scene


def pulls(scene: Scene, state: str = "OPEN") -> list[Pull]:
    return [pull for pull in scene.fleet.pulls if pull.state == state]


def merge(scene: Scene) -> None:
    (pull,) = pulls(scene)
    scene.fleet.merge(pull.number, "ada")


def refused(ran: Ran) -> bool:
    return any("before it was known that" in it for it in ran.said("warning"))


def test_a_hazard_that_the_page_did_not_show_is_asked_anew_once(fleet: Scene, known: list[Hazard]) -> None:
    known[:] = [A]
    target = fleet.run().outputs["pending-digest"]
    merge(fleet)
    known[:] = [B, A]
    assert fleet.run("apply").code == 12
    ran = fleet.run()
    assert (ran.code, ran.outputs["changed"]) == (0, "false"), ran
    said = f"approval of {MINOR} does not count: ada approved {MINOR} before it was known that objects may use v1 of B"
    assert said in ran.said("warning")[0]
    (pull,) = pulls(fleet)
    assert f"pull request 1 {LATE} objects may use v1 of B\n" in pull.body
    body, head = pull.body, fleet.fleet.branches[BRANCH]
    for _ in range(3):
        assert fleet.run().outputs["changed"] == "false"
    assert (len(fleet.fleet.pulls), pull.body, fleet.fleet.branches[BRANCH]) == (2, body, head)
    merge(fleet)
    assert fleet.run().outputs["changed"] == "true"
    assert fleet.channel == target
    assert fleet.run().outputs["changed"] == "false"
    assert len(fleet.fleet.pulls) == 2


@pytest.mark.parametrize(
    "later",
    [
        pytest.param([B, A], id="another order"),
        pytest.param([B], id="one fewer"),
        pytest.param([], id="none"),
        pytest.param([replace(A, sentence="as a newer version of this program says it"), B], id="other words"),
        pytest.param([A, B, replace(A, certainty=Certainty.ADVICE, subject="x")], id="more advice"),
    ],
)
def test_what_the_page_showed_counts_in_any_words(fleet: Scene, known: list[Hazard], later: list[Hazard]) -> None:
    known[:] = [A, B]
    fleet.run()
    merge(fleet)
    known[:] = later
    ran = fleet.run()
    assert (ran.outputs["changed"], len(fleet.fleet.pulls)) == ("true", 1), ran


@pytest.mark.parametrize("later", [[], [A]], ids=["none", "one"])
def test_a_page_without_a_list_of_hazards_showed_none(fleet: Scene, known: list[Hazard], later: list[Hazard]) -> None:
    fleet.run()
    (pull,) = pulls(fleet)
    pull.body = pull.body.replace(" shown -->", " -->")
    merge(fleet)
    known[:] = later
    ran = fleet.run()
    assert (ran.outputs["changed"], refused(ran)) == (("false", True) if later else ("true", False))


def test_under_another_name_it_is_asked_for_once_more(fleet: Scene) -> None:
    fleet.run()
    merge(fleet)
    before = fleet.channel
    config = fleet.runner.workspace / ".github/flux-manifests.yaml"
    config.write_text(config.read_text().replace("name: production", "name: main"))
    for _ in range(2):
        assert (fleet.run().outputs["pending-decision"], fleet.channel) == ("approval", before)
        (pull,) = pulls(fleet)
        assert pull.branch == "flux-manifests/main"
    merge(fleet)
    assert fleet.run().outputs["target-version"] == MINOR


def test_no_number_of_merges_wears_down_what_a_page_has_to_show(fleet: Scene, known: list[Hazard]) -> None:
    fleet.run()
    for number in range(5):
        merge(fleet)
        known[:] = [replace(A, subject=f"it was {number} o'clock")]
        assert refused(fleet.run())
        fleet.run()  # which finds the same, and asks nobody twice
    assert len(fleet.fleet.pulls) == 6
    merge(fleet)
    assert fleet.run().outputs["changed"] == "true"


def test_what_nobody_can_look_at_counts_by_its_gate(fleet: Scene, known: list[Hazard]) -> None:
    images = [Hazard("images", Certainty.UNCHECKED, name, f"{name} did not answer") for name in ("a", "b", "a, b")]
    known[:] = images[:1]
    fleet.run()
    merge(fleet)
    known[:] = images[1:]
    assert fleet.run().outputs["changed"] == "true"
    assert len(fleet.fleet.pulls) == 1


def test_a_no_to_what_is_asked_anew_is_not_overruled_by_the_merge_before(fleet: Scene, known: list[Hazard]) -> None:
    fleet.run()
    merge(fleet)
    known[:] = [A]
    fleet.run()
    (pull,) = pulls(fleet)
    fleet.fleet.close(pull.number, "ben")
    known.clear()
    for _ in range(2):
        ran = fleet.run()
        assert (ran.outputs["changed"], pulls(fleet)) == ("false", []), ran
        assert f"before pull request {pull.number} asked again, and that one was closed" in ran.said("warning")[0]
    fleet.fleet.delete_branch(BRANCH, "ben")  # which is how a person takes a no back
    fleet.run()
    merge(fleet)
    assert fleet.run().outputs["changed"] == "true"


@pytest.mark.parametrize("page", ["nothing", "<!-- flux-manifests withdrawn "])
def test_a_no_is_not_undone_by_an_edit_of_its_page(fleet: Scene, known: list[Hazard], page: str) -> None:
    fleet.run()
    merge(fleet)
    known[:] = [A]
    fleet.run()
    (pull,) = pulls(fleet)
    fleet.fleet.close(pull.number, "ben")
    body = pull.body.replace("<!-- flux-manifests asked ", page) if page.startswith("<!--") else page
    fleet.fleet.edit(pull.number, "ben", body=body)
    known.clear()
    ran = fleet.run()
    assert ran.outputs["changed"] == "false", ran
    assert f"before pull request {pull.number} asked again, and that one was closed" in ran.said("warning")[0]
    merge(fleet)  # of the request that asks once more
    assert fleet.run().outputs["changed"] == "true"


def test_while_it_is_asked_anew_the_old_merge_stays_void(fleet: Scene, known: list[Hazard]) -> None:
    fleet.run()
    merge(fleet)
    known[:] = [A]
    fleet.run()
    known.clear()
    for _ in range(2):
        ran = fleet.run()
        assert ran.outputs["changed"] == "false"
        assert "opened, which asks again" in ran.said("warning")[0]
    (pull,) = pulls(fleet)
    assert LATE not in pull.body
    merge(fleet)
    assert fleet.run().outputs["changed"] == "true"


def test_what_the_configuration_says_since_is_seen_and_what_it_acknowledges_asks_nobody(fleet: Scene) -> None:
    fleet.run()
    merge(fleet)
    fleet.configure(approval="{via: pull-request}", more=KUBERNETES)
    ran = fleet.run()
    assert (ran.outputs["changed"], refused(ran)) == ("false", True), ran
    (pull,) = pulls(fleet)
    fingerprint = next(word.strip("(`)") for word in pull.body.split() if word.startswith("(`"))
    fleet.fleet.pulls.remove(pull)
    fleet.fleet.branches.pop(BRANCH)
    known = f"{{acknowledge: [{{fingerprint: '{fingerprint}', until: 2999-01-01, reason: known}}]}}"
    fleet.configure(approval="{via: pull-request}", policy="{}", more=f"{KUBERNETES}, {known[1:-1]}")
    assert fleet.run().outputs["changed"] == "true"


def test_of_a_group_the_one_that_can_break_something_new_is_asked_anew(fleet: Scene) -> None:
    own = ["--flux-version", PATCH, "--releases", "../releases", "--signing", "key", "--key", "cosign.key"]
    assert run(["init", "layout:registry:edge", *own]) == 0

    def configure(more: str = "") -> None:
        (fleet.runner.workspace / ".github/flux-manifests.yaml").write_text(
            f"version: 1\napiUrl: {fleet.forge.url}\nupstream: {{verify: if-available}}\n"
            "defaults: {approval: {via: pull-request}}\nartifacts:\n"
            f"- {{name: production, url: '{CHANNEL}', group: eu}}\n"
            f"- {{name: edge, url: 'layout:registry:edge', group: eu{more}}}\n"
        )

    configure()
    assert fleet.run().code == 0
    merge(fleet)
    configure(KUBERNETES)
    ran = fleet.run()
    assert [it["changed"] for it in ran.artifacts] == [True, False], ran
    (pull,) = pulls(fleet)
    assert (pull.title, LATE in pull.body) == (f"Flux {MINOR} for eu (edge)", True)
    assert [it["changed"] for it in fleet.run().artifacts] == [False, False]
    merge(fleet)
    ran = fleet.run()
    assert ([it["changed"] for it in ran.artifacts], len(fleet.fleet.pulls)) == ([False, True], 2), ran


def test_an_artifact_that_is_paused_asks_nobody_and_looks_when_it_goes_on(fleet: Scene, known: list[Hazard]) -> None:
    fleet.run()
    merge(fleet)
    known[:] = [A]
    fleet.configure(approval="{via: pull-request}", more=", paused: true")
    for _ in range(2):
        assert fleet.run().outputs["changed"] == "false"
    assert len(fleet.fleet.pulls) == 1
    known.clear()
    fleet.configure(approval="{via: pull-request}")
    assert fleet.run().outputs["changed"] == "true"


def test_a_page_that_a_person_edited_shows_nothing(fleet: Scene, known: list[Hazard]) -> None:
    """Not even a hazard that this person writes into its last line."""
    fleet.run()
    (pull,) = pulls(fleet)
    fleet.fleet.edit(pull.number, "ben", body=pull.body.replace(" shown -->", f" shown {A.named} -->"))
    merge(fleet)
    known[:] = [A]
    ran = fleet.run()
    assert (ran.outputs["changed"], len(pulls(fleet))) == ("false", 1)
    assert "had a description that ben wrote last" in ran.said("warning")[0]


def test_a_freeze_asks_nobody_and_keeps_what_was_asked_anew(fleet: Scene, known: list[Hazard]) -> None:
    fleet.run()
    merge(fleet)
    known[:] = [A]
    freeze = "{freeze: [{cron: '* * * * *', for: 1h, reason: a test}]}"
    fleet.configure(approval="{via: pull-request}", policy=freeze)
    ran = fleet.run()
    assert (ran.code, ran.outputs["changed"], len(fleet.fleet.pulls)) == (0, "false", 1), ran
    fleet.configure(approval="{via: pull-request}")
    assert refused(fleet.run())
    fleet.configure(approval="{via: pull-request}", policy=freeze)
    assert fleet.run().code == 0
    assert len(pulls(fleet)) == 1
    fleet.configure(approval="{via: pull-request}")
    merge(fleet)
    assert fleet.run().outputs["changed"] == "true"


def test_a_publication_that_was_cut_off_gets_its_record_whatever_is_known_since(
    fleet: Scene, known: list[Hazard], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = fleet.run().outputs["pending-digest"]
    merge(fleet)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr("ci_automation.records.writer.RecordWriter.attach", killed)
        assert fleet.run().code != 0
    assert fleet.channel == target
    known[:] = [A]
    ran = fleet.run()
    assert (ran.code, len(fleet.fleet.pulls)) == (0, 1), ran
    assert not refused(ran)


def test_a_run_that_is_cut_off_or_run_again_asks_once(fleet: Scene, known: list[Hazard]) -> None:
    fleet.run()
    merge(fleet)
    known[:] = [A]
    fleet.forge.faults.append(lambda method, path, _: RESET if method == "POST" and path.endswith("/pulls") else None)
    assert fleet.run().code != 0
    fleet.forge.faults.clear()
    fleet.runner.variables["GITHUB_RUN_ATTEMPT"] = "2"
    assert fleet.run().code == 0
    assert fleet.run().outputs["changed"] == "false"
    assert [pull.state for pull in fleet.fleet.pulls] == ["MERGED", "OPEN"]
