"""Links lead to files and headings that exist; those to other sites are well-formed, and `make linkcheck` visits them.

Sphinx checks the headings that pages of the documentation link to; here are those of the files that GitHub shows, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.docs.test_examples import ROOT

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob(".github/**/*.md")),
    *sorted(page for page in ROOT.glob("docs/**/*.md") if "_build" not in page.parts),
]
CONF = (ROOT / "docs/conf.py").read_text(encoding="utf-8")
IGNORED = re.compile("".join(re.findall(r'^linkcheck_ignore = \[r"(.*)"\]$', CONF, re.MULTILINE)))
IN_THE_REPOSITORY = re.compile(r"https://(?:github|raw\.githubusercontent)\.com/budgetfrontier/budgetfrontier/(.*)")
ON_READ_THE_DOCS = re.compile(r"https://budgetfrontier\.readthedocs\.io/(?:en/\w+/)?(.*)")


def prose(page: Path) -> str:
    """Return the text of a page without its code."""
    return re.sub(r"^```.*?^```$|`[^`]*`", "CODE", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def links(page: Path) -> Iterator[str]:
    """Yield what a page links to, pictures included."""
    for found in re.finditer(r"\]\(([^)\s]+)|\b(?:href|src)=\"([^\"]+)|<(https?://[^>]+)>", prose(page)):
        yield found[1] or found[2] or found[3]


def anchors(page: Path) -> set[str]:
    """Return the names that GitHub and MyST give to the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def local(page: Path, target: str) -> tuple[Path, str] | None:
    """Return the file and the anchor that a link leads to, None for other sites."""
    path, _, anchor = target.partition("#")
    if found := IN_THE_REPOSITORY.match(path):
        inside = re.match(r"(?:(?:blob|raw|tree)/)?[\w.-]+/((?:benchmarks|docs)/.*|[^/]*)$", found[1])
        return (ROOT / inside[1], anchor) if inside and "." in inside[1] else None
    if found := ON_READ_THE_DOCS.match(path):
        return ROOT / "docs" / re.sub(r"\.html$", ".md", found[1] or "index.html"), anchor
    return None if urlsplit(path).scheme else ((page.parent / path).resolve() if path else page, anchor)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for target in links(page):
        if found := local(page, target):
            file, anchor = found
            assert file.exists(), target
            generated = file.suffix == ".md" and "<!-- generated: " in file.read_text(encoding="utf-8")
            assert not anchor or generated or anchor in anchors(file), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_other_sites_are_well_formed(page: Path) -> None:
    for target in links(page):
        parts = urlsplit(target)
        if parts.scheme and not IGNORED.match(target):
            assert parts.scheme in ("https", "mailto"), target
            assert parts.scheme == "mailto" or re.fullmatch(r"[\w-]+(\.[\w-]+)+", parts.netloc), target


def test_the_check_of_links_leaves_out_addresses_of_examples_alone() -> None:
    ignored = [
        "http://127.0.0.1:8089/",
        "http://localhost",
        "https://www.example.org/a",
        "http://x.example/",
        "http://first.test",
    ]
    visited = ["https://example.dev/", "https://www.latest/", "https://pypi.org/project/x", "https://a.example.org.uk/"]
    assert all(IGNORED.match(url) for url in ignored)
    assert not any(IGNORED.match(url) for url in visited)
