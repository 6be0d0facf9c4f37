"""The figures that pages give with their sources are in the results of benchmarks that they name."""

from __future__ import annotations

import re

from tests.docs.test_documented import DOCS

RESULTS = DOCS.parent / "benchmarks" / "results"
NAME = re.compile(r"`(?:benchmarks/results/)?((?:[a-z]+-)*\d{4}-\d\d-\d\d[\w-]*)(?:\.md)?`")
DATE = re.compile(r"\d{4}-\d\d-\d\d")
OLDER = {"simulations-2026-11-29-intel-xeon-processor": "the newer run has no rates"}
"""Results that pages name although there are newer ones of the same kind, and the reason."""


def test_results_that_pages_name_are_there() -> None:
    for page in ("explanation/compared.md", "howto/asyncio.md", "howto/choose.md", "howto/leases.md"):
        names = NAME.findall((DOCS / page).read_text(encoding="utf-8"))
        assert names and [name for name in names if not list(RESULTS.glob(f"{name}*.md"))] == []


def test_pages_name_the_newest_results_of_each_kind() -> None:
    newest: dict[str, str] = {}
    for name in sorted((path.stem for path in RESULTS.glob("*.md")), key=DATE.findall):
        newest[DATE.split(name)[0]] = name
    named = {
        (page.name, name)
        for page in DOCS.rglob("*.md")
        if "_build" not in page.parts
        for name in NAME.findall(page.read_text(encoding="utf-8"))
    }
    assert len(named) > 10
    assert [
        (page, name)
        for page, name in sorted(named)
        if not newest[DATE.split(name)[0]].startswith(name) and name not in OLDER
    ] == []


def test_rates_of_the_guides_are_those_measured() -> None:
    results = "".join(path.read_text(encoding="utf-8") for path in RESULTS.glob("*.md"))
    pages = [DOCS.parent / "README.md", DOCS / "faq.md", *sorted((DOCS / "howto").glob("*.md"))]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    rates = re.findall(r"(\d+,\d{3}) (?:URLs|requests|pages) a second", text)
    assert len(rates) > 4 and [rate for rate in rates if f" {rate}/s " not in results] == []


def test_rates_beside_other_crawlers_are_those_measured() -> None:
    checked = 0
    for line in (DOCS / "explanation" / "compared.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and (name := NAME.search(line)):
            results = (RESULTS / f"{name[1]}.md").read_text(encoding="utf-8")
            for rate in re.findall(r"([\d,]+)(?: pages)?/s", line):
                assert f" {rate}/s " in results, line
                checked += 1
    assert checked > 10
