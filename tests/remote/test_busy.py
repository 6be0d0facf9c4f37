"""What a signal handler does with a client in the middle of a call in the same thread."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import FrontierBusy
from budgetfrontier.cluster.calls.thread_calls import ThreadCalls
from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.remote import RemoteFrontier
from budgetfrontier.remote.calls_in_progress import UnderWay
from tests.cluster.workers import addressed
from tests.remote.served import Served

CALLS: list[Callable[[Any], object]] = [
    lambda client: client.summary(),
    lambda client: client.schedule("https://b.test/"),
    lambda client: client.schedule_many(f"https://b.test/{number}" for number in range(5)),
    lambda client: client.give_back(client.lease(1)),
    lambda client: client.close(),
]


@pytest.fixture(params=["served", "in partitions"])
def client(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if request.param == "served":
        served: Served = request.getfixturevalue("served")
        with RemoteFrontier(served.address) as remote:
            yield remote
        return
    with addressed(tmp_path, monkeypatch) as cluster, ClusterFrontier("test", cluster.directory) as frontier:
        yield frontier


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], object]]]:
    """Calls that the handler of SIGUSR1 makes, which comes whenever the main thread waits for an answer."""
    to_make: list[Callable[[], object]] = []
    for kind, name in ((UnderWay, "result"), (ThreadCalls, "wait")):
        original = getattr(kind, name)

        def interrupted(*args: Any, original: Any = original) -> Any:
            if to_make and threading.current_thread() is threading.main_thread():
                signal.raise_signal(signal.SIGUSR1)
            return original(*args)

        monkeypatch.setattr(kind, name, interrupted)
    before = signal.signal(signal.SIGUSR1, lambda *_: [call() for call in to_make])
    yield to_make
    to_make.clear()
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("outer", CALLS[:4], ids=["summary", "schedule", "schedule_many", "give_back"])
def test_a_call_in_the_middle_of_another_is_refused(
    client: Any, handled: list[Callable[[], object]], outer: Callable[[Any], object]
) -> None:
    refused = []

    def handler() -> None:
        for call in CALLS:
            with pytest.raises(FrontierBusy, match="set a flag"):
                call(client)
            refused.append(call)

    handled.append(handler)
    outer(client)
    assert len(refused) >= len(CALLS)
    handled.clear()
    assert client.schedule_many(["https://c.test/"]).added == 1, "the client works on"


def test_other_threads_are_not_affected(client: Any, handled: list[Callable[[], object]]) -> None:
    added: list[int] = []

    def handler() -> None:
        thread = threading.Thread(target=lambda: added.append(client.schedule_many(["https://b.test/"]).added))
        thread.start()
        thread.join()

    handled.append(handler)
    client.schedule("https://a.test/")
    assert added[0] == 1


def test_a_handler_that_raises_ends_the_call_alone(client: Any, handled: list[Callable[[], object]]) -> None:
    def handler() -> None:
        handled.clear()
        raise KeyboardInterrupt

    for call in CALLS[:4]:
        handled.append(handler)
        with pytest.raises(KeyboardInterrupt):
            call(client)
    assert client.schedule_many(["https://c.test/"]).added == 1


def test_a_generator_of_uris_may_call_the_client(client: Any) -> None:
    def found() -> Iterator[str]:
        for number in range(12_000):
            if number % 5000 == 0:
                client.schedule(f"https://a.test/of-generator/{number}")
            yield f"https://a.test/{number}"

    assert client.schedule_many(found()).added == 12_000
    assert client.summary().scheduled == 12_003
