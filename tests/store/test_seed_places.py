"""Where seeds are: at the head of a queue, leased, for later, dead, only seen, or never scheduled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from budgetfrontier import CrawlUri, Outcome, Reader
from budgetfrontier.model import DeadLetter, Directive
from budgetfrontier.store.seed_places import Place, seed_places
from budgetfrontier.store.view import PendingUri
from tests.support import START, on_disk, one


def places(folder: Path, *urls: str, **options: Any) -> dict[str, Place]:
    with Reader(folder / "frontier") as reader, reader.view() as view:
        return seed_places(view, urls, **options)


def seed(url: str, **fields: Any) -> CrawlUri:
    return CrawlUri(url, directive=Directive.MEDIUM, **fields)


def test_each_seed_is_found_where_it_is(tmp_path: Path) -> None:
    with on_disk(tmp_path, concurrency=1) as f:
        f.schedule(seed("https://dead.test/"))
        f.finish(one(f), Outcome.DEAD, reason="poison")
        f.schedule(seed("https://done.test/"))
        f.finish(one(f))
        f.schedule(seed("https://out.test/"))
        one(f)
        f.schedule_many(f"https://wait.test/{n}" for n in range(50))
        f.schedule_many([seed("https://wait.test/seed"), seed("https://forced.test/", queue="other")])
        f.schedule(seed("https://later.test/", not_before=START + 1000))
        f.commit()
        names = ("dead", "done", "out", "later", "never")
        found = places(
            tmp_path,
            *(f"https://{name}.test/" for name in names),
            "https://wait.test/seed",
            "https://wait.test/7",
            "https://forced.test/",
            queues={"https://forced.test/": "other"},
        )
    dead, out, later, waiting, forced = (
        found[f"https://{name}"].record
        for name in ("dead.test/", "out.test/", "later.test/", "wait.test/seed", "forced.test/")
    )
    assert isinstance(dead, DeadLetter) and dead.reason == "poison"
    assert isinstance(out, PendingUri) and out.leased
    assert isinstance(later, PendingUri) and later.when == START + 1000
    assert isinstance(waiting, PendingUri) and (waiting.place, waiting.leased) == (0, False)
    assert isinstance(forced, PendingUri) and forced.queue == "other"
    assert found["https://done.test/"] == Place("done.test", True)
    assert found["https://never.test/"] == Place("never.test", False)
    assert found["https://wait.test/7"] == Place("wait.test", True), "a link is not looked for"
