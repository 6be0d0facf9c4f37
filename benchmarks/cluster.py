"""A crawl in partitions on a real broker: `python -m benchmarks.cluster BROKERS` measures one worker, and take-overs.

Start a broker first: `python -m tests.bus.kafka_server FOLDER 19092`. Figures are for each second of processor time of
the worker's process, both of its threads and librdkafka's included; those of the engine alone, and of owners and copies
without a broker, for that of this process. URIs are those that workers send each other: with the page that they were
found on. The logs are filled before a worker starts, so that it catches up.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks import script
from benchmarks.streams import Pages
from budgetfrontier import CrawlUri, Frontier, Settings
from budgetfrontier.bus.interface import Received
from budgetfrontier.bus.kafka import connect
from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.cluster.directory.kafka import KafkaDirectory, Place, log_ends
from budgetfrontier.cluster.log import entries, state
from budgetfrontier.cluster.log.entries import Changes, Claimed, Found, Told
from budgetfrontier.cluster.log.state import LogPlace
from budgetfrontier.cluster.partitions.partition_copy import PartitionCopy
from budgetfrontier.cluster.partitions.routing import Router
from budgetfrontier.cluster.workers.worker import log_stream
from budgetfrontier.core.model import Finish
from budgetfrontier.rules.run_history import WORKER
from budgetfrontier.storage import meta

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

URIS = 1_000_000
HOSTS = 2000
SITES = 1000
TOGETHER = (1, 16)
BATCH = 500
LEVEL = 1  # of zstd, as workers have it
PARTITIONS = 8
CALLS = 100
IN_A_CALL = 100
SETTINGS = {"frontier": {"politeness": {"delay_factor": 0, "min_delay": 0, "max_delay": 0}}}
SESSION = 6.0
IDLE = 15.0


def uris(count: int) -> Iterator[CrawlUri]:
    """Yield URIs with the pages on which they were found, of hosts in turn."""
    for number in range(count):
        host, page = number % HOSTS, number // HOSTS
        via = f"https://host{page % HOSTS}.example/"
        yield CrawlUri(f"https://host{host}.example/{page}/page.html", via=via, hops="L")


def engine(count: int, room: Path) -> float:
    """Return the URIs that the engine alone schedules in a second of processor time."""
    given = list(uris(count))
    with Frontier.open(room / "engine", Settings.from_dict(SETTINGS)) as frontier:
        began = time.process_time()
        frontier.schedule_many(given)
        frontier.commit()
        return count / (time.process_time() - began)


class Owner:
    """The owner of a partition without a broker: what it changes are entries of a log, which is a list."""

    def __init__(self, folder: Path) -> None:
        self.frontier = Frontier.open(
            folder / "frontier", Settings.from_dict(SETTINGS), keep_leases=True, program=WORKER, partition=0
        )
        self._log = self.frontier.internals.changelog
        self._log.write(meta.PLACE, state.encode(LogPlace("c", 0, PARTITIONS)))
        self.entries = [entries.encode(Claimed("one", b"1"), crawl="c")]
        self._number = 0

    def append(self) -> None:
        """Append what has changed to the log; commit when it is time."""
        self._number += 1
        changes = Changes(self._log.take(), [])
        self.entries += entries.encode_changes(changes, epoch=0, number=self._number, crawl="c")
        if self._log.is_full:
            self._log.commit()

    def close(self) -> None:
        """Commit, and close the frontier."""
        self._log.commit()
        self.frontier.close()


def owner(count: int, room: Path, batch: int = BATCH) -> tuple[Owner, float]:
    """Return an owner that has applied URIs in calls of `batch`, and how many it does in a second of processor time."""
    one, given = Owner(room / f"owner-{batch}"), list(uris(count))
    began = time.process_time()
    for start in range(0, count, batch):
        one.frontier.schedule_many(given[start : start + batch])
        one.append()
    used = time.process_time() - began
    one.close()
    return one, count / used


def replay(log: list[bytes], room: Path) -> float:
    """Return the seconds of processor time in which a copy writes the rows of a log."""
    copy = PartitionCopy(room / "copy", "c", 0, PARTITIONS)
    read = [Received(0, offset, data, 1.0) for offset, data in enumerate(log)]
    began = time.process_time()
    for start in range(0, len(read), 512):
        copy.apply(read[start : start + 512])
    copy.commit()
    used = time.process_time() - began
    copy.close()
    shutil.rmtree(room / "copy")
    return used


def pages(count: int, room: Path, together: int) -> dict[str, float]:
    """Return what a page costs: its lease, its end and 50 links, half of them known, in calls for so many pages.

    Bytes are those of its entries, each compressed by itself, which is the worst case: a producer does so with those of
    a millisecond.
    """
    web, one = Pages(SITES), Owner(room / f"pages-{together}")
    one.frontier.schedule_many(web.seeds())
    one.append()
    first, worked = len(one.entries), 0.0
    for _ in range(0, count, together):
        began = time.process_time()
        leases = one.frontier.lease(together)
        one.append()
        worked += time.process_time() - began
        ends = [
            Finish(
                lease,
                fetch_seconds=0.2,
                size=50_000,
                discovered=[CrawlUri(url, via=lease.uri.url, hops="L") for url in web.page()],
            )
            for lease in leases
        ]
        began = time.process_time()
        one.frontier.finish_many(ends)
        one.append()
        worked += time.process_time() - began
    one.close()
    log = one.entries[first:]
    return {
        "us of its owner": 1e6 * worked / count,
        "us of a copy": 1e6 * replay(one.entries, room) / count,
        "bytes of log": sum(map(len, log)) / count,
        "bytes of log by zstd": sum(len(zstd.compress(entry, LEVEL)) for entry in log) / count,
    }


class Crawl:
    """One crawl on the broker, with workers as processes."""

    def __init__(self, brokers: str, name: str, room: Path) -> None:
        self.place = Place(brokers, name, {})
        self.room = room
        options = f"session.timeout.ms={SESSION * 1000:.0f}&heartbeat.interval.ms=500"
        cluster = {"kafka": f"{brokers}?{options}", "partitions": PARTITIONS}
        self.config = room / f"{name}.yaml"
        self.config.write_text(str({"crawl": name, **SETTINGS, "cluster": cluster}).replace("'", '"'))
        self.bus = connect(brokers)
        self.stream = log_stream(name, PARTITIONS)

    @contextmanager
    def worker(self, number: int = 0) -> Iterator[subprocess.Popen[bytes]]:
        """Run a worker."""
        listen = f"unix:{self.room / f'{self.place.crawl}{number}'}"
        folder = f"{self.room}/{self.place.crawl}-{number}"
        command = ["worker", "--config", str(self.config), "--folder", folder, "--listen", listen]
        with (self.room / "workers.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "budgetfrontier", *command], cwd=script.HERE.parent, stderr=log, stdout=log
            )
        try:
            yield process
        finally:
            process.terminate()
            process.wait()

    @contextmanager
    def client(self) -> Iterator[ClusterFrontier]:
        """Connect to the crawl."""
        with ClusterFrontier(self.place.crawl, KafkaDirectory(self.place)) as client:
            yield client

    def fill(self, count: int) -> None:
        """Append URIs to the logs, as workers do."""
        router = Router(Settings.from_dict(SETTINGS), PARTITIONS)
        producer = self.bus.producer(self.stream)
        waiting: dict[int, list[Any]] = {}
        for place, uri in enumerate(uris(count)):
            number = router.partition(uri)
            batch = waiting.setdefault(number, [])
            batch.append(uri)
            if len(batch) == BATCH:
                self._send(producer, number, place, batch)
        for number, batch in waiting.items():
            self._send(producer, number, count, batch)
        producer.close()

    def _send(self, producer: Any, number: int, place: int, batch: list[Any]) -> None:
        told = Told((number + 1) % PARTITIONS, (place, 0), Found(list(batch)))
        producer.send(entries.encode(told, crawl=self.place.crawl), partition=number)
        batch.clear()


def used(pid: int) -> float:
    """Return the processor time of a process in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> tuple[float, float]:
    """Return the memory of a process in MiB: its share of all pages, and of those the anonymous ones."""
    lines = dict(line.split(":") for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    pss, anonymous = (int(lines[name].split()[0]) / 1024 for name in ("Pss", "Pss_Anon"))
    return pss, anonymous


def broker_process(brokers: str) -> int:
    """Return the process on this machine that listens at the port of a broker."""
    port = f":{int(brokers.rpartition(':')[2]):04X}"
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    sockets = {f"socket:[{row[9]}]" for row in rows if row[1].endswith(port) and row[3] == "0A"}
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):  # it has ended, or is another user's
            if os.readlink(descriptor) in sockets:
                return int(descriptor.parts[2])
    raise SystemExit(f"no process here listens as {brokers}: measure on the machine of the broker")


class Processors:
    """The processor time of a worker and of the broker, since one was asked for last."""

    def __init__(self, worker: int, broker: int) -> None:
        self._pids = (worker, broker)
        self._before = (0.0, used(broker))

    def taken(self) -> tuple[float, float]:
        """Return the seconds of the worker, and those of the broker for each of them."""
        worker, broker = now = used(self._pids[0]), used(self._pids[1])
        before, self._before = self._before, now
        return worker - before[0], (broker - before[1]) / (worker - before[0])


def warm_up(crawl: Crawl, count: int) -> None:
    """Let the broker do once what is measured then: its JVM compiles meanwhile."""
    with crawl.worker(), crawl.client() as client:
        while len(client.standings()[0]) < PARTITIONS:
            time.sleep(0.1)
        crawl.fill(count)
        while client.standings()[1] or client.summary().scheduled < count:
            time.sleep(0.1)
        work(client)
        latencies(client)


def work(client: ClusterFrontier) -> int:
    """Lease and end URIs in calls of `IN_A_CALL`; return how many."""
    done = 0
    for _ in range(CALLS):
        leases = client.lease(IN_A_CALL)
        done += len(leases)
        client.finish_many([Finish(lease) for lease in leases])
    return done


def catch_up(crawl: Crawl, count: int, broker: int) -> dict[str, float]:
    """Return what a worker needs for logs that are full, and then for calls of a client."""
    with crawl.worker(), crawl.client() as client:  # it claims all partitions: later ones are not the first
        while len(client.standings()[0]) < PARTITIONS:
            time.sleep(0.1)
    crawl.fill(count)
    began = time.monotonic()
    with crawl.worker() as process, crawl.client() as client:
        processors = Processors(process.pid, broker)
        while client.standings()[1] or client.summary().scheduled < count:
            time.sleep(0.1)
        seconds = time.monotonic() - began
        processor, of_links = processors.taken()
        pss, anonymous = memory(process.pid)
        done = work(client)
        calls, of_calls = processors.taken()
        waits = latencies(client)
        _, of_pages = processors.taken()
        idle = written_while_idle(crawl, process)
    began = time.monotonic()
    with crawl.worker(9) as process, crawl.client() as client:  # its folder is empty, and there are no snapshots
        processors = Processors(process.pid, broker)
        while client.standings()[1] or client.summary().scheduled < count:
            time.sleep(0.1)
        rebuilt = time.monotonic() - began
        rebuilding, of_rebuilding = processors.taken()
    time_of_broker = "processor time of the broker for each second of the worker's"
    return {
        "links for each second of processor time": count / processor,
        "seconds until it has caught up": seconds,
        f"MiB of it with {PARTITIONS} partitions, its share of the page cache included": pss,
        f"MiB of it with {PARTITIONS} partitions, anonymous": anonymous,
        "leases and their ends for each second of processor time": done / calls,
        "ms of a call that leases a page, at the median": 1e3 * waits[len(waits) // 2],
        "ms of a call that leases a page, of one in a hundred": 1e3 * waits[len(waits) * 99 // 100],
        f"entries in {IDLE:g} s in which nothing happens": idle[0],
        f"bytes on the disk in {IDLE:g} s in which nothing happens": idle[1],
        "seconds until another one has rebuilt all of it from the log": rebuilt,
        "links rebuilt for each second of processor time": count / rebuilding,
        f"{time_of_broker}: links of other partitions": of_links,
        f"{time_of_broker}: calls for {IN_A_CALL} URIs": of_calls,
        f"{time_of_broker}: calls for a page with 20 links": of_pages,
        f"{time_of_broker}: a rebuild": of_rebuilding,
    }


def latencies(client: ClusterFrontier) -> list[float]:
    """Return the seconds that each of some calls has taken, the fastest first: a lease, and its end with 20 links."""
    found = []
    for number in range(CALLS * 5):
        began = time.monotonic()
        leases = client.lease(1)
        found.append(time.monotonic() - began)
        links = [f"https://host{link}.example/{number}" for link in range(20)]
        client.finish_many([Finish(lease, discovered=links) for lease in leases])
    return sorted(found)


def written_while_idle(crawl: Crawl, process: subprocess.Popen[bytes]) -> tuple[int, int]:
    """Return the entries of the log and the bytes on the disk that are written while nothing happens."""

    def written() -> tuple[int, int]:
        disk = Path(f"/proc/{process.pid}/io").read_text().partition("write_bytes: ")[2].split()[0]
        return sum(log_ends(crawl.place, PARTITIONS).values()), int(disk)

    time.sleep(IDLE)
    before = written()
    time.sleep(IDLE)
    now = written()
    return now[0] - before[0], now[1] - before[1]


def take_over(crawl: Crawl, sign: signal.Signals) -> float:
    """Return the seconds from the end of a worker until another has all of its partitions."""
    with crawl.worker(1) as first, crawl.worker(2), crawl.client() as client:
        while len({one.owner for one in client.standings()[0]}) < 2 or client.standings()[1]:
            time.sleep(0.1)
        first.send_signal(sign)
        began = time.monotonic()
        while True:
            standings, missing = client.standings()
            if not missing and len({one.owner for one in standings}) == 1:
                return time.monotonic() - began
            time.sleep(0.05)


def main() -> None:
    """Measure, and write the results."""
    parser = script.parser("benchmarks.cluster", __doc__, scaled="the URIs")
    parser.add_argument("brokers", help="HOST:PORT of a broker")
    options = script.parse(parser)
    about = script.describe(options)
    count, broker = int(URIS * options.scale), broker_process(options.brokers)
    name = f"bench{int(time.time())}"
    with script.temporary("cluster", options.folder) as room:
        alone = max(engine(count // 4, room / str(turn)) for turn in range(2))
        together, applied = owner(count // 4, room)
        alone_each, one_by_one = owner(count // 40, room, batch=1)
        figures = {
            "engine alone: links for each second of processor time": alone,
            "an owner without a broker, the same": applied,
            "an owner without a broker, with one link in each entry": one_by_one,
            "a copy without a broker, the same": count // 4 / replay(together.entries, room),
            "bytes of a link in the log": sum(map(len, together.entries)) / (count // 4),
            "bytes of a link in an entry of its own": sum(map(len, alone_each.entries)) / (count // 40),
        }
        for number in TOGETHER:
            for what, figure in pages(count // 250, room, number).items():
                figures[f"a page of {number} in a call: {what}"] = figure
        warm_up(Crawl(options.brokers, f"{name}w", room), count // 10)
        for what, figure in catch_up(Crawl(options.brokers, name, room), count, broker).items():
            figures[f"a worker: {what}"] = figure
        figures["take-over of 4 partitions, seconds: SIGTERM"] = take_over(
            Crawl(options.brokers, f"{name}t", room), signal.SIGTERM
        )
        figures[f"take-over of 4 partitions, seconds: SIGKILL, with a session of {SESSION:g} s"] = take_over(
            Crawl(options.brokers, f"{name}k", room), signal.SIGKILL
        )
    rows = ["| figure | |", "| --- | --- |"]
    rows += [
        f"| {what} | {figure:,.{0 if figure > 100 else 1 if figure > 1 else 2}f} |" for what, figure in figures.items()
    ]
    record = script.record(about, figures=figures)
    results = options.results or script.RESULTS
    script.write("cluster", "A crawl in partitions", ["\n".join(rows), script.facts(about)], record, results)


if __name__ == "__main__":
    main()
