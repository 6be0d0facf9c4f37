"""Calls of operators to the owners of partitions, several workers at a time, each with a time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final

from budgetfrontier.cluster.calls.partition_router import PAUSE
from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.cluster.operators.merging import named_partitions
from budgetfrontier.errors import ConnectionLost, FrontierClosed, FrontierError, NotOwner, WrongCredentials
from budgetfrontier.remote import RemoteFrontier

PATIENCE: Final = 3.0
"""Seconds for which the owner of a partition is looked for, before the partition counts as missing."""
SOON: Final = 0.5
"""Seconds for an answer for which there is a summary instead."""
SIGN_OF_LIFE: Final = 3.0
"""Seconds within which a worker has to answer at all, before it is asked for what takes longer."""
LONGEST: Final = 60.0
"""Seconds for one answer."""
OPTIONS: Final = {"token": "--token-file", "tls": "--tls-ca"}
"""The options of commands by what a client calls them."""
_THREADS: Final = 16

Call = Callable[[RemoteFrontier, int], Any]
"""Takes the connection to a worker, and the number of one of its partitions."""


class OwnerCalls:
    """Asks the owners of a crawl, for one thread. A worker that has not answered is not asked again.

    `missing` has the partitions without an answer so far; `silent` the reasons, by the address of a worker.
    """

    def __init__(self, frontier: ClusterFrontier, *, patience: float | None = None) -> None:
        self.missing: set[int] = set()
        self.silent: dict[str, str] = {}
        self._frontier = frontier
        self._patience = PATIENCE if patience is None else patience
        self._there: set[str] = set()
        self._late: set[str] = set()
        """The addresses of workers that have not answered soon."""
        self._refused: set[str] = set()
        """The addresses of workers that let nobody in with these credentials."""
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<OwnerCalls of {self._frontier!r}>"

    def soon(self, call: Call, numbers: Iterable[int]) -> dict[int, Any]:
        """Call the owners of partitions; return the answers that have come within `SOON` seconds.

        Workers that have not answered so soon are not asked again by this method.
        """
        answers = SimpleQueue[tuple[str, dict[int, Any]]]()
        asked = {one: of_it for one, of_it in self._by_address(set(numbers)).items() if one not in self._late}
        for address, of_it in asked.items():
            ask = partial(self._ask_for, answers, call, address, of_it)
            threading.Thread(target=ask, name="an operator's call", daemon=True).start()
        found: dict[int, Any] = {}
        self._late |= asked.keys()
        deadline = time.monotonic() + SOON
        with suppress(Empty):
            for _ in asked:
                address, answer = answers.get(timeout=max(0.0, deadline - time.monotonic()))
                self._late.discard(address)
                found |= answer
        return found

    def _ask_for(
        self, answers: SimpleQueue[tuple[str, dict[int, Any]]], call: Call, address: str, numbers: Iterable[int]
    ) -> None:
        answers.put((address, self._asked(call, address, numbers, within=SOON)))

    def each(self, call: Call, numbers: Iterable[int]) -> dict[int, Any]:
        """Call the owners of partitions; return the answers of those that have given one."""
        left = set(numbers) - self.missing
        found: dict[int, Any] = {}
        deadline = time.monotonic() + self._patience
        while left:
            by_address = self._by_address(left)
            with ThreadPoolExecutor(min(len(by_address), _THREADS) or 1) as pool:
                parts = [pool.submit(self._asked, call, *item) for item in by_address.items()]
            for part in parts:
                found |= part.result()
            left -= found.keys()
            if left and time.monotonic() > deadline:
                self.missing |= left
                break
            if left:
                time.sleep(PAUSE)
        return found

    def _by_address(self, numbers: Collection[int]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for number, owner in self._frontier.owners().items():
            if owner.address and number in numbers:
                found.setdefault(owner.address, []).append(number)
        return found

    def any(self, call: Callable[[RemoteFrontier], Any], *, within: float | None = None) -> Any:
        """Return the answer of any worker; ask the next one if one does not answer. Raises ConnectionLost."""
        deadline = time.monotonic() + (self._patience if within is None else within)
        while True:
            addresses = sorted({owner.address for owner in self._frontier.owners().values() if owner.address})
            for address in addresses:
                remote = self.remote(address)
                if remote is None:
                    continue
                try:
                    return call(remote)
                except NotOwner:
                    continue
                except (ConnectionLost, FrontierClosed) as e:
                    self._lose(address, e)
            if time.monotonic() > deadline or (addresses and self._refused.issuperset(addresses)):
                why = f" ({found})" if (found := self.why()) else ""
                raise ConnectionLost(f"no worker of this crawl answers{why}; look whether one runs")
            time.sleep(PAUSE)

    def remote(self, address: str, *, within: float | None = None) -> RemoteFrontier | None:
        """Return the connection to a worker that has answered lately; None if it does not, or refuses this client.

        One that does not answer `within` so many seconds, if they are given, may be asked again.
        """
        with self._lock:
            if address in self.silent:
                return None
            is_new = address not in self._there
        try:
            remote = self._frontier.transport.remote(address)
            if is_new:
                remote.timeout = SIGN_OF_LIFE if within is None else within
                with suppress(NotOwner):
                    remote.plain("state")
                remote.timeout = LONGEST
        except (ConnectionLost, FrontierClosed) as e:
            if within is None:
                self._lose(address, e)
            return None
        except WrongCredentials as e:
            self._lose(address, e)
            return None
        with self._lock:
            self._there.add(address)
        return remote

    def why(self, addresses: Collection[str] | None = None) -> str:
        """Return why workers do not answer; "" if nothing is known of it."""
        with self._lock:
            return "; ".join(self.silent[one] for one in sorted(self.silent) if addresses is None or one in addresses)

    def sentence(self, numbers: Collection[int], partitions: int) -> str:
        """Return the sentence that the owners of partitions do not answer, with the last ones known, and why."""
        owners = self._frontier.owners()
        last = [owners[number] for number in numbers if number in owners]
        who = f" (last with {', '.join(sorted({one.worker for one in last}))})" if last else ""
        why = self.why({one.address for one in last})
        verb = "does" if len(numbers) == 1 else "do"
        named = named_partitions(numbers)
        reason = f": {why}" if why else ""
        return f"{named} of {partitions} {verb} not answer{who}{reason}; look whether enough workers run"

    def _asked(
        self, call: Call, address: str, numbers: Iterable[int], *, within: float | None = None
    ) -> dict[int, Any]:
        """Return the answers of one worker, until it is lost."""
        found: dict[int, Any] = {}
        remote = self.remote(address, within=within)
        if remote is None:
            return found
        for number in numbers:
            try:
                found[number] = call(remote, number)
            except NotOwner:
                continue
            except (ConnectionLost, FrontierClosed) as e:
                self._lose(address, e)
                break
        return found

    def _lose(self, address: str, error: FrontierError) -> None:
        """Ask a worker no more."""
        why = error.on_command_line(OPTIONS) if isinstance(error, WrongCredentials) else str(error).partition(";")[0]
        with self._lock:
            self._there.discard(address)
            self.silent[address] = why
            if isinstance(error, WrongCredentials):
                self._refused.add(address)
            remote = self._frontier.transport.connected().get(address)
        if remote is not None:
            remote.timeout = SIGN_OF_LIFE  # also when it leaves
