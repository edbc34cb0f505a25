"""What a channel may begin with: the gates look at its first digest before anything is published."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.flows.init import FirstRefused, init
from ci_automation.flows.planning.step import NobodyToAsk
from ci_automation.impact.change import Certainty
from ci_automation.impact.overlay.builder import BuildFailed
from ci_automation.policy.model import NOT_CHECKED, Acknowledgement, Policy
from tests.fakes.world import CHANNEL, NOW, OLD, OVERLAY, World, intent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_automation.artifact.reference import Digest
    from ci_automation.impact.overlay.builder import Build

LISTED = b"resources: [flux-system/gotk-components.yaml]\npatches: [{path: absent.yaml}]\n"
ABSENT = b"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: absent, namespace: flux-system}\n"
BROKEN = Tree((TreeFile("kustomization.yaml", LISTED), TreeFile("absent.yaml", ABSENT)))
PATCHED = Tree(
    (TreeFile("kustomization.yaml", LISTED.replace(b"{path: absent.yaml}", b"")), TreeFile("a.yaml", b"a: 1\n"))
)
NAMED = Tree((TreeFile("kustomization.yaml", b"namePrefix: own-\nresources: [flux-system/gotk-components.yaml]\n"),))
MISSPELT = Tree((TreeFile("kustomization.yaml", LISTED.replace(b"patches", b"pathces")),))
DELETED = LISTED.replace(b"{path: absent.yaml}", b"{path: deleted.yaml}")
DELETING = Tree(
    (TreeFile("kustomization.yaml", DELETED), TreeFile("deleted.yaml", b"kind: Deployment\n$patch: delete\n"))
)
NOT_LISTED = Tree((TreeFile("kustomization.yaml", b"resources: []\n"),))


@dataclass(frozen=True)
class Kustomize:
    """A kustomize that fails at a patch whose object is absent, as the real one does."""

    def builds(self, wanted: Sequence[Build]) -> tuple[str | BuildFailed, ...]:
        """Return the components without a difference, or why there are none."""
        return tuple(self._build(tree) for tree, _ in wanted)

    @staticmethod
    def _build(tree: Tree) -> str | BuildFailed:
        if "absent.yaml" in tree.by_path:
            return BuildFailed("no matches for Id Deployment.v1.apps/absent.flux-system")
        if b"pathces" in tree["kustomization.yaml"]:
            return BuildFailed('invalid Kustomization: json: unknown field "pathces"')
        if "deleted.yaml" in tree.by_path:
            return "apiVersion: v1\nkind: Namespace\nmetadata: {name: flux-system}\n"
        return tree["flux-system/gotk-components.yaml"].decode()


@dataclass
class NoImages:
    """A mirror that has no image, and notes how often it was asked."""

    asked: int = 0

    def digest(self, image: str) -> Digest | None:
        """Return that it is not there."""
        assert image
        self.asked += 1
        return None


@pytest.fixture
def world() -> World:
    """Nothing is published yet."""
    return World()


def refusal(world: World, overlay: Tree, kustomize: Kustomize | None, **wish: object) -> FirstRefused:
    """Return why a channel cannot begin with an overlay; nothing is written."""
    with pytest.raises(FirstRefused) as refused:
        init(CHANNEL, OLD, replace(world.ports(), find_kustomize=lambda: kustomize), intent(overlay=overlay, **wish))
    assert not {asked.method for asked in world.registry.requests} & {"put_manifest", "put_blob"}
    assert world.registry.resolve(CHANNEL) is None
    return refused.value


class TestOverlay:
    def test_one_that_cannot_be_built_is_refused_and_says_where(self, world: World) -> None:
        refused = refusal(world, BROKEN, Kustomize())
        assert refused.exit_code == 11
        assert "absent" in str(refused)
        assert "absent.yaml:3" in str(refused)
        assert "acknowledge" not in refused.hint

    @pytest.mark.parametrize(
        ("until", "published"), [(NOW + timedelta(days=1), True), (NOW - timedelta(days=1), False)], ids=["now", "over"]
    )
    def test_what_is_acknowledged_is_let_through_until_its_date(
        self, world: World, until: object, published: bool
    ) -> None:
        refused = refusal(world, NOT_LISTED, Kustomize())
        fingerprint = str(refused).rpartition("(")[2].rstrip(")")
        assert "accept it: --acknowledge with its fingerprint, or `acknowledge` of" in refused.hint
        policy = Policy(acknowledge=(Acknowledgement(fingerprint, until, "on its way"),))  # type: ignore[arg-type]
        if not published:
            assert fingerprint in str(refusal(world, NOT_LISTED, Kustomize(), policy=policy))
            return
        wish = intent(overlay=NOT_LISTED, policy=policy)
        made = init(CHANNEL, OLD, replace(world.ports(), find_kustomize=Kustomize), wish)
        assert not made.is_there
        assert made.hazards == ()

    def test_one_that_lacks_a_file_is_refused_without_kustomize_too(self, world: World) -> None:
        refused = refusal(world, BROKEN.without("absent.yaml"), None)
        assert "absent.yaml is not in the artifact" in str(refused)
        assert "kustomization.yaml:2" in str(refused)

    @pytest.mark.parametrize("kustomize", [Kustomize(), None], ids=["built", "read"])
    def test_one_that_leaves_flux_out_is_refused(self, world: World, kustomize: Kustomize | None) -> None:
        refused = refusal(world, NOT_LISTED, kustomize)
        assert "no kustomization lists flux-system/gotk-components.yaml" in str(refused)
        assert "delete Flux if they prune" in str(refused)
        assert "list flux-system/gotk-components.yaml among the resources" in refused.hint

    @pytest.mark.parametrize("kustomize", [Kustomize(), None], ids=["built", "read"])
    def test_one_with_a_field_that_kustomize_does_not_know_is_refused(
        self, world: World, kustomize: Kustomize | None
    ) -> None:
        refused = refusal(world, MISSPELT, kustomize)
        assert "pathces" in str(refused)
        assert "kustomization.yaml:2" in str(refused)

    def test_one_that_deletes_flux_is_refused(self, world: World) -> None:
        refused = refusal(world, DELETING, Kustomize())
        assert "the overlay at ./ leaves out kustomize-controller" in str(refused)

    def test_one_that_nobody_could_build_is_published_and_told(self, world: World) -> None:
        made = init(CHANNEL, OLD, world.ports(), intent(overlay=NAMED))
        assert [hazard.certainty for hazard in made.hazards] == [Certainty.UNCHECKED]

    def test_one_that_nobody_could_build_is_refused_where_the_policy_says_so(self, world: World) -> None:
        policy = Policy(refuse=frozenset({NOT_CHECKED}))
        refused = refusal(world, NAMED, None, policy=policy)
        assert "there is no kustomize" in str(refused)
        assert "install kustomize 5 or kubectl" in refused.hint

    @pytest.mark.parametrize("overlay", [OVERLAY, PATCHED, None], ids=["lists", "patches nothing", "none"])
    def test_one_that_is_fine_is_published_without_a_word(self, world: World, overlay: Tree | None) -> None:
        made = init(CHANNEL, OLD, replace(world.ports(), find_kustomize=Kustomize), intent(overlay=overlay))
        assert (made.is_there, made.hazards) == (False, ())

    def test_of_much_that_is_refused_the_first_is_told_and_how_much_there_is(self, world: World) -> None:
        listed = ", ".join(f"{{path: absent-{number}.yaml}}" for number in range(7)).encode()
        overlay = Tree((TreeFile("kustomization.yaml", LISTED.replace(b"{path: absent.yaml}", listed)),))
        refused = str(refusal(world, overlay, None, policy=Policy(refuse=frozenset({NOT_CHECKED}))))
        assert refused.count("is not in the artifact") == 5
        assert "; and 1 more" in refused

    def test_again_it_is_told_and_not_refused(self, world: World) -> None:
        first = init(CHANNEL, OLD, world.ports(), intent(overlay=NAMED))
        policy = Policy(refuse=frozenset({NOT_CHECKED}))
        again = init(CHANNEL, OLD, world.ports(), intent(overlay=NAMED, policy=policy))
        assert (again.digest, again.is_there) == (first.digest, True)
        assert [it.gate for it in again.hazards] == [it.gate for it in first.hazards]


class TestImages:
    def test_images_that_a_mirror_lacks_are_refused_and_asked_for_once(self, world: World) -> None:
        images = NoImages()
        ports = replace(world.ports(), images=images)
        with pytest.raises(FirstRefused, match="is not there") as refused:
            init(CHANNEL, OLD, ports, intent(flags={"registry": "mirror.example/fluxcd"}))
        assert images.asked == 4
        copying = f"`flux-manifests mirror --images oci://mirror.example/fluxcd {OLD}`; or accept it"
        assert f"What to do: {copying}" in refused.value.hint

    def test_without_anybody_to_ask_nothing_is_pinned(self, world: World) -> None:
        with pytest.raises(NobodyToAsk):
            init(CHANNEL, OLD, world.ports(), intent(pin_images=True))
