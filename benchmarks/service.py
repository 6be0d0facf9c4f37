"""The URLFrontier service beside servers that do nothing: `python -m benchmarks.service`.

All are sent the same messages in one run, in turn. Figures are URLs per second of the server's processor time, the best
of the rounds: a busy machine only makes them worse. The engine alone is measured by the processor time of this process;
it commits every half second, the service before each reply. Then one crawl is filled, and GetURLs is timed.

With `--peer JAR`, only URLFrontier's own service with RocksDB is measured beside ours, by processor time and by the
clock: JAR is `service/target/urlfrontier-service-2.6.jar`, as `mvn package` makes it of its sources.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks import grpc_floor, script
from benchmarks.grpc_floor import BATCH, DISCOVERED, GET, IN_FLIGHT, PUT, batches, put
from benchmarks.grpc_servers import HOSTS, URLS, info
from benchmarks.http2_load import Connection, message
from benchmarks.timing import quantile
from budgetfrontier import Frontier, Settings
from budgetfrontier.server.urlfrontier import engine_calls
from budgetfrontier.server.urlfrontier.methods import METHODS
from budgetfrontier.server.urlfrontier.urlfrontier_pb2 import GetParams, QueueDelayParams, URLItem

MESSAGES = 40_000  # URLs of a leg
KNOWN = 45  # percent of the items of a leg were sent before
ROUNDS = 3
FLOORS = ("grpc.aio", "grpc.server", "our calls, engine's thread")
PROFILE = script.HERE.parent / "config" / "served.yaml"
STORED = 3_000_000  # URLs of the crawl whose calls are timed
STORED_HOSTS = 30_000
CALLS = 3000  # of GetURLs that are timed
NEW, REPEATED, GROUPED, FETCHED = LEGS = (
    "PutURLs, new",
    f"PutURLs, {KNOWN} % known",
    f"PutDiscovered of {BATCH}",
    f"GetURLs({URLS}) + known",
)

Use = Callable[[], float]
"""Returns the processor time that a server has used, in seconds."""


@contextmanager
def serving(folder: Path) -> Iterator[tuple[int, Use, int]]:
    """Run `budgetfrontier serve` with its profile but without delays; yield its port, its use, and its process id."""
    command = [sys.executable, "-m", "budgetfrontier", "serve", str(folder), "--listen", "127.0.0.1:0"]
    with _running(command, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        yield int(process.stderr.readline().partition(";")[0].rpartition(":")[2]), use_of(process), process.pid


@contextmanager
def peer_serving(jar: Path, folder: Path) -> Iterator[tuple[int, Use, int]]:
    """Do the same for URLFrontier's service, which keeps its data in RocksDB."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = ["java", "-Xmx2G", "-cp", str(jar), PEER_CLASS, "-p", str(port), f"rocksdb.path={folder}"]
    with _running(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            with suppress(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port)).close()
                break
            time.sleep(0.1)
        yield port, use_of(process), process.pid


@contextmanager
def _running(command: list[str], **streams: int) -> Iterator[subprocess.Popen[str]]:
    process: subprocess.Popen[str] = subprocess.Popen(command, text=True, cwd=script.HERE.parent, **streams)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def use_of(process: subprocess.Popen[str]) -> Use:
    """Return the function for the processor time that a process has used."""

    def used() -> float:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    return used


def without_delays(port: int) -> None:
    """Let a server serve its queues as often as it is asked."""
    connection = Connection(port)
    connection.call(METHODS["SetDelay"].path, message(QueueDelayParams(delay_requestable=0).SerializeToString()))
    connection.close()


def discovered(numbers: Sequence[int], hosts: int = HOSTS) -> list[bytes]:
    """Return items of PutURLs."""
    made = []
    for number in numbers:
        item = URLItem(ID=str(number))
        item.discovered.info.CopyFrom(info(number, hosts))
        made.append(message(item.SerializeToString()))
    return made


def finished(replies: Sequence[bytes]) -> list[bytes]:
    """Return the items that report the URLs which GetURLs has returned as fetched."""
    made = []
    for reply in replies:
        item = URLItem()
        item.known.info.ParseFromString(reply)
        made.append(message(item.SerializeToString()))
    return made


def get_and_finish(port: int, count: int, timed: Callable[[float], Any] | None = None) -> None:
    """Lease `count` URLs by the hundred, and report each as fetched; tell `timed` how long each GetURLs took."""
    connection = Connection(port)
    request = message(
        GetParams(max_queues=URLS, max_urls_per_queue=1, delay_requestable=60, crawlID="crawl").SerializeToString()
    )
    opened = connection.stream(PUT)
    for _ in range(0, count, URLS):
        replies: list[bytes] = []
        start = time.perf_counter()
        found = connection.call(GET, request, replies)
        if timed is not None:
            timed(time.perf_counter() - start)
        if found != URLS:
            raise ValueError(f"GetURLs returned {found} URLs")
        connection.exchange(opened, finished(replies), IN_FLIGHT, URLS)
    connection.end(opened)
    connection.close()


def legs(count: int, first: int = 0) -> dict[str, Callable[[int], None]]:
    """Return what is measured, by name, in order; each takes a port, and deals with `count` URLs from a number on."""
    mixed = [first + (n if n * KNOWN % 100 < KNOWN else count + n) for n in range(count)]
    new, repeated = discovered(range(first, first + count)), discovered(mixed)
    grouped = batches(range(first + 2 * count, first + 3 * count))
    return {
        NEW: lambda port: put(port, PUT, new, IN_FLIGHT),
        REPEATED: lambda port: put(port, PUT, repeated, IN_FLIGHT),
        GROUPED: lambda port: put(port, DISCOVERED, grouped, 16, at_once=1),
        FETCHED: lambda port: get_and_finish(port, count),
    }


def timed_legs(port: int, used: Use, count: int, measured: dict[str, Callable[[int], None]]) -> dict[str, float]:
    """Return URLs per second of a server's processor time, by leg."""
    figures = {}
    for name, leg in measured.items():
        before = used()
        leg(port)
        figures[name] = count / max(used() - before, 1e-9)
    return figures


def engine(folder: Path, count: int, *, keep_urls: bool, metadata: bool) -> float:
    """Return URIs per second of processor time of `schedule_many` in batches, of the URIs of PutDiscovered."""
    frontier = Settings.from_yaml(PROFILE).to_dict()["frontier"] | {"keep_urls": keep_urls}
    infos = [info(number) for number in range(count)]
    given = [engine_calls.uri_of(each) if metadata else each.url for each in infos]
    with Frontier.open(folder, Settings.from_dict({"frontier": frontier})) as opened:
        before = time.process_time()
        for first in range(0, count, BATCH):
            opened.schedule_many(given[first : first + BATCH])  # type: ignore[arg-type]  # none is None
        opened.commit()
        return count / (time.process_time() - before)


ENGINES = {
    "engine, plain URLs": {"keep_urls": False, "metadata": False},
    "engine, with metadata": {"keep_urls": False, "metadata": True},
    "engine, URLs kept": {"keep_urls": True, "metadata": False},
    "engine, URLs kept with metadata": {"keep_urls": True, "metadata": True},
}


def measure(count: int, rounds: int, room: Path) -> dict[str, dict[str, float]]:
    """Return URLs per second of processor time, by server and leg."""
    best: dict[str, dict[str, float]] = {}
    measured, warm = legs(count), legs(URLS)

    def keep(form: str, figures: dict[str, float]) -> None:
        row = best.setdefault(form, {})
        for name, figure in figures.items():
            row[name] = max(row.get(name, 0.0), figure)

    for number in range(rounds):
        for form in FLOORS:
            with grpc_floor.serving(form) as server:
                for leg in warm.values():
                    leg(server.port)
                keep(form, timed_legs(server.port, server.used, count, measured))
        with serving(room / f"jobs{number}") as (port, used, _):
            without_delays(port)
            for leg in warm.values():
                leg(port)
            keep("serve", timed_legs(port, used, count, measured))
        for form, how in ENGINES.items():
            keep(form, {GROUPED: engine(room / f"{form}{number}", count, **how)})
    return best


# -- beside URLFrontier's own service

PUTS = NEW, REPEATED, GROUPED
"""The legs of the peer. GetURLs has other rules there: a queue that was served once is not served again at once."""
PEER_CLASS = "crawlercommons.urlfrontier.service.URLFrontierServer"


def beside(jar: Path, count: int, rounds: int, room: Path) -> dict[str, dict[str, tuple[float, float]]]:
    """Return URLs per second of processor time and of the clock, by server and leg: the best of the rounds.

    Each server is sent as many URLs of other numbers first, so that Java's has compiled what it needs.
    """
    best: dict[str, dict[str, tuple[float, float]]] = {"serve": {}, "URLFrontier": {}}
    measured, warm = legs(count), legs(count, 10 * count)
    for number in range(rounds):
        for name, server in (
            ("serve", serving(room / f"jobs{number}")),
            ("URLFrontier", peer_serving(jar, room / f"rocksdb{number}")),
        ):
            with server as (port, used, _):
                for leg in PUTS:
                    warm[leg](port)
                for leg in PUTS:
                    before, start = used(), time.perf_counter()
                    measured[leg](port)
                    ended = time.perf_counter()
                    figures = count / max(used() - before, 1e-9), count / (ended - start)
                    best[name][leg] = max(best[name].get(leg, (0.0, 0.0)), figures)
    return best


def peer_table(best: dict[str, dict[str, tuple[float, float]]]) -> str:
    """Return the figures of both as a table in Markdown, with the ratio."""
    rows = ["| URLs per second | serve | URLFrontier 2.6 | ratio |", "| --- | --- | --- | --- |"]
    for leg in PUTS:
        for place, unit in enumerate(("processor time", "clock")):
            ours, theirs = best["serve"][leg][place], best["URLFrontier"][leg][place]
            rows.append(f"| {leg}, {unit} | {ours:,.0f} | {theirs:,.0f} | {ours / theirs:.2f} |")
    return "\n".join(rows)


# -- how long GetURLs takes


def fill(port: int, count: int) -> None:
    """Put URLs of many hosts into one crawl."""
    connection = Connection(port)
    opened = connection.stream(DISCOVERED)
    for first in range(0, count, 100 * BATCH):
        numbers = range(first, min(count, first + 100 * BATCH))
        connection.exchange(opened, batches(numbers, STORED_HOSTS), 16, 1)
    connection.end(opened)
    connection.close()


def _put_for_ever(port: int, first: int) -> None:
    while True:
        put(port, PUT, discovered(range(first, first + 1000), STORED_HOSTS), IN_FLIGHT)
        first += 1000


def latency(room: Path, count: int, calls: int) -> dict[str, dict[str, float]]:
    """Return quantiles of the seconds of GetURLs, quiet and while PutURLs go on, and the bytes of a URL."""
    with serving(room / "jobs") as (port, _, _):
        fill(port, count)
        folder = room / "jobs" / "crawl" / "frontier"
        size = {"bytes": (folder / "data.mdb").stat().st_blocks * 512 / count}
        quiet, busy = list[float](), list[float]()
        get_and_finish(port, calls * URLS, quiet.append)
        writer = multiprocessing.get_context("spawn").Process(target=_put_for_ever, args=(port, count), daemon=True)
        writer.start()
        try:
            get_and_finish(port, calls * URLS, busy.append)
        finally:
            writer.kill()
            writer.join()
    return {"quiet": _quantiles(quiet), "while PutURLs go on": _quantiles(busy), "size": size}


def _quantiles(seconds: list[float]) -> dict[str, float]:
    return {"p50": quantile(seconds, 0.5), "p99": quantile(seconds, 0.99), "most": max(seconds)}


# -- the results


def table(best: dict[str, dict[str, float]]) -> str:
    """Return the figures of servers as a table in Markdown, with the part of each that ours reaches."""
    rows = [f"| server | {' | '.join(LEGS)} |", "| --- |" + " --- |" * len(LEGS)]
    ours = best["serve"]
    for form in ("serve", *FLOORS):
        figures = best[form]
        cells = [f"{figures[leg]:,.0f}" for leg in LEGS]
        if form != "serve":
            cells = [f"{cell} ({ours[leg] / figures[leg]:.2f})" for cell, leg in zip(cells, LEGS, strict=True)]
        rows.append(f"| {form} | {' | '.join(cells)} |")
    return "\n".join(rows)


def engine_table(best: dict[str, dict[str, float]]) -> str:
    """Return the figures of `schedule_many` as a table in Markdown, with the part that PutDiscovered reaches."""
    rows = [f"| `schedule_many` of {BATCH} | URIs | PutDiscovered reaches |", "| --- | --- | --- |"]
    ours = best["serve"][GROUPED]
    for form in ENGINES:
        rows.append(f"| {form} | {best[form][GROUPED]:,.0f} | {ours / best[form][GROUPED]:.2f} |")
    return "\n".join(rows)


def latency_table(found: dict[str, dict[str, float]]) -> str:
    """Return the times of GetURLs as a table in Markdown."""
    rows = [f"| GetURLs({URLS}) | p50 | p99 | longest |", "| --- | --- | --- | --- |"]
    for name in ("quiet", "while PutURLs go on"):
        rows.append(f"| {name} | {' | '.join(f'{1e3 * each:.1f} ms' for each in found[name].values())} |")
    return "\n".join([*rows, "", f"{found['size']['bytes']:.0f} bytes on disk for each URL, with its metadata."])


def main() -> None:
    """Measure, and write the results."""
    parser = script.parser("benchmarks.service", __doc__, scaled="the URLs")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", choices=["rates", "latency"], help="measure only this part")
    parser.add_argument("--peer", type=Path, metavar="JAR", help="measure only PutURLs, beside URLFrontier's service")
    options = script.parse(parser)
    about = script.describe(options)
    parts: list[str] = []
    measured: dict[str, Any] = {}
    with script.temporary("service", options.folder) as room:
        if options.peer is not None:
            beside_peer = beside(options.peer, int(MESSAGES * options.scale), options.rounds, room)
            record = script.record(about, peer=beside_peer)
            parts = [peer_table(beside_peer), script.facts(about)]
            script.write("service-peer", "The service beside URLFrontier", parts, record, options.results)
            return
        if options.only != "latency":
            measured["rates"] = best = measure(int(MESSAGES * options.scale), options.rounds, room)
            parts += [table(best), engine_table(best)]
        if options.only != "rates":
            measured["latency"] = found = latency(room, int(STORED * options.scale), CALLS)
            parts.append(latency_table(found))
    record = script.record(about, **measured)
    results = options.results or (None if options.only else script.RESULTS)
    script.write("service", "The URLFrontier service", [*parts, script.facts(about)], record, results)


if __name__ == "__main__":
    main()
