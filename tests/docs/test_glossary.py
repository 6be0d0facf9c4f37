"""The glossary has each term once, and the guides link the first use of each."""

from __future__ import annotations

import re

import pytest

from docs import terms
from tests.docs.test_documented import DOCS

GUIDES = [path.relative_to(DOCS).with_suffix("").as_posix() for path in sorted(DOCS.rglob("*.md"))]
GUIDES = [page for page in GUIDES if terms.GUIDES.match(page)]
ROLE = re.compile(r"\{term\}`([^`<]+) <([^>]+)>`")


def test_the_glossary_is_sorted_and_has_no_term_twice() -> None:
    entries = terms.entries()
    assert [entry[0].lower() for entry in entries] == sorted(entry[0].lower() for entry in entries)
    names = [term.lower() for entry in entries for term in entry]
    assert len(names) == len(set(names))
    assert {"queue", "balance", "replenish amount", "spend", "retired", "directive"} <= set(names)
    assert {"hop", "precedence", "lease", "dead letter"} <= set(names)
    assert set(names) >= terms.EVERYDAY


def test_the_first_use_is_linked_and_no_code_link_or_heading() -> None:
    text = "# A queue\n\n`a lease`, [a lease](x.md) of queues.\n\n```sh\nspend\n```\n\nQueues spend; dead\nletters.\n"
    assert terms.linked("howto/x", text) == (
        "# A queue\n\n`a lease`, [a lease](x.md) of {term}`queues <queue>`.\n\n```sh\nspend\n```\n\n"
        "Queues {term}`spend <spend>`; {term}`dead\nletters <dead letter>`.\n"
    )
    assert terms.linked("explanation/x", text) == text


@pytest.mark.parametrize("page", GUIDES)
def test_each_guide_links_a_term_at_most_once_and_is_otherwise_as_written(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    linked = terms.linked(page, text)
    targets = [target for _, target in ROLE.findall(linked)]
    assert len(targets) == len(set(targets)) and (targets or page == "howto/index")
    assert ROLE.sub(r"\1", linked) == text
