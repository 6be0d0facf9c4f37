"""What is found of a URL: the URI with these very characters before others of the same canonical form."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from budgetfrontier import CrawlUri, Outcome
from budgetfrontier.storage import url_search
from budgetfrontier.storage.last_commit import LastCommit
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


def test_the_queue_of_a_url_may_depend_on_the_address_of_its_host(tmp_path: Path) -> None:
    with on_disk(tmp_path, queue_assignment_policy="ip") as frontier:
        frontier.internals.know_address("a.test", "192.0.2.1")
    with closing(LastCommit(tmp_path / "frontier")) as last, last.view() as view:
        queues = [url_search.queue_of(view, f"http://{host}/") for host in ("a.test", "b.test:81", "192.0.2.9:81")]
    assert queues == ["192.0.2.1", "b.test:81", "192.0.2.9"]


def test_a_url_is_found_on_the_queue_that_it_had_by_another_policy_or_before_its_address_was_known(
    tmp_path: Path,
) -> None:
    with on_disk(tmp_path, queue_assignment_policy="surt-authority") as frontier:
        frontier.schedule_many(["http://a.test/1", CrawlUri("http://b.test/1", not_before=START + 60)])
    with on_disk(tmp_path, queue_assignment_policy="ip") as frontier:
        frontier.schedule_many(["http://a.test/2", "http://c.test/1"])
        frontier.internals.know_address("a.test", "192.0.2.1")
        frontier.schedule("http://a.test/3")
    with on_disk(tmp_path, queue_assignment_policy="single") as frontier:
        frontier.schedule("http://a.test/4")
    urls = [
        f"http://{page}" for page in ("a.test/1", "b.test/1", "a.test/2", "c.test/1", "a.test/3", "a.test/4", "d.test/")
    ]
    with closing(LastCommit(tmp_path / "frontier")) as last, last.view() as view:
        found = [url_search.find(view, url) for url in urls]
    queues = ["test,a,", "test,b,", "a.test", "c.test", "192.0.2.1", "all", "all"]
    assert [one["queue"] for one in found] == queues
    assert [one["pending"] is not None for one in found] == [True] * 6 + [False]


def test_a_url_on_a_queue_of_its_own_is_found_anywhere(tmp_path: Path) -> None:
    urls = [f"https://a.test/{page}" for page in range(3)]
    with on_disk(tmp_path) as frontier:
        frontier.schedule_many(CrawlUri(url, queue="apart", via="https://a.test/9") for url in urls[:2])
        frontier.schedule(CrawlUri(urls[2], queue="later", not_before=START + 60))
    with closing(LastCommit(tmp_path / "frontier")) as last, last.view() as view:
        assert [url_search.find(view, urls[1])[name] for name in ("seen", "pending", "queue")] == [True, None, "a.test"]
        found = [url_search.find(view, url, anywhere=True) for url in (*urls, "https://a.test/9")]
        known = [url_search.is_known(view, url) for url in (urls[0], "https://a.test/9", "ftp://a.test/")]
    assert [one["queue"] for one in found] == ["apart", "apart", "later", "a.test"]
    assert [one["pending"] and (one["pending"].place, one["pending"].when) for one in found] == [
        (0, None), (1, None), (0, START + 60), None,
    ]  # fmt: skip
    assert known == [True, False, False]
