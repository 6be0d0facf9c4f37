"""A worker's crawl behind the gRPC service: calls are split by partition, and answered once they are in the logs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from budgetfrontier.cluster.directory.summaries import PartitionSummary
from budgetfrontier.cluster.log.entries import Given
from budgetfrontier.cluster.operators.inspector import Inspector
from budgetfrontier.cluster.partitions import summed_totals
from budgetfrontier.cluster.partitions.operator_commands import refusal
from budgetfrontier.cluster.partitions.partition import Partition
from budgetfrontier.cluster.partitions.partition_progress import PartitionProgress, standing_of
from budgetfrontier.cluster.partitions.routing import partition_of_queue
from budgetfrontier.cluster.quotas.quota_grants import TREASURER
from budgetfrontier.cluster.workers.worker import ClusterWorker
from budgetfrontier.core import protocol
from budgetfrontier.core.model import CrawlUri, RunEnd, Tally
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.errors import FrontierError, NotOwner
from budgetfrontier.rules.undoing import ADJUSTING, DELETING, ENDING, ON_CRAWL, ON_QUEUES
from budgetfrontier.server import frontier_calls, tasks
from budgetfrontier.server.frontier_calls import DecodedCall
from budgetfrontier.server.tasks import CallbackStep, Done, together
from budgetfrontier.storage.keys import partition_of_lease

_T = TypeVar("_T")

MOST_BYTES_OF_A_COMMAND: Final = 512 << 10
"""Bytes of a command to all partitions: half of what a broker takes by default."""

_leases_raw: Final = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_decoders: Final = {method.name: protocol.decoder(method.reply) for method in protocol.METHODS}
"""The decoders of replies, by the name of the method."""

Merge = Callable[[list[list[int]], list[Any]], Any]
"""Takes the positions of each part of a batch and the reply to it, and returns the reply to the batch."""


class WorkerCrawl:
    """The crawl of a worker, in the role that `CrawlThread` has for a server of whole frontiers."""

    def __init__(self, worker: ClusterWorker) -> None:
        self.name = worker.crawl
        self.folder: Path = worker.folder
        self._worker = worker
        self.inspector = Inspector()
        self._turn = count()
        self._asked: float | None = None
        """When a client asked for URIs last, or for the time until there are some (`time.monotonic`)."""
        self.asked_before = 0.0
        """When one asked any worker last, as it is published (epoch seconds of the broker's clock)."""
        uris = partial(self._split, route=self._partition_of_uri, field="uris")
        leases = partial(self._split, route=partition_of_lease)
        self._methods: dict[str, Callable[[DecodedCall], Coroutine[Any, Any, Any]]] = {
            protocol.CONNECT.name: self._connect,
            protocol.SCHEDULE_MANY.name: partial(uris, merge=_tallied),
            protocol.MARK_SEEN.name: partial(uris, merge=_tallied),
            protocol.ADMIT_MANY.name: partial(uris, merge=_tallied),
            protocol.SCHEDULE_EACH.name: partial(uris, merge=_in_order),
            protocol.ADMIT_EACH.name: partial(uris, merge=_admitted_in_order),
            protocol.LEASE.name: self._lease,
            protocol.FINISH_MANY.name: partial(leases, route=_partition_of_end, merge=_late),
            protocol.EXCHANGE.name: self._exchange,
            protocol.RENEW.name: partial(leases, field="leases", merge=_renewed),
            protocol.GIVE_BACK.name: partial(leases, merge=_late),
            protocol.LANDED.name: partial(leases, route=lambda each: partition_of_lease(each.lease), merge=_late),
            protocol.SET_BUDGETS.name: partial(
                self._split,
                route=lambda asked: self._partition_of_uri(CrawlUri(asked.url, queue=asked.queue)),
                merge=lambda places, replies: None,
            ),
            protocol.LOOK.name: self._look,
            protocol.STEER.name: self._steer,
        }

    def __repr__(self) -> str:
        return f"<WorkerCrawl of {self._worker!r}>"

    def run(
        self, work: DecodedCall, *, changes: bool = True, uses: bool = True, soon: bool = False
    ) -> CallbackStep[Any]:
        """Return a step of a task: `result = await crawl.run(work)`. Raises the errors of the call, and NotOwner."""
        return CallbackStep(lambda done: tasks.run(self._methods[work.method](work), done))

    # -- calls

    async def _connect(self, work: DecodedCall) -> bytes:
        asked: protocol.Connect = work.arguments
        connected = frontier_calls.connected(asked, folder=str(self.folder), settings=self._worker.settings)
        return protocol.encode(connected)

    async def _split(self, work: DecodedCall, *, route: Callable[[Any], int], merge: Merge, field: str = "") -> bytes:
        return protocol.encode(await self._merged(work.method, work.arguments, route, merge, field))

    async def _merged(
        self, method: str, arguments: Any, route: Callable[[Any], int], merge: Merge, field: str = ""
    ) -> Any:
        """Apply each partition's part of a batch; return the merged replies.

        `route` returns the partition of an item; `field` is that of the arguments with the items, "" if they are these.
        Raises NotOwner if one is not of this worker.
        """
        items = getattr(arguments, field) if field else arguments
        places: dict[int, list[int]] = {}
        for place, item in enumerate(items):
            places.setdefault(route(item), []).append(place)
        for number in places:
            self._worker.check_owned(number)
        steps = []
        for number, of_it in places.items():
            part = [items[place] for place in of_it]
            body = replace(arguments, **{field: part}) if field else part
            steps.append(self._call(number, method, protocol.encode(body)))
        replies = await together(steps)
        return merge(list(places.values()), [_decoders[method](reply) for reply in replies])

    async def _lease(self, work: DecodedCall) -> tuple[bytes, float | None]:
        leases, ready_in = await self._leased(work.arguments)
        return protocol.encode(leases), 0.0 if leases else ready_in

    async def _leased(self, wanted: protocol.Wanted) -> tuple[list[msgspec.Raw], float | None]:
        """Lease from partitions in turn; return encoded leases, and the seconds until there may be some."""
        ready, ready_in = self._ready()
        wanted_count = min(wanted.count, protocol.MOST_ITEMS)
        if not ready or wanted_count <= 0:
            return [], ready_in
        first = next(self._turn) % len(ready)
        chosen = (ready[first:] + ready[:first])[:wanted_count]
        share, more = divmod(wanted_count, len(chosen))
        steps = [
            self._call(
                number, protocol.LEASE.name, protocol.encode(protocol.Wanted(share + (place < more), wanted.ttl))
            )
            for place, number in enumerate(chosen)
        ]
        leases: list[msgspec.Raw] = []
        for reply in await together([_or_none(step) for step in steps]):
            leases += [] if reply is None else _leases_raw(reply)
        return leases, ready_in

    def _ready(self) -> tuple[list[int], float | None]:
        """Return the partitions of which something may be leased, and the seconds until that holds for another one.

        A client has asked for them.
        """
        now, times = monotonic(), self._worker.ready_at.copy()
        self._asked = now
        ready = [number for number, at in times.items() if at is not None and at <= now]
        later = [at for at in times.values() if at is not None and at > now]
        return ready, None if not later else max(0.0, min(later) - now)

    async def _exchange(self, work: DecodedCall) -> bytes:
        given: protocol.Exchange = work.arguments
        late = await self._merged(protocol.FINISH_MANY.name, given.ended, _partition_of_end, _late)
        leases, _ = await self._leased(given.wanted)
        return protocol.encode((late, leases))

    async def _look(self, work: DecodedCall) -> bytes:
        request: protocol.MethodCall = work.arguments
        if request.name == "inspect":
            return await self.inspected(*request.positional)
        if request.name == "next_ready_in":  # by the time of now, and within the slices of the crawl's limits
            ready, ready_in = self._ready()
            return protocol.encode(0.0 if ready else ready_in)
        if request.name == "standings":
            return protocol.encode(await self.standings())
        numbers = [self._partition_of(request)] if request.name in _OF_ONE_QUEUE else self._worker.owned
        if not numbers:
            raise NotOwner(f"the worker at {self._worker.name} has no partition of {self.name!r} at the moment")
        found = await together([self._looked(number, request) for number in numbers])
        return protocol.encode(_LOOKS[request.name](found) if request.name in _LOOKS else found[0])

    async def _steer(self, work: DecodedCall) -> bytes:
        request: protocol.MethodCall = work.arguments
        if request.name != "give_command":
            raise FrontierError(f"{request.name} is a command here, which is written to logs: give it with --cluster")
        return await self._given(*request.positional)

    def standings(self) -> CallbackStep[list[PartitionProgress]]:
        """Return the step whose result are the standings of this worker's partitions. Its error may be NotOwner."""
        return together([self._standing(number) for number in self._worker.owned])

    def carry_requests(self, published: Iterable[PartitionSummary], logs: Collection[str]) -> None:
        """Take from summaries of some logs when crawlers asked any worker last: owners that are gone do not tell it."""
        known = (one.standing.asked for one in published if one.standing.log in logs)
        self.asked_before = max(known, default=0.0)

    def inspected(self, number: int, what: str, named: dict[str, Any]) -> CallbackStep[bytes]:
        """Return the step in which a process of its own looks at the last commit of a partition. Raises NotOwner."""
        path, now = self._worker.frontier_of(number)
        return CallbackStep(lambda done: self.inspector.ask(path, now, what, named, done))

    async def _given(
        self,
        command: bytes,
        order: Sequence[Any],
        more: dict[int, dict[str, Any]] | None = None,
        to: Sequence[int] | None = None,
    ) -> bytes:
        """Append a command to the log of its partition, or of the treasurer if it is for several; return at once.

        Each partition applies it once, by its id.
        """
        asked = Command(*order)
        op = asked.op
        if op not in _COMMANDS:
            raise FrontierError(f"{op} is no command to partitions: {', '.join(sorted(_COMMANDS))} are")
        if (error := refusal(op, asked.args)) is not None:
            raise error
        given = Given(command, asked, more or {}, None if to is None else sorted(set(to)))
        if any(not 0 <= number < self._worker.partitions for number in given.to or ()):
            raise FrontierError(f"there are no such partitions: they are 0 to {self._worker.partitions - 1}")
        if len(protocol.encode(given)) > MOST_BYTES_OF_A_COMMAND:
            raise FrontierError(f"{op} has more than {MOST_BYTES_OF_A_COMMAND >> 10} KiB: give it in smaller parts")
        steered = given.steered(self._worker.partitions)
        number, body = (TREASURER, given) if len(steered) > 1 else next(iter(steered.items()))
        await CallbackStep(lambda done: self._worker.append(number, body, done))
        return protocol.encode(None)

    # -- their parts

    def _call(self, number: int, method: str, arguments: bytes) -> CallbackStep[bytes]:
        return CallbackStep(lambda done: self._worker.call(number, method, arguments, done))

    def _looked(self, number: int, request: protocol.MethodCall) -> CallbackStep[Any]:
        def look(partition: Partition) -> Any:
            return frontier_calls.plain(partition.frontier, request, protocol.LOOK)

        return CallbackStep(lambda done: self._worker.look(number, look, done))

    def _standing(self, number: int) -> CallbackStep[PartitionProgress]:
        unasked = None if self._asked is None else monotonic() - self._asked
        look = partial(standing_of, self._worker.name, unasked=unasked, asked_before=self.asked_before)
        return CallbackStep(lambda done: self._worker.look(number, look, done))

    def _partition_of_uri(self, uri: protocol.Uri) -> int:
        return self._worker.router.partition(uri)

    def _partition_of(self, request: protocol.MethodCall) -> int:
        if request.name == "queue_key":
            queue = request.named.get("queue")
            if queue is None:
                return self._partition_of_uri(request.positional[0])
            return partition_of_queue(queue, self._worker.partitions)
        place = 1 if request.name == "rest" else 0
        key = request.positional[place] if len(request.positional) > place else request.named.get("key", "")
        return partition_of_queue(str(key), self._worker.partitions)


class WorkerCrawls:
    """The crawls of a server: the one that its worker has a part of."""

    def __init__(self, worker: ClusterWorker) -> None:
        self._crawl = WorkerCrawl(worker)
        self._worker = worker
        self.stopping = threading.Event()
        """Set when the server is stopped: calls that wait are to end."""
        self.active = True
        """Whether URIs are leased."""

    def get(self, crawl_id: str) -> WorkerCrawl:
        """Return the crawl. Raises NotOwner for another one."""
        if crawl_id != self._crawl.name:
            raise NotOwner(f"this worker has partitions of the crawl {self._crawl.name!r}, not of {crawl_id!r:.100}")
        return self._crawl

    def opened(self) -> list[WorkerCrawl]:
        """Return the crawls that are open."""
        return [self._crawl]

    def close(self, *, end: RunEnd = RunEnd.EXIT, reason: str = "") -> None:
        """End the worker."""
        self._crawl.inspector.close()
        self._worker.stop()


def _or_none(step: CallbackStep[bytes]) -> CallbackStep[bytes | None]:
    """Return a step whose result is None if `step` raises NotOwner."""

    def start(done: Done) -> None:
        step.start(lambda result, error: done(result, None if isinstance(error, NotOwner) else error))

    return CallbackStep(start)


def _partition_of_end(ended: int | protocol.Ended) -> int:
    return partition_of_lease(ended if isinstance(ended, int) else ended.id)


def _late(places: list[list[int]], replies: list[list[int]]) -> list[int]:
    """Return the positions of leases that had ended."""
    return sorted(of_it[place] for of_it, reply in zip(places, replies, strict=True) for place in reply)


def _renewed(places: list[list[int]], replies: list[protocol.Renewed]) -> protocol.Renewed:
    late = _late(places, [reply.late for reply in replies])
    return protocol.Renewed(min((reply.expires for reply in replies), default=0.0), late)


def _tallied(places: list[list[int]], replies: list[Tally]) -> Tally:
    tally = Tally()
    for reply in replies:
        tally.add(reply)
    return tally


def _in_order(places: list[list[int]], replies: list[list[Any]]) -> list[Any]:
    found = {
        place: result
        for of_it, reply in zip(places, replies, strict=True)
        for place, result in zip(of_it, reply, strict=True)
    }
    return [found[place] for place in sorted(found)]


def _admitted_in_order(places: list[list[int]], replies: list[protocol.Admitted]) -> protocol.Admitted:
    failures = {
        of_it[place]: message
        for of_it, reply in zip(places, replies, strict=True)
        for place, message in reply.failures.items()
    }
    return protocol.Admitted(_in_order(places, [reply.results for reply in replies]), failures)


_LOOKS: Final[dict[str, Callable[[list[Any]], Any]]] = {
    "summary": summed_totals.merged_summary,
    "state": summed_totals.merged_state,
    "waiting": sum,
    "dead_letters": lambda found: [letter for letters in found for letter in letters],
}
_COMMANDS: Final = {*ADJUSTING, *ENDING, *ON_CRAWL, *ON_QUEUES, *DELETING, "replay"}
"""The commands of operators that are written to logs."""
_OF_ONE_QUEUE: Final = {"queue", "queue_key", "rest"}
