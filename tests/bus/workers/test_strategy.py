"""The strategy worker: what it asks a strategy, and what it sends of the answers."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier.bus import request_meta
from budgetfrontier.bus.dead_letters import NOT_SENT
from budgetfrontier.bus.messages import (
    AddSeeds,
    LinksExtracted,
    Message,
    NewJobId,
    PageCrawled,
    Request,
    RequestError,
    Response,
    UpdateScore,
)
from budgetfrontier.bus.streams import DATABASE, STRATEGY
from budgetfrontier.bus.workers import loop, strategies
from budgetfrontier.bus.workers.strategies import BreadthFirst, Score
from budgetfrontier.bus.workers.strategy import StrategyWorker
from budgetfrontier.bus.workers.uri_conversion import seed_request
from budgetfrontier.errors import SettingsError
from budgetfrontier.rules.scope import Scope
from budgetfrontier.settings.schema import ScopeSettings, Seed
from tests.bus.limited import LimitedBus
from tests.bus.workers.conftest import Desk

PAGE = Request("http://a.test/", meta={request_meta.DEPTH: 1, request_meta.JOB: 0})


class Asked:
    """A strategy worker, and what it has sent."""

    def __init__(self, desk: Desk, strategy: Any = None, **options: Any) -> None:
        self.desk = desk
        self.worker = StrategyWorker(strategy or BreadthFirst(), desk.bus, desk.names, desk.codec, **options)
        self._scores = desk.bus.consumer(desk.names.scoring_log, DATABASE)

    def tell(self, *messages: Message | bytes) -> list[Message]:
        self.desk.send(self.desk.names.spider_log, *messages)
        self.worker.step()
        return [self.desk.codec.decode(each.data) for each in self._scores.poll(1000, 0.0)]

    def scores(self, *messages: Message | bytes) -> dict[str, float | None]:
        """The scores by URL, None for what is only marked as seen."""
        sent = self.tell(*messages)
        assert all(isinstance(each, UpdateScore) for each in sent)
        return {each.request.url: each.score if each.schedule else None for each in sent}  # type: ignore[union-attr]


def links(*urls: str, page: Request = PAGE) -> LinksExtracted:
    return LinksExtracted(page, [Request(url) for url in urls])


def test_breadth_first(desk: Desk) -> None:
    asked = Asked(desk, BreadthFirst(max_depth="2"))
    assert asked.scores(AddSeeds([PAGE])) == {PAGE.url: 1.0}
    assert asked.scores(links("http://a.test/1")) == {"http://a.test/1": 1 / 3}
    deep = Request("http://a.test/1", meta={request_meta.DEPTH: 2})
    assert asked.scores(links("http://a.test/2", page=deep)) == {}
    assert asked.scores(PageCrawled(Response(PAGE.url, request=PAGE)), RequestError(PAGE, "x")) == {}


def test_links_know_their_page_and_depth(desk: Desk) -> None:
    page = Request(PAGE.url, meta={b"jid": 3, b"depth": 4})
    [sent] = Asked(desk, job=3).tell(links("http://a.test/1", page=page))[1:]
    assert isinstance(sent, UpdateScore)
    assert sent.request.meta == {request_meta.DEPTH: 5, request_meta.VIA: PAGE.url, request_meta.JOB: 3}


def test_what_was_scored_is_not_sent_again(desk: Desk) -> None:
    """Unless its score is higher, or it is forced; or forgotten, which does no harm."""
    asked = Asked(desk, remember=2)
    assert asked.scores(links("http://a.test/1", "http://a.test/1")) == {"http://a.test/1": 1 / 3}
    assert asked.scores(links("http://a.test/1")) == {}
    assert asked.scores(AddSeeds([Request("http://a.test/1")])) == {"http://a.test/1": 1.0}
    forced = LinksExtracted(PAGE, [Request("http://a.test/1", meta={request_meta.FORCE: True})])
    assert asked.scores(forced) == {"http://a.test/1": 1 / 3}
    assert len(asked.scores(links("http://a.test/2", "http://a.test/3"))) == 2
    assert asked.scores(links("http://a.test/1")) == {"http://a.test/1": 1 / 3}


def test_the_scope_comes_first(desk: Desk) -> None:
    asked = Asked(desk, scope=Scope(ScopeSettings(accept=("seed-hosts",), max_hops=2)))
    asked.tell(AddSeeds([PAGE]))
    assert list(asked.scores(links("http://a.test/1", "http://b.test/1", "mailto:x"))) == ["http://a.test/1"]
    far = Request("http://a.test/1", meta={request_meta.DEPTH: 2})
    assert asked.scores(links("http://a.test/2", page=far)) == {}


class Mine:
    """A strategy with all methods."""

    def add_seeds(self, seeds: list[Request]) -> list[Score]:
        return [Score(seed, 0.5) for seed in seeds]

    def filter_links(self, request: Request, found: list[Request]) -> list[Request]:
        return [link for link in found if not link.url.endswith("no")]

    def links_extracted(self, request: Request, found: list[Request]) -> list[Score]:
        if request.url == "http://bad.test/":
            raise KeyError("mine")
        return [Score(link, 0.25) for link in found]

    def page_crawled(self, response: Response) -> list[Score]:
        return [Score(Request(response.url + "?seen"), schedule=False)]

    def request_error(self, request: Request, error: str) -> list[Score]:
        return [Score(Request(f"http://a.test/{error}"), float("nan") if error == "nan" else 0.1)]


def test_seeds_of_the_settings_keep_what_is_said_of_them(desk: Desk) -> None:
    """Their priority orders them, their queue is theirs, and their source is that of all that is found from them."""
    asked = Asked(desk)
    first, last = "http://a.test/first", "http://a.test/last"
    asked.worker.add_seeds(
        seed_request(seed.url or "", seed)
        for seed in (Seed(url=last, queue="q", source="s", priority=-1), Seed(url=first, queue="q", priority=7))
    )
    asked.worker.step()
    desk.worker.step()
    [fed] = desk.fed()
    assert fed.url == first
    desk.report(PageCrawled(Response(first, request=fed)))
    [fed] = desk.fed()
    assert (fed.url, fed.meta.get(request_meta.SOURCE), request_meta.PRIORITY in fed.meta) == (last, "s", False)
    desk.report(LinksExtracted(fed, [Request("http://b.test/")]), PageCrawled(Response(last, request=fed)))
    asked.worker.step()
    desk.worker.step()
    [fed] = desk.fed()
    assert (fed.url, fed.meta[request_meta.SOURCE]) == ("http://b.test/", "s")


def test_a_strategy_of_ones_own(desk: Desk) -> None:
    asked = Asked(desk, Mine())
    assert asked.scores(AddSeeds([PAGE]), links("http://a.test/no", "http://a.test/1")) == {
        PAGE.url: 0.5,
        "http://a.test/1": 0.25,
    }
    assert asked.scores(PageCrawled(Response("http://a.test/", request=PAGE)), RequestError(PAGE, "x")) == {
        "http://a.test/?seen": None,
        "http://a.test/x": 0.1,
    }


@pytest.mark.parametrize(
    ("methods", "expected"),
    [
        (["links_extracted", "filter_extracted_links"], "filter_extracted_links: name it filter_links. Those that are"),
        (
            ["page_crawled", "read_seeds", "frontier_stop"],
            "read_seeds: add_seeds takes the seeds of the settings, .*; frontier_stop: name it close",
        ),
        (["links_extract"], 'may have .*: links_extract; did you mean "links_extracted"'),
        ([], r"Ported has none of the methods that a strategy may have \(add_seeds, "),
    ],
)
@pytest.mark.parametrize("as_class", [True, False])
def test_a_strategy_with_methods_that_would_never_be_called_is_refused(
    desk: Desk, methods: list[str], expected: str, as_class: bool
) -> None:
    """As those of Frontera that have other names here; a class before an instance of it is made."""
    ported = type("Ported", (), dict.fromkeys(methods, lambda *_: []))
    with pytest.raises(SettingsError, match=expected):
        if as_class:
            strategies.check(ported)
        else:
            Asked(desk, ported())


def test_the_methods_of_a_strategy_are_those_of_its_protocol() -> None:
    assert {*strategies.METHODS, "finished", "close"} == {
        name for name in vars(strategies.Strategy) if not name.startswith("_")
    }


def test_a_strategy_that_has_reached_its_goal_ends_its_worker_and_is_closed(desk: Desk) -> None:
    class OnePage(BreadthFirst):
        pages = closed = 0

        def page_crawled(self, response: Response) -> list[Score]:
            self.pages += 1
            return []

        def finished(self) -> bool:
            return self.pages > 0

        def close(self) -> None:
            self.closed += 1

    strategy = OnePage()
    worker = StrategyWorker(strategy, desk.bus, desk.names, desk.codec)
    calls = iter(range(1, 100))

    def stopped(seconds: float) -> bool:
        if next(calls) == 3:
            desk.send(desk.names.spider_log, PageCrawled(Response(PAGE.url, request=PAGE)))
        return False

    loop.run(worker, desk.bus, desk.names, desk.codec, every=0.0, stopped=stopped)
    assert (strategy.pages, next(calls)) == (1, 4)
    worker.close()
    assert strategy.closed == 1


def test_what_a_strategy_fails_on_is_a_dead_letter(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    asked = Asked(desk, Mine())
    bad = links("http://a.test/1", page=Request("http://bad.test/"))
    assert asked.scores(bad, bad, RequestError(PAGE, "nan"), b"no message", links("http://a.test/2")) == {
        "http://a.test/2": 0.25
    }
    assert [each.reason.partition(":")[0] for each in desk.rejected()] == [
        "the strategy failed", "the strategy failed", "the strategy failed", "msgpack",
    ]  # fmt: skip
    assert caplog.text.count("the strategy failed on a message links_extracted") == 1


def test_a_score_that_is_too_large_is_a_dead_letter_before_its_message_is_forgotten(desk: Desk) -> None:
    limited = desk.bus = LimitedBus(desk.bus, 1 << 20)  # type: ignore[assignment]
    asked = Asked(desk)
    large, small = Request("http://a.test/large", meta={b"mine": "x" * 3000}), Request("http://a.test/small")
    desk.send(desk.names.spider_log, LinksExtracted(PAGE, [large]), LinksExtracted(PAGE, [small]))
    limited.limit = 2000
    assert asked.scores() == {small.url: 1 / 3}
    [letter] = desk.rejected()
    assert (letter.stream, letter.offset, letter.reason) == (desk.names.scoring_log.name, NOT_SENT, "too large")
    assert desk.bus.lag(desk.names.spider_log, STRATEGY) == [0]


def test_a_job_ignores_all_others(desk: Desk) -> None:
    asked = Asked(desk, job=2)
    assert asked.tell() == [NewJobId(2)]
    old, new = (Request(PAGE.url, meta={request_meta.JOB: job}) for job in (1, 2))
    assert asked.scores(links("http://a.test/1", page=old), links("http://a.test/2", page=new)) == {
        "http://a.test/2": 1 / 2
    }
