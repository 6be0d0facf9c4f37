"""A crawl in partitions on a real broker: `python -m benchmarks.cluster BROKERS` measures one worker, and take-overs.

Start a broker first: `python -m tests.bus.kafka_server FOLDER 19092`. Figures are for each second of processor time of
the worker's process, both of its threads and librdkafka's included; the engine alone is measured by that of this
process. URIs are those that workers send each other: with the page that they were found on. The logs are filled before
a worker starts, so that it catches up.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import script
from budgetfrontier import CrawlUri, Frontier, Settings
from budgetfrontier.bus.kafka import connect
from budgetfrontier.cluster import entries
from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.cluster.entries import Called, Claimed, Found
from budgetfrontier.cluster.kafka import KafkaDirectory, Place
from budgetfrontier.cluster.partition import Partition
from budgetfrontier.cluster.routing import Router
from budgetfrontier.cluster.worker import log_stream
from budgetfrontier.core.model import Finish

URIS = 1_000_000
HOSTS = 2000
BATCH = 500
PARTITIONS = 8
CALLS = 100
IN_A_CALL = 100
SETTINGS = {"frontier": {"politeness": {"delay_factor": 0, "min_delay": 0, "max_delay": 0}}}
SESSION = 6.0


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


def partition(count: int, room: Path, batch: int = BATCH) -> tuple[float, float]:
    """Return the URIs that a partition applies in a second of processor time, and the bytes of each in its log.

    Entries have `batch` URIs each; it is committed after every 50,000.
    """
    log = [entries.encode(Claimed("one", b"1", Settings.from_dict(SETTINGS).to_dict()), crawl="c", time=1.0)]
    given: list[Any] = list(uris(count))
    for start in range(0, count, batch):
        log.append(entries.encode(Found(1, (start, 0), given[start : start + batch]), crawl="c", time=1.0))
    one = Partition(room / f"partition-{batch}", "c", 0, PARTITIONS)
    began = time.process_time()
    while one.state.position < len(log):
        end = one.state.position + 50_000 // batch
        one.apply([*enumerate(log[one.state.position : end], one.state.position)])
        one.commit()
    used = time.process_time() - began
    one.close()
    return count / used, sum(map(len, log)) / count


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
        found = Found((number + 1) % PARTITIONS, (place, 0), list(batch))
        producer.send(entries.encode(found, crawl=self.place.crawl, time=time.time()), partition=number)
        batch.clear()


def used(process: subprocess.Popen[bytes]) -> float:
    """Return the processor time of a process in seconds."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def catch_up(crawl: Crawl, count: int) -> dict[str, float]:
    """Return what a worker needs for logs that are full, and then for calls of a client."""
    with crawl.worker() as warm, crawl.client() as client:  # it claims all partitions: later ones are not the first
        while len(client.standings()[0]) < PARTITIONS:
            time.sleep(0.1)
        del warm
    crawl.fill(count)
    began = time.monotonic()
    with crawl.worker() as process, crawl.client() as client:
        while client.standings()[1] or client.summary().scheduled < count:
            time.sleep(0.1)
        seconds, processor = time.monotonic() - began, used(process)
        before = used(process)
        done = 0
        for _ in range(CALLS):
            leases = client.lease(IN_A_CALL)
            done += len(leases)
            client.finish_many([Finish(lease) for lease in leases])
        calls = used(process) - before
    return {
        "links for each second of processor time": count / processor,
        "seconds until it has caught up": seconds,
        "leases and their ends for each second of processor time": done / calls,
    }


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
    count = int(URIS * options.scale)
    name = f"bench{int(time.time())}"
    with script.temporary("cluster", options.folder) as room:
        alone = max(engine(count // 4, room / str(turn)) for turn in range(2))
        applied, size = partition(count // 4, room)
        figures = {
            "engine alone: links for each second of processor time": alone,
            "a partition without a broker, the same": applied,
            "a partition without a broker, with one link in each entry": partition(count // 4, room, batch=1)[0],
            "bytes of a link in the log": size,
            "bytes of a lease and its end in the log": _bytes_of_calls(),
        }
        for what, figure in catch_up(Crawl(options.brokers, name, room), count).items():
            figures[f"a worker: {what}"] = figure
        figures["take-over of 4 partitions, seconds: SIGTERM"] = take_over(
            Crawl(options.brokers, f"{name}t", room), signal.SIGTERM
        )
        figures[f"take-over of 4 partitions, seconds: SIGKILL, with a session of {SESSION:g} s"] = take_over(
            Crawl(options.brokers, f"{name}k", room), signal.SIGKILL
        )
    rows = ["| figure | |", "| --- | --- |"]
    rows += [f"| {what} | {figure:,.{0 if figure > 100 else 1}f} |" for what, figure in figures.items()]
    record = script.record(about, figures=figures)
    results = options.results or script.RESULTS
    script.write("cluster", "A crawl in partitions", ["\n".join(rows), script.facts(about)], record, results)


def _bytes_of_calls() -> float:
    """Return the bytes in the log of a lease and its end, in calls for as many as here."""
    from budgetfrontier.core import protocol

    wanted = Called(1, 1, protocol.LEASE.name, protocol.encode(protocol.Wanted(IN_A_CALL)))
    ended = Called(1, 2, protocol.FINISH_MANY.name, protocol.encode([1 << 40] * IN_A_CALL))
    return sum(len(entries.encode(body, crawl="crawl", time=time.time())) for body in (wanted, ended)) / IN_A_CALL


if __name__ == "__main__":
    main()
