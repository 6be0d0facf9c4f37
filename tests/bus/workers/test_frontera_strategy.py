"""Strategies of Frontera 0.8.1, its own and unchanged, in a strategy worker."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from budgetfrontier.bus import request_meta
from budgetfrontier.bus.codecs.codec import Codec
from budgetfrontier.bus.messages import (
    AddSeeds,
    LinksExtracted,
    PageCrawled,
    Request,
    RequestError,
    Response,
    UpdateScore,
)
from budgetfrontier.bus.workers import strategies
from budgetfrontier.bus.workers.frontera_strategy import FronteraStrategy, is_fronteras
from budgetfrontier.bus.workers.strategy import StrategyWorker
from budgetfrontier.errors import SettingsError
from budgetfrontier.tools.cli.bus_worker import _strategy
from tests.bus.workers.conftest import Desk
from tests.bus.workers.test_strategy import Asked

PAGE = Request("http://a.test/", meta={request_meta.DEPTH: 0, request_meta.JOB: 0})


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def frontera(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the modules of Frontera be imported, which need a function of w3lib that versions from 2 on do not have."""
    import w3lib.util

    monkeypatch.setattr(w3lib.util, "to_native_str", w3lib.util.to_unicode, raising=False)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] == "frontera":
            del sys.modules[name]


def strategy_of(module: str, name: str, **arguments: str) -> FronteraStrategy:
    """Make a strategy as `bus-worker --strategy MODULE:NAME -a NAME=VALUE` does."""
    made = _strategy(f"frontera.strategy.{module}:{name}", [f"{key}={value}" for key, value in arguments.items()])
    assert isinstance(made, FronteraStrategy)
    return made


def links(*urls: str, depth: int = 0) -> LinksExtracted:
    page = Request(PAGE.url, meta={request_meta.DEPTH: depth, request_meta.JOB: 0})
    return LinksExtracted(page, [Request(url) for url in urls])


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [("BreadthFirstCrawlingStrategy", 1 / 2, 1 / 3), ("DepthFirstCrawlingStrategy", 1 / 2, 2 / 3)],
)
def test_fronteras_breadth_and_depth_first_run_unchanged(desk: Desk, name: str, first: float, second: float) -> None:
    asked = Asked(desk, strategy_of("depth", name))
    assert asked.scores(AddSeeds([PAGE])) == {PAGE.url: 1.0}
    assert asked.scores(links("http://a.test/1")) == {"http://a.test/1": pytest.approx(first)}
    assert asked.scores(links("http://a.test/1", "http://a.test/2", depth=1)) == {
        "http://a.test/2": pytest.approx(second)
    }
    assert asked.scores(PageCrawled(Response(PAGE.url, request=PAGE))) == {}
    assert asked.scores(AddSeeds([PAGE])) == {}, "its state is CRAWLED"
    failed = Request("http://a.test/1", meta={request_meta.JOB: 0})
    assert asked.scores(RequestError(failed, "x")) == {}, "an error is no better than what was sent"
    other = Request("http://a.test/other", meta={request_meta.JOB: 0})
    assert asked.scores(RequestError(other, "x")) == {other.url: None}


def test_a_crawl_goes_on_by_a_strategy_of_frontera(desk: Desk) -> None:
    """The database worker takes its scores, and what it has fed comes back with the depth that the strategy has set."""
    asked = Asked(desk, strategy_of("depth", "BreadthFirstCrawlingStrategy"))
    seed = Request(PAGE.url, meta={request_meta.SOURCE: "s", request_meta.QUEUE: "q"})
    asked.worker.add_seeds([seed])
    asked.worker.step()
    desk.worker.step()
    for depth, path in enumerate(("", "1", "2")):
        [fed] = desk.fed()
        assert (fed.url, fed.meta[b"depth"], fed.meta[request_meta.SOURCE]) == (f"http://a.test/{path}", depth, "s")
        assert b"state" not in fed.meta
        found = Request(f"http://a.test/{depth + 1}")
        desk.report(LinksExtracted(fed, [found, Request(PAGE.url)]), PageCrawled(Response(fed.url, request=fed)))
        asked.worker.step()
        desk.worker.step()


def test_basic_and_what_it_gives_up_after_a_restart(desk: Desk) -> None:
    """States are in memory: the frontier drops what is scheduled again."""
    for _ in range(2):
        worker = StrategyWorker(strategy_of("basic", "BasicCrawlingStrategy"), desk.bus, desk.names, desk.codec)
        desk.send(desk.names.spider_log, AddSeeds([PAGE]), links("http://a.test/1"))
        worker.step()
        assert worker.counters["pushed_scores"] == 2
        worker.close()
        desk.worker.step()
    assert desk.frontier.summary().queued == 2


class Suffixes:
    """A public suffix list of top-level domains alone."""

    def __init__(self, file: Any) -> None:
        file.close()

    def get_public_suffix(self, host: str) -> str:
        return ".".join(host.split(".")[-2:])


def test_discovery_goes_as_far_as_the_content_of_pages_is_sent(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks for robots.txt, then for the sitemaps and the home page, then for links of the same domain."""
    suffixes = ModuleType("publicsuffix")  # its release needs pkg_resources, which setuptools no longer has
    monkeypatch.setattr(suffixes, "PublicSuffixList", Suffixes, raising=False)
    monkeypatch.setitem(sys.modules, "publicsuffix", suffixes)
    (tmp_path / "public_suffix_list.dat").write_text("test\n")
    monkeypatch.chdir(tmp_path)
    desk.codec = Codec(send_body=True)  # as of a spider with STORE_CONTENT
    asked = Asked(desk, strategy_of("discovery", "Discovery", USER_AGENT="us", DISCOVERY_MAX_PAGES="10"))

    def sent(*messages: Any) -> dict[str, Request]:
        return {each.request.url: each.request for each in asked.tell(*messages) if isinstance(each, UpdateScore)}

    robots = sent(AddSeeds([PAGE]))["http://a.test/robots.txt"]
    assert robots.meta[b"robots"] is True and robots.headers == {b"Accept-Language:": b"en-US,en"}
    body = b"User-agent: *\nDisallow: /no\nSitemap: http://a.test/map.xml\n"
    found = sent(PageCrawled(Response(robots.url, body=body, request=robots)))
    assert set(found) == {"http://a.test/map.xml", "http://a.test/"}
    home = found["http://a.test/"]
    found = sent(LinksExtracted(home, [Request(f"http://{name}") for name in ("a.test/1", "a.test/no", "b.test/2")]))
    assert set(found) == {"http://a.test/1"}
    map_ = b"<urlset><url><loc>http://a.test/3</loc></url></urlset>"
    assert set(sent(PageCrawled(Response("http://a.test/map.xml", body=map_, request=robots)))) <= {"http://a.test/3"}


def test_a_class_with_some_methods_of_frontera_is_refused_by_their_names() -> None:
    class Ported:
        def filter_extracted_links(self, request: Request, found: list[Request]) -> list[Request]:
            return found

        def links_extracted(self, request: Request, found: list[Request]) -> list[Request]:
            return found

    assert not is_fronteras(Ported)
    with pytest.raises(SettingsError, match="filter_extracted_links: name it filter_links"):
        strategies.check(Ported)
    with pytest.raises(SettingsError, match="is no strategy of Frontera: those have from_worker, read_seeds"):
        FronteraStrategy(Ported)


def test_a_method_that_fails_schedules_nothing_and_sets_no_state(desk: Desk) -> None:
    made = strategy_of("depth", "BreadthFirstCrawlingStrategy")
    inner = made._strategy
    get_score = type(inner).get_score

    def fail(link: Any) -> float:
        if link.url.endswith("bad"):
            raise KeyError("mine")
        return float(get_score(inner, link))

    inner.get_score = fail
    asked = Asked(desk, made)
    assert asked.scores(links("http://a.test/1", "http://a.test/bad")) == {}
    assert [each.reason for each in desk.rejected()] == ["the strategy failed: KeyError: 'mine'"]
    assert asked.scores(links("http://a.test/1")) == {"http://a.test/1": 0.5}
