"""Sphinx builds the pages from Markdown; facts in the code are filled in from `generated.py`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import generated
import terms

from budgetfrontier import __version__

project = "budgetfrontier"
author = "The budgetfrontier authors"
copyright = author
release = __version__

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"budgetfrontier {release}"
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", "")

linkcheck_ignore = [r"https?://(127\.0\.0\.1|localhost|([\w-]+\.)*(example(\.(com|net|org))?|test))([:/]|$)"]
linkcheck_timeout = 30
linkcheck_retries = 3


def setup(app: object) -> None:
    """Replace each `<!-- generated: name -->` by what generated.py makes of it, and link terms of the glossary."""

    def read(_: object, page: str, source: list[str]) -> None:
        source[0] = terms.linked(page, generated.fill(source[0]))

    app.connect("source-read", read)  # type: ignore[attr-defined]
