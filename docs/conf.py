"""Sphinx builds the pages from Markdown; facts in the code are filled in from `generated.py`."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import generated  # noqa: E402

project = "budgetfrontier"
author = "The budgetfrontier authors"
copyright = author
release = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"budgetfrontier {release}"


def setup(app: object) -> None:
    """Replace each `<!-- generated: name -->` by what generated.py makes of it."""
    app.connect("source-read", lambda _, __, source: source.__setitem__(0, generated.fill(source[0])))  # type: ignore[attr-defined]
