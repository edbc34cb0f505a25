"""What one kustomization does to what it gathered, in kustomize's order of transformers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ci_automation.artifact.yaml_events import Unreadable
from ci_automation.overlay.effort import size, to_read
from ci_automation.overlay.hits import (
    Subject,
    containers,
    identified,
    is_image,
    is_rejected,
    is_scaled,
    is_selected,
    is_target,
    renamed,
    takes_namespace,
    takes_prefix,
)
from ci_automation.overlay.objects import Id, texts
from ci_automation.overlay.patching import Inapplicable, apply, merged, parsed, touched
from ci_automation.overlay.resource import Accumulated, Effect, Hit, Problem, Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ci_automation.impact.hazard import Place
    from ci_automation.overlay.effort import Effort
    from ci_automation.overlay.kustomization import Image, Kustomization, Named, Patch, Replacement, Rule, Selector
    from ci_automation.overlay.patching import Parsed

_PATTERN = 12  # steps for each sign of a pattern, which is compiled


class Transformation:
    """The rules of one kustomization, and what was gathered for it; what they do is noted in `result`."""

    def __init__(self, result: Accumulated, found: Kustomization, gathered: list[Resource], effort: Effort) -> None:
        self._result, self._found, self._gathered, self._effort = result, found, gathered, effort

    def run(self) -> list[Resource]:
        """Return the objects afterwards.

        Raises:
            TooMuch: it is more than what is left of the effort.
        """
        found = self._found
        for patch in found.strategic:
            self._patch(patch, keeps_marks=True)
        for patch in found.patches:
            self._patch(patch)
        self._names(found.namespace, takes_namespace, self._into_namespace)
        self._names(found.prefix, takes_prefix, lambda each, value: each.rename(name=value + each.current.name))
        self._names(found.suffix, takes_prefix, lambda each, value: each.rename(name=each.current.name + value))
        self._effort.spend(len(self._gathered) * (len(found.labels) + len(found.annotations)))
        for each in self._gathered:
            each.mark(found.labels.items(), found.annotations.items())
        for patch in found.json_patches:
            self._patch(patch)
        for replicas in found.replicas:
            effect = self._effect(replicas.rule, f"replicas of {replicas.value}")
            self._hit(effect, self._those(partial(is_scaled, replicas.value)))
        self._images(found.images)
        for replacement in found.replacements:
            self._replacement(replacement)
        return self._gathered

    def _effect(self, rule: Rule, what: str) -> Effect:
        return self._result.effects.setdefault(f"{rule.file} {rule.mark}", Effect(rule, what))

    def _those(self, are_hit: Callable[[Subject], bool], *selectors: Selector) -> list[Resource]:
        """Return the objects that a rule hits; `selectors` are what it knows them by."""
        self._effort.spend(sum(_PATTERN * selector.length for selector in selectors))
        self._effort.spend(sum(each.weight for each in self._gathered))
        self._effort.spend(len(self._gathered) * sum(selector.marks_length for selector in selectors))
        return [each for each in self._gathered if are_hit(each)]

    @staticmethod
    def _hit(effect: Effect, resources: Iterable[Resource]) -> None:
        effect.objects += [each.original.object for each in resources]

    def _names(
        self,
        named: Named | None,
        takes: Callable[[Subject], bool],
        change: Callable[[Resource, str], None],
    ) -> None:
        if named is None:
            return
        taken = self._those(takes)
        self._hit(self._effect(named.rule, f"{named.rule.field} {named.value}"), taken)
        for each in taken:
            change(each, named.value)

    @staticmethod
    def _into_namespace(each: Resource, namespace: str) -> None:
        if each.current.cluster_scoped:
            each.rename(name=namespace)
        else:
            each.rename(namespace=namespace)

    def _patch(self, patch: Patch, *, keeps_marks: bool = False) -> None:
        place = patch.rule.places[-1]
        if patch.text is None:
            self._problem(f"{place.file} is not in the artifact", patch.rule.places[0])
            return
        self._effort.spend(to_read(patch.text))
        try:
            found = parsed(patch.text)
        except Unreadable as error:
            self._problem(f"the patch cannot be read: {error}", place)
            return
        if patch.target is not None:
            self._targeted(patch, patch.target, found)
        elif found.operations:
            self._problem("a JSON patch has no target", place)
        for number, each in enumerate(found.merges if patch.target is None else ()):
            self._untargeted(patch, _marking(each) if keeps_marks else each, number)

    def _targeted(self, patch: Patch, target: Selector, found: Parsed) -> None:
        effect = self._effect(patch.rule, f"the patch of {target}")
        weight = size([*found.operations, *found.merges[:1]])
        for each in self._those(partial(is_target, target), target):
            self._effort.spend(weight)
            effect.objects.append(each.original.object)
            if found.operations:
                self._operate(effect, each, found)
            else:
                self._merge(each, _marking(found.merges[0]))

    def _operate(self, effect: Effect, each: Resource, found: Parsed) -> None:
        value = each.value(self._effort)
        try:
            for touch in apply(value, found.operations, self._effort):
                effect.touches.append(Hit(each.original.object, touch))
        except Inapplicable as error:
            self._problem(f"{effect.what} finds no {error} in {each.original.object}", effect.rule.places[-1])
        each.change(value, self._effort)

    def _untargeted(self, patch: Patch, merge: dict[str, Any], number: int) -> None:
        wanted = Id.of(merge)
        rule = replace(patch.rule, mark=f"{patch.rule.mark}.{number}") if number else patch.rule
        effect = self._effect(rule, f"the patch of {wanted.object}")
        hit = self._those(partial(identified, wanted))
        self._hit(effect, hit)
        if len(hit) != 1:
            how = "hits nothing" if not hit else "hits several objects"
            self._problem(f"{effect.what} {how}", rule.places[-1])
        for each in hit:
            self._effort.spend(size(merge))
            self._merge(each, merge)

    def _merge(self, each: Resource, merge: dict[str, Any]) -> None:
        value = merged(each.value(self._effort), merge, each.current.group, self._effort)
        if value is None:
            self._effort.spend(len(self._gathered))
            self._gathered = [other for other in self._gathered if other is not each]
        else:
            each.change(value, self._effort)

    def _images(self, images: Iterable[Image]) -> None:
        with_images = [(each, self._containers(each)) for each in self._gathered if images and each.may_have_images]
        for image in images:
            effect = self._effect(image.rule, f"the image {image.name}")
            self._effort.spend(_PATTERN * len(image.name))
            for each, found in with_images:
                self._effort.spend(1 + len(found))
                named = [container for container in found if is_image(image, container.get("image"))]
                for container in named:
                    container["image"] = renamed(image, container["image"])
                self._hit(effect, [each] if named else [])

    def _containers(self, each: Resource) -> list[dict[str, Any]]:
        value = each.value(self._effort)
        self._effort.spend(size(value))
        return list(containers(value))

    def _replacement(self, replacement: Replacement) -> None:
        select = replacement.select
        effect = self._effect(replacement.rule, f"the replacement in {select}")
        hit = self._those(partial(is_selected, select), select)
        for reject in replacement.reject:
            out = {id(each) for each in self._those(partial(is_rejected, reject), reject)}
            hit = [each for each in hit if id(each) not in out]
        self._hit(effect, hit)
        for path in replacement.paths:
            for each in hit:
                value = each.value(self._effort)
                effect.touches += (Hit(each.original.object, touch) for touch in touched(value, path, self._effort))

    def _problem(self, sentence: str, place: Place) -> None:
        self._result.problems.append(Problem(sentence, place))


def _marking(merge: dict[str, Any]) -> dict[str, Any]:
    """Return a strategic merge patch as `resWrangler.ApplySmPatch` makes it: null removes no label, it is its value."""
    metadata = merge.get("metadata")
    if not isinstance(metadata, dict):
        return merge
    marks = {key: texts(merge, key, null="null") for key in ("labels", "annotations") if metadata.get(key)}
    return merge | {"metadata": metadata | marks}
