"""Sphinx builds the pages from Markdown; facts in the code are filled in from `generated.py`."""

from __future__ import annotations

import html
import os
import sys
import textwrap
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import generated
import terms
from docutils import nodes
from sphinx.application import Sphinx

from budgetfrontier import __version__

project = "budgetfrontier"
author = "The budgetfrontier authors"
copyright = author
release = __version__

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
html_theme = "furo"
html_title = f"budgetfrontier {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", "")

linkcheck_ignore = [r"https?://(127\.0\.0\.1|localhost|([\w-]+\.)*(example(\.(com|net|org))?|test))([:/]|$)"]
linkcheck_timeout = 30
linkcheck_retries = 3


def read(_: Sphinx, page: str, source: list[str]) -> None:
    """Replace each `<!-- generated: name -->` by what generated.py makes of it, and link terms of the glossary."""
    source[0] = terms.linked(page, generated.fill(source[0]))


def link_to_python(_: Sphinx, __: object, node: nodes.Element, shown: nodes.Node) -> nodes.reference | None:
    """Let a type of Python in a signature lead to Python's documentation."""
    url = generated.python_url(node.get("reftarget", ""))
    return nodes.reference("", "", shown, internal=False, refuri=url) if url else None


def describe(_: Sphinx, __: str, ___: str, context: dict[str, Any], page: nodes.document | None) -> None:
    """Describe a page to search engines by its first paragraph."""
    if paragraph := next(iter(page.findall(nodes.paragraph)), None) if page else None:
        text = html.escape(textwrap.shorten(paragraph.astext(), 200, placeholder=" ..."))
        context["metatags"] += f'<meta name="description" content="{text}">'


def setup(app: Sphinx) -> None:
    """Let Sphinx call these functions."""
    app.connect("source-read", read)
    app.connect("missing-reference", link_to_python)
    app.connect("html-page-context", describe)
