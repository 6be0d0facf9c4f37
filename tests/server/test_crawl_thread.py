"""The thread of a crawl: the order of what it does."""

from __future__ import annotations

import queue
import threading
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, Settings
from budgetfrontier.server import crawl_thread
from budgetfrontier.server.crawl_thread import CrawlThread
from tests.support import PATIENCE, until


def test_what_somebody_waits_for_goes_first_and_holds_up_nothing_for_ever(tmp_path: Path) -> None:
    crawl = CrawlThread("c", tmp_path / "frontier", Settings)
    begun, go_on = threading.Event(), threading.Event()
    order: list[str] = []
    ended: list[str] = []

    def submit(name: str, *, soon: bool) -> None:
        def work(frontier: Frontier) -> None:
            order.append(name)
            if soon and name < "s8":  # each is followed by another at once
                submit(f"s{int(name[1:]) + 1}", soon=True)

        def done(result: Any, error: BaseException | None) -> None:
            assert error is None
            ended.append(name)

        crawl.submit(work, done, soon=soon)

    def first(frontier: Frontier) -> None:
        begun.set()
        go_on.wait()

    crawl.submit(first, lambda result, error: None)
    begun.wait()
    for number in range(3):
        submit(f"other {number}", soon=False)
    submit("s0", soon=True)
    go_on.set()
    until(lambda: len(ended) == 12)
    crawl.close()
    assert order[0] == "s0"
    assert [name for name in order if name.startswith("other")] == ["other 0", "other 1", "other 2"]
    assert [name for name in order if not name.startswith("other")] == [f"s{number}" for number in range(9)]


def test_work_that_arrives_when_all_is_done_shares_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = CrawlThread("c", tmp_path / "frontier", Settings)
    more, happened = list("bc"), list[str]()
    commit = Frontier.commit

    def noted(frontier: Frontier) -> None:
        commit(frontier)
        happened.append("commit")

    def schedule(name: str) -> Callable[[Frontier], Any]:
        return lambda frontier: frontier.schedule(f"https://{name}.example/")

    def submit(name: str) -> None:
        crawl.submit(schedule(name), lambda result, error: happened.append(name))

    def others_run(seconds: float) -> None:
        if more:
            submit(more.pop(0))

    monkeypatch.setattr(Frontier, "commit", noted)
    monkeypatch.setattr(crawl_thread, "sleep", others_run)
    submit("a")
    until(lambda: len(happened) >= 4)
    crawl.close()
    assert happened[:4] == ["commit", "a", "b", "c"]


class _Inbox(queue.SimpleQueue[Any]):
    """An inbox into which work is put just after it was found empty by the thread that leaves."""

    def __init__(self, put: Callable[[], None]) -> None:
        super().__init__()
        self._late: threading.Thread | None = threading.Thread(target=put)

    def empty(self) -> bool:
        found = super().empty()
        if found and self._late is not None and "_leaves" in {frame.name for frame in traceback.extract_stack()}:
            late, self._late = self._late, None
            late.start()
            until(lambda: not super(_Inbox, self).empty())
            late.join(0.2)  # it may wait for this thread
        return found


def test_work_that_comes_while_the_thread_of_an_unused_crawl_leaves_is_done(tmp_path: Path) -> None:
    crawl = CrawlThread("c", tmp_path / "frontier", Settings, close_after=0.001)
    ended = threading.Event()
    submit = partial(crawl.submit, lambda frontier: frontier.schedule("https://a.example/"))
    crawl._inbox = _Inbox(lambda: submit(lambda result, error: ended.set()))
    submit(lambda result, error: None)
    assert ended.wait(PATIENCE)
    crawl.close()
