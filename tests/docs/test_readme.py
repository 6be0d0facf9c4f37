"""The README is short, and whole where nothing of the repository is beside it: on a package index."""

from __future__ import annotations

import re

from readme_renderer import markdown

from tests.docs.test_examples import ROOT
from tests.docs.test_links import links
from tests.docs.test_read_the_docs import PROJECT

README = ROOT / "README.md"
SOURCE, DOCUMENTATION = PROJECT["urls"]["Source"], PROJECT["urls"]["Documentation"]


def test_it_is_short_and_all_its_links_begin_with_an_address_of_the_project() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 100
    pictures = SOURCE.replace("github.com", "raw.githubusercontent.com") + "/main/"
    bases = (f"{SOURCE}/blob/main/", f"{DOCUMENTATION}/en/latest/", pictures)
    found = set(links(README))
    assert {each for each in found if not each.startswith(bases)} == set()
    assert {base for base in bases for each in found if each.startswith(base)} == set(bases)


def test_a_package_index_renders_it() -> None:
    """With what PyPI renders it with."""
    rendered = markdown.render(README.read_text(encoding="utf-8"))
    assert rendered is not None
    assert set(re.findall(r'(?:href|src)="(https:[^"]+)"', rendered)) == set(links(README))
    assert "<table>" in rendered and "mermaid" not in rendered
    assert rendered.count("<pre") == len(re.findall(r"^```\w+$", README.read_text(encoding="utf-8"), re.MULTILINE))


def test_the_states_of_a_queue_are_drawn_once() -> None:
    pages = [README, *(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts)]
    drawing = re.compile(r"^```.*\n(?:(?!```).*\n)*.*-->.*\bIN_PROCESS\b|stateDiagram", re.MULTILINE)
    drawn = [page.name for page in pages for _ in drawing.finditer(page.read_text(encoding="utf-8"))]
    assert drawn == ["semantics.md"]
