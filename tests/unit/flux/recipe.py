"""What the artifacts of these tests are composed of."""

from __future__ import annotations

from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.demo.samples import SAMPLES
from ci_automation.flux.artifact import Recipe
from ci_automation.flux.bundle import ManifestsBundle
from ci_automation.flux.options import Options
from ci_automation.flux.render import render
from ci_automation.flux.version import Version

SAMPLE = SAMPLES[0]
PATH = "flux-system/gotk-components.yaml"
OVERLAY = Tree(
    (
        TreeFile("kustomization.yaml", b"resources: [flux-system]\n"),
        TreeFile("bin/run", b"#!/bin/sh\n", executable=True),
    )
)

BUNDLE = ManifestsBundle.of(SAMPLE.bundle)
RECIPE = Recipe(
    version=Version.parse(SAMPLE.tag),
    commit=SAMPLE.commit,
    release=BUNDLE.digest,
    options=Options(),
    components=render(BUNDLE, Version.parse(SAMPLE.tag), Options()),
    overlay=OVERLAY,
    path=PATH,
)
