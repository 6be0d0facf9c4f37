"""What is found of a URL: the URI with these very characters before others of the same canonical form."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from budgetfrontier import CrawlUri, Outcome
from budgetfrontier.store import url_search
from budgetfrontier.store.last_commit import LastCommit
from tests.support import START, crawl, on_disk


def test_urls_are_found_as_they_stand_before_others_of_the_same_canonical_form(tmp_path: Path) -> None:
    with on_disk(tmp_path) as frontier:
        frontier.schedule_many(CrawlUri(f"https://a.test/{page}", force=True) for page in ("b?y=1&x=1", "b?x=1&y=1"))
    with closing(LastCommit(tmp_path / "frontier")) as last, last.view() as view:

        def found(path: str) -> str | None:
            uri = url_search.find(view, f"https://a.test/{path}")["pending"]
            return None if uri is None else uri.uri.url.removeprefix("https://a.test/")

        assert [found(path) for path in ("b?y=1&x=1", "b?x=1&y=1", "b?x=1&y=1#z", "c")] == [
            "b?y=1&x=1", "b?x=1&y=1", "b?x=1&y=1", None,
        ]  # fmt: skip


def test_it_is_told_where_a_url_is(tmp_path: Path) -> None:
    with on_disk(tmp_path) as frontier:
        frontier.schedule("https://dead.test/")
        crawl(frontier, outcome=Outcome.DEAD)
        frontier.schedule(CrawlUri("https://later.test/", not_before=START + 60))
    with closing(LastCommit(tmp_path / "frontier")) as last, last.view() as view:
        dead, later, bad, unknown = (
            url_search.find(view, url)
            for url in ("https://dead.test/", "https://later.test/", "ftp://a.test/", "https://a.test/")
        )
    assert (dead["pending"], dead["dead"].uri.url, dead["seen"]) == (None, "https://dead.test/", True)
    assert (later["pending"].when, later["dead"]) == (START + 60, None)
    assert (bad["valid"], unknown["valid"], unknown["seen"], unknown["queue"]) == (False, True, False, "a.test")
