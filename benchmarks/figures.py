"""The figures of `make bench`, in the order of the table, with their targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.redis_peer import PERSISTENCE
from benchmarks.table import Round, Row, of

SCRAPY = {"memory": "in memory", "JOBDIR": "JOBDIR"}


def _ratio(one: str, *others: str, name: str = "per_second") -> Callable[[Round], float]:
    """Return the ratio to the fastest peer in the same round, which a busy machine affects equally."""

    def figure(figures: Round) -> float:
        return figures[one]["per_second"] / max(figures[other][name] for other in others)

    return figure


def _scaled(measurement: str, name: str, factor: float) -> Callable[[Round], float]:
    return lambda figures: figures[measurement][name] * factor


def _of_scrapy(kind: str) -> list[str]:
    return [f"scrapy {SCRAPY[kind]}, {queue}" for queue in ("default", "plain")]


def _speed() -> Iterator[Row]:
    floors = "floor", "sorted floor"
    yield Row("schedule, 1,000 at a time", of("schedule"))
    yield Row("schedule / the faster floor", _ratio("schedule", *floors), "x", at_least=0.65)
    for kind, least in (("memory", None), ("JOBDIR", 12.0)):
        yield Row(
            f"schedule / Scrapy's faster queue, {kind}", _ratio("schedule", *_of_scrapy(kind)), "x", at_least=least
        )
    yield Row("schedule / kumo's queue in memory", _ratio("schedule", "kumo"), "x", at_least=1.0)
    yield Row("schedule, one at a time", of("schedule singly"))
    yield Row("schedule, :memory:", of("schedule in memory"))
    for held, order in (("", "10,000 hosts in rotation"), (" held", "one host after the other")):
        drain = f"drain{held}"
        for call, measurement, targets in (
            ("finish", drain, (("memory", 4.0), ("JOBDIR", 25.0))),
            ("finish_many", f"{drain} many", (("memory", 4.0), ("JOBDIR", 25.0))),
        ):
            yield Row(f"lease + {call}, 64 at a time, {order}", of(measurement), at_least=300_000)
            yield Row(f"lease + {call} / the floor", _ratio(measurement, f"floor {drain}"), "x", at_least=0.6)
            for kind, least in targets:
                ratio = _ratio(measurement, *_of_scrapy(kind), name="taken_per_second")
                yield Row(f"lease + {call} / Scrapy's faster queue, {kind}", ratio, "x", at_least=least)
        yield Row(f"lease + finish, one at a time, {order}", of(f"{drain} singly"))
    yield Row("lease + finish, 64 at a time, :memory:", of("drain in memory"))
    yield Row("schedule, per second of processor time", of("schedule", "per_cpu_second"))
    yield Row("lease + finish, per second of processor time", of("drain", "per_cpu_second"))
    yield Row("lease + finish_many, per second of processor time", of("drain many", "per_cpu_second"))


def _calls() -> Iterator[Row]:
    for call, measurement, most in (
        ("lease(1) + finish, rotation", "drain singly", 40.0),
        ("lease(1) + finish, one host", "drain held singly", 40.0),
        ("schedule", "schedule singly", None),
    ):
        for name in ("p50", "p99", "max"):
            figure = _scaled(measurement, f"call_{name}", 1e6)
            yield Row(f"{call}, no commit: {name}", figure, "µs", at_most=most if name == "p99" else None)
        for name in ("p50", "max"):
            yield Row(f"{call}, with a commit: {name}", _scaled(measurement, f"commit_{name}", 1e3), "ms")


def _room() -> Iterator[Row]:
    yield Row("file, bytes per URL: discoveries", of("schedule", "file"), "B")
    yield Row("the same without free pages", of("schedule", "live"), "B")
    yield Row("the floor's, without free pages", of("floor", "live"), "B")
    yield Row("the sorted floor's, without free pages", of("sorted floor", "live"), "B")
    yield Row("Scrapy's JOBDIR, bytes per URL", of("scrapy JOBDIR, plain", "disk"), "B")
    yield Row("queuelib, FIFO, bytes per URL", of("queuelib FIFO", "disk"), "B")
    yield Row("Redis, append-only file, bytes per URL", of("redis appending", "disk"), "B")
    yield Row("file, bytes per URL: 1,000,000 hosts", of("many hosts", "file"), "B")
    yield Row("anonymous memory, 1,000,000 hosts: peak", of("many hosts", "peak"), "MiB", at_most=150)
    yield Row("anonymous memory, 1,000,000 hosts: at rest", of("many hosts", "after"), "MiB")
    yield Row("memory added by 500,000 discoveries: ours", of("schedule", "memory"), "MiB")
    yield Row("memory added by 100,000: Scrapy, memory", of("scrapy in memory, plain", "memory"), "MiB")
    yield Row("memory added by 100,000: Scrapy, JOBDIR", of("scrapy JOBDIR, plain", "memory"), "MiB")
    yield Row("memory added by 100,000: Redis", of("redis in memory", "memory"), "MiB")


def _starting() -> Iterator[Row]:
    yield Row("schedule 1,000,000 new hosts", of("many hosts"))
    yield Row("opening that frontier again", of("reopen", "seconds"), "s", at_most=0.5)
    yield Row("anonymous memory after opening it", of("reopen", "after"), "MiB")
    yield Row("import budgetfrontier", of("imports", "package"), "ms", at_most=80)
    yield Row("from budgetfrontier import Frontier, Settings", of("imports", "engine"), "ms", at_most=80)
    yield Row("budgetfrontier demo", of("demo", "seconds"), "s", at_most=60)


def _others() -> Iterator[Row]:
    yield Row("floor: puts of the same rows", of("floor"))
    yield Row("floor: the same, each batch sorted", of("sorted floor"))
    yield Row("floor: heads of queues taken, in rotation", of("floor drain"))
    yield Row("floor: the same, one queue after the other", of("floor drain held"))
    for kind, folder in SCRAPY.items():
        for queue in ("default", "plain"):
            name = f"scrapy {folder}, {queue}"
            yield Row(f"Scrapy, {kind}, {queue} queue: enqueue", of(name))
            yield Row(f"Scrapy, {kind}, {queue} queue: next request", of(name, "taken_per_second"))
    for kind in ("FIFO", "LIFO"):
        yield Row(f"queuelib, {kind} on disk: push", of(f"queuelib {kind}"))
        yield Row(f"queuelib, {kind} on disk: pop", of(f"queuelib {kind}", "taken_per_second"))
    yield Row("kumo, memory: push", of("kumo"))
    for how in PERSISTENCE:
        for piped, manner in (("", "one at a time"), ("piped_", "pipelined")):
            yield Row(f"Redis, {how}, {manner}: put", of(f"redis {how}", f"{piped}per_second"))
            yield Row(f"Redis, {how}, {manner}: take", of(f"redis {how}", f"{piped}taken_per_second"))


ROWS = (*_speed(), *_calls(), *_room(), *_starting(), *_others())
