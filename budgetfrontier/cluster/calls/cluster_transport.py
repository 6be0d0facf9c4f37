"""The transport of the synchronous client of a cluster: its connections to workers, and the steps of calls."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, Final, TypeVar

from budgetfrontier.cluster.calls.partition_router import PartitionRouter
from budgetfrontier.cluster.calls.steps import Answers, GiveUp, LookUp, Steps
from budgetfrontier.cluster.calls.thread_calls import CANCELLED_WITHIN, ThreadCalls
from budgetfrontier.cluster.directory.owners import Directory, Owner
from budgetfrontier.errors import FrontierBusy, FrontierClosed, FrontierError
from budgetfrontier.remote import RemoteFrontier
from budgetfrontier.remote.calls_in_progress import ThisThread

_T = TypeVar("_T")

SHORT: Final = 1.0
"""Seconds for which a call to one worker is repeated, before its partitions are looked for elsewhere."""
JUST_NOW: Final = 0.05
"""Seconds for which other threads use the addresses that one thread has found in the directory."""


class ClusterTransport:
    """Makes the calls of one client, which threads may share; `options` are those of `RemoteFrontier`."""

    def __init__(self, router: PartitionRouter, directory: Directory, options: Mapping[str, Any]) -> None:
        self._asking, self._directory, self._options = router, directory, options
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._last_read: tuple[float, Mapping[int, Owner]] = (-JUST_NOW, {})
        self._remotes: dict[str, Future[RemoteFrontier]] = {}
        self._thread = ThisThread()
        self._interrupted = threading.Event()
        self.is_closed = False
        """Whether `close` was called."""

    def __repr__(self) -> str:
        return f"<ClusterTransport of {self._asking!r}>"

    def check(self) -> None:
        """Raise FrontierClosed after `close`, and FrontierBusy in the middle of a call of this thread."""
        if self.is_closed:
            raise FrontierClosed(f"this client of {self._asking.crawl!r} was closed; make another")
        if self._thread.is_busy:
            raise FrontierBusy

    def interrupt(self) -> None:
        """End the waits of calls for URIs, now and from now on."""
        self._asking.interrupted = True
        self._interrupted.set()

    def remote(self, address: str) -> RemoteFrontier:
        """Return the connection to a worker, which threads share, made if need be. Raises ConnectionLost."""
        with self._lock:
            future = self._remotes.get(address)
            if makes := future is None or (future.done() and future.exception() is not None):
                future = self._remotes[address] = Future()
        assert future is not None
        if makes:
            try:
                future.set_result(
                    RemoteFrontier(address, crawl=self._asking.crawl, retry_for=SHORT, quiet=True, **self._options)
                )
            except BaseException as e:
                future.set_exception(e)
        return future.result()

    def connected(self) -> dict[str, RemoteFrontier]:
        """Return the connections to workers that were made, by address."""
        begun = list(self._remotes.items())
        return {address: future.result() for address, future in begun if future.done() and future.exception() is None}

    def close(self) -> None:
        """Close the connections, and the directory unless a broker that is away is waited for."""
        self.is_closed = True
        for remote in self.connected().values():
            remote.disconnect()
        if self._reading.acquire(timeout=CANCELLED_WITHIN):
            with suppress(FrontierError):
                self._directory.close()
            self._reading.release()

    def run(self, steps: Steps[_T]) -> _T:
        """Carry out the steps of a call; return its result."""
        self.check()
        begun = ThreadCalls(self.remote, self._look)
        try:
            while True:
                self.check()
                try:
                    wanted = next(steps)
                except StopIteration as e:
                    result: _T = e.value
                    return result
                self._thread.is_busy = True
                if isinstance(wanted, Answers):
                    begun.wait(wanted)
                elif isinstance(wanted, GiveUp):
                    begun.give_up(wanted.asks)
                elif wanted.for_leases:
                    self._interrupted.wait(wanted.seconds)
                else:
                    sleep(wanted.seconds)
                self._thread.is_busy = False  # the next step may take URIs from a generator that calls this client
        finally:
            try:
                self._thread.is_busy = True
                begun.cancel_all()
            finally:
                self._thread.is_busy = False
            steps.close()

    def _look(self, look: LookUp) -> Any:
        if not look.suffix_list:
            return self._read()
        with self._reading:
            self.check()
            return self._directory.suffix_list()

    def _read(self) -> Mapping[int, Owner]:
        """Return the owners as the directory has them, or has had them just now. Raises BusError."""
        with self._reading:
            at, found = self._last_read
            if monotonic() >= at + JUST_NOW:
                self.check()
                try:
                    found = self._directory.read()
                finally:
                    if self.is_closed:  # meanwhile: `close` does not wait for a broker that is away
                        self._directory.close()
                self._last_read = monotonic(), found
            return found
