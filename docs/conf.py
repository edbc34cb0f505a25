"""The site of these documents: `make docs`.

Its navigation is the list in docs/README.md, which reads well on GitHub too.
"""

import re

from sphinx.application import Sphinx

project = "flux-manifests"
extensions = ["myst_parser"]
root_doc = "README"
html_theme = "furo"
html_title = project
myst_heading_anchors = 4  # the headings that links lead to
nitpicky = True
man_pages = [
    ("reference/commands", project, "keep Flux itself current from a signed OCI artifact", "", 1),
    ("reference/configuration", project, "the configuration file of flux-manifests", "", 5),
]

_SECTION = re.compile(r"^## (.+)\n((?:\n|- .*\n)+)", re.MULTILINE)
_LINK = re.compile(r"^- \[.+?\]\(([\w/-]+)\.md\)", re.MULTILINE)


def _navigation(_: Sphinx, name: str, source: list[str]) -> None:
    if name == root_doc:
        for section, links in _SECTION.findall(source[0]):
            pages = "\n".join(_LINK.findall(links))
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {section}\n\n{pages}\n```\n"


def setup(app: Sphinx) -> None:
    """Let Sphinx read the navigation from the list of documents."""
    app.connect("source-read", _navigation)
