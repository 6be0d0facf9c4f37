"""Sinks: what they are given, when they are called, and that nothing they do ends a crawl. Statistics: the columns."""

from __future__ import annotations

import json
import logging
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from budgetfrontier import Settings
from budgetfrontier.core.model import CrawlState, Outcome, Summary
from budgetfrontier.crawler.fetch.response import CONNECT_FAILED, ROBOTS_PRECLUDED
from budgetfrontier.crawler.outputs import Outputs
from budgetfrontier.crawler.outputs.sinks import Page, Sinks
from budgetfrontier.crawler.outputs.statistics import LEGEND, Statistics
from budgetfrontier.errors import SettingsError
from tests.crawler.warcs import Known, answer, lease
from tests.support import logged

MODULE = "sinks_of_a_test"


class Noting:
    """A sink that notes how it was called."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __call__(self, page: Page) -> None:
        self.calls.append(page)

    def sync(self) -> None:
        self.calls.append("sync")

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = ModuleType(MODULE)
    monkeypatch.setitem(sys.modules, MODULE, module)
    return module


def job(folder: Path, *sinks: str, **output: str) -> Outputs:
    named = [f"{MODULE}:{name}" for name in sinks]
    return Outputs(folder, Settings.from_dict({"output": {"sinks": named, **output}}), cache=Known())


def test_a_sink_is_given_every_page(tmp_path: Path, module: Any) -> None:
    module.sink = Noting()
    with job(tmp_path, "sink", noindex="skip") as outputs:
        latin = {"Content-Type": "Text/Plain; charset=latin-1"}
        outputs.write(
            lease(source="mine"), msgspec.structs.replace(answer(b"\xfcber"), headers=latin), Outcome.SUCCESS, slot=1
        )
        outputs.write(lease(), answer(status=404), Outcome.SUCCESS, slot=1)
        outputs.write(lease(), answer(status=503), Outcome.RETRY, slot=1)
        outputs.write(lease(), answer(status=CONNECT_FAILED), Outcome.RETRY, slot=1)
        outputs.write(lease(), answer(status=ROBOTS_PRECLUDED), Outcome.DISREGARDED, slot=1)
        outputs.write(lease(), answer(notes=["midFetchAbort"]), Outcome.DISREGARDED, slot=1)
        outputs.write(lease(), answer(notes=["noindex"]), Outcome.SUCCESS, slot=1)
        outputs.sync()
    *pages, synced, closed = module.sink.calls
    assert (synced, closed) == ("sync", "close")
    assert [page.status for page in pages] == [200, 404, 503]
    assert pages[2].outcome is Outcome.RETRY
    page = pages[0]
    assert page.url == "https://example.org/a?b" and page.mime == "text/plain" and page.body == b"\xfcber"
    assert page.text() == "über" and page.uri.source == "mine" and page.queue == "example.org"
    assert page.digest.startswith("sha1:") and page.address == "192.0.2.7" and page.seconds == 0.0421


def test_what_a_sink_raises_is_logged_once_and_counted(
    tmp_path: Path, module: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def bad(page: Page) -> None:
        raise KeyError(page.status) if page.status == 404 else ValueError("no")

    module.bad, module.sink = bad, Noting()
    with job(tmp_path, "bad", "sink") as outputs:
        for status in (200, 404, 200, 200):
            outputs.write(lease(), answer(status=status), Outcome.SUCCESS, slot=1)
        assert len(logged(caplog, "budgetfrontier.crawl", level=logging.ERROR)) == 2
        outputs.sync()
    assert len(module.sink.calls) == 6  # the other one had them all
    assert logged(caplog, "budgetfrontier.crawl")[2:] == [
        f"the sink {MODULE}:bad failed 3 times with ValueError",
        f"the sink {MODULE}:bad failed once with KeyError",
    ]


def test_a_class_is_made_and_methods_that_fail_do_no_harm(module: Any) -> None:
    class Failing(Noting):
        def sync(self) -> None:
            raise OSError("no")

        close = sync

    module.Failing = Failing
    sinks = Sinks((f"{MODULE}:Failing",))
    sinks.sync()
    sinks.close()
    assert sinks.errors == {(f"{MODULE}:Failing", "OSError"): 2}
    sinks.sync()  # closed: nobody is called any more


async def waiting(page: Page) -> None: ...


class Waiting:
    async def __call__(self, page: Page) -> None: ...


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no_such_module:x", "cannot be imported: .*No module named"),
        (f"{MODULE}:missing", "cannot be imported: .*missing"),
        (f"{MODULE}:number", "cannot be called"),
        (f"{MODULE}:waiting", "is async"),
        (f"{MODULE}:Waiting", "is async"),
        (f"{MODULE}:nothing", r"must take \(page\): too many positional"),
        (f"{MODULE}:Bad", "cannot be made: ZeroDivisionError"),
    ],
)
def test_a_sink_that_cannot_be_is_a_setting_that_is_wrong(tmp_path: Path, module: Any, name: str, why: str) -> None:
    class Bad:
        def __init__(self) -> None:
            raise ZeroDivisionError

    module.number, module.waiting, module.Waiting, module.nothing, module.Bad = 1, waiting, Waiting, lambda: None, Bad
    with pytest.raises(SettingsError, match=f"output.sinks: '?{name}'? {why}"):
        Outputs(tmp_path / "job", Settings.from_dict({"output": {"sinks": [name]}}), cache=Known())
    assert not (tmp_path / "job").exists()


def summary(**counts: Any) -> Summary:
    zero = dict.fromkeys(Summary.__struct_fields__, 0)
    return Summary(**{**zero, "state": CrawlState.RUNNING, "pause_reason": None, "queues": {}, **counts})


def test_statistics_have_heritrix_columns(tmp_path: Path) -> None:
    for run in range(2):
        statistics = Statistics(tmp_path / "log")
        now = summary(scheduled=500, queued=70 + run, succeeded=400, queues={"READY": 3, "SNOOZED": 4, "RETIRED": 9})
        statistics.write(now, elapsed=10.0, fetched=400, bytes=10 << 20, in_flight=5, failures=3)
        statistics.write(now, elapsed=12.0, fetched=404, bytes=12 << 20, in_flight=6, failures=3)
        statistics.file.close()
    legend, *lines = (tmp_path / "log").read_text().splitlines()
    assert legend == LEGEND and len(lines) == 4
    columns = [dict(zip(legend.split(), line.split(), strict=True)) for line in lines]
    cache = columns[1].pop("mem-use-KB")
    assert cache == "-" or int(cache) > 1000
    assert columns[1].pop("timestamp").endswith("Z")
    assert columns[1] == {
        "discovered": "500",
        "queued": "70",
        "downloaded": "400",
        "doc/s(avg)": "2.00(33.67)",
        "KB/s(avg)": "1024(1024)",
        "dl-failures": "3",
        "busy-thread": "6",
        "heap-size-KB": "-",
        "congestion": "-",
        "max-depth": "-",
        "avg-depth": "10",
    }
    assert {len(line) for line in lines} == {len(legend)}
    assert columns[2]["doc/s(avg)"] == "40.00(40.00)" and columns[2]["queued"] == "71"


def test_what_is_given_and_written_is_documented(tmp_path: Path) -> None:
    docs = Path(__file__).parents[2] / "docs"
    named = set(re.findall(r"`([a-z_]+)`", (docs / "howto/sink.md").read_text(encoding="utf-8")))
    assert named >= set(Page.__struct_fields__)
    with job(tmp_path) as outputs:
        outputs.write(lease(), answer(), Outcome.SUCCESS, slot=1)
    reference = (docs / "reference/outputs.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(\S+)`", reference)) >= {
        *LEGEND.split(),
        *json.loads((tmp_path / "logs/pages.jsonl").read_bytes()),
    }
