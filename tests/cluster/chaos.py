"""Workers and crawlers of one crawl, which are killed and paused at random, and the broker with them.

`python -m tests.cluster.chaos` starts three workers and four crawlers on a real broker of Kafka, and a web of hosts on
loopback that notes who asks for what, and when. Every few seconds a process is killed and started again, or a worker
is paused for longer than its session, or its disk is filled or lost, or it goes on with another release. The clock of
one worker is an hour ahead, that of another an hour behind. The settings of the frontier are drawn, too. At the end
every page must have been fetched, no host by two at once or before its delay was over, every page must be charged once,
and every partition must be sound.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from aiohttp import web

from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.cluster.directory.kafka import KafkaDirectory, place
from budgetfrontier.core.model import Summary
from budgetfrontier.crawler.demo.loopback import Loopback
from budgetfrontier.tools.cli.exits import DISK_FULL
from tests.bus import kafka_server
from tests.cluster.releases import CHANGES, NextRelease
from tests.crash.disks import Disk, disk
from tests.support import until

CRAWL = "chaos"
DELAY = 0.3
SESSION = 6.0
TTL = 12.0
CONCURRENCY = 20
SNAPSHOT_EVERY = 10.0
SKEWS = {"worker1": 3600.0, "worker2": -3600.0}
"""By how many seconds the clocks of workers are ahead."""
SKEWED = """
import sys, time
skew, clock = float(sys.argv.pop(1)), time.time

def skewed():
    ours = sys._getframe(1).f_globals["__name__"].startswith("budgetfrontier")
    return clock() + skew * ours  # gRPC adds its deadlines to it, which its core compares with the real one

time.time = skewed
from budgetfrontier.__main__ import main
sys.exit(main())
"""
ROOT = Path(__file__).parents[2]


class Fetch(NamedTuple):
    """A request for a page, by whom, and from when to when."""

    host: str
    path: str
    who: str
    begin: float
    end: float


class Web(Loopback):
    """Hosts, each with a few pages; a page links to the next ones of its host, and to other hosts."""

    def __init__(self, hosts: int, seconds: float) -> None:
        super().__init__(self._answer)
        self.hosts, self.seconds = hosts, seconds
        self.fetches: list[Fetch] = []

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def pages(self, host: int) -> int:
        """Return the number of pages of a host."""
        return 3 + host % 5

    def expected(self) -> set[tuple[str, str]]:
        """Return all pages."""
        return {(f"h{host}.test", f"/{page}") for host in range(self.hosts) for page in range(self.pages(host))}

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        name, begin = request.host.partition(":")[0], time.monotonic()
        if request.path == "/robots.txt":
            return self._note(name, request, begin, web.Response(status=404))
        await asyncio.sleep(self.seconds)
        host, page = int(name[1:].partition(".")[0]), int(request.path[1:])
        links = [f"/{next_}" for next_ in (2 * page + 1, 2 * page + 2) if next_ < self.pages(host)]
        links += [f"http://h{other}.test/0" for other in (2 * host + 1, 2 * host + 2) if other < self.hosts]
        links += [f"http://h{(host * 7 + page) % self.hosts}.test/0", "/0"]
        text = "".join(f'<a href="{link}">x</a>' for link in links)
        return self._note(name, request, begin, web.Response(text=text, content_type="text/html"))

    def _note(self, name: str, request: web.BaseRequest, begin: float, response: web.Response) -> web.Response:
        who = request.headers.get("User-Agent", "")
        self.fetches.append(Fetch(name, request.path, who, begin, time.monotonic()))
        return response


class Cluster:
    """The processes of a crawl, each started again when it is killed."""

    def __init__(self, folder: Path, brokers: str, site: Web, *, partitions: int, frontier: Mapping[str, Any]) -> None:
        """Write the configurations; `frontier` has settings of the frontier beyond those that all crawls have."""
        self.folder = folder
        self.brokers = brokers
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.kills: Counter[str] = Counter()
        self.next_release = NextRelease(folder / "next", CHANGES)
        self.upgraded: set[str] = set()
        """The workers with the next release."""
        self.folders: dict[str, Path] = {}
        """Those of workers that have others than the one of their name."""
        options = f"session.timeout.ms={SESSION * 1000:.0f}&heartbeat.interval.ms=500&max.poll.interval.ms=60000"
        common: dict[str, Any] = {
            "crawl": CRAWL,
            "seeds": ["http://h0.test/0"],
            "scope": {"accept": ["domain:test"], "max_hops": 100000},
            "fetch": {"resolve": {"*.test": site.address}, "concurrency": CONCURRENCY, "allow_private": True},
            "frontier": {
                "lease_ttl": TTL,
                "politeness": {"delay_factor": 0, "min_delay": DELAY, "max_delay": DELAY},
                "retry": {"delay": 1, "max_retries": 1000},
                "max_deliveries": 1000,
                **frontier,
            },
        }
        snapshots = {"snapshots": (folder / "snapshots").as_uri(), "snapshot_every": SNAPSHOT_EVERY}
        (folder / "snapshots").mkdir()
        cluster = {"kafka": f"{brokers}?{options}", "partitions": partitions, **snapshots}
        worker = common | {"cluster": cluster}
        (folder / "worker.yaml").write_text(json.dumps(worker))
        for number in range(4):
            own = common | {"fetch": common["fetch"] | {"user_agent": f"crawler{number}"}}
            (folder / f"crawler{number}.yaml").write_text(json.dumps(own))

    def start(self, name: str) -> None:
        """Start a worker or a crawler."""
        self._start(name, *self._arguments(name))

    def kill(self, name: str) -> None:
        """Kill a process, and start it again."""
        self._end(name)
        self.kills[name] += 1
        self.start(name)

    def lose(self, name: str) -> None:
        """Kill a worker, and remove its disk."""
        self._end(name)
        folder = self.folders.get(name, self.folder / name)
        for path in folder.glob("*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.kills[f"{name} lost its disk"] += 1
        self.start(name)

    def pause(self, name: str, seconds: float) -> None:
        """Stop a process for a while; it is not killed."""
        self.processes[name].send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.processes[name].send_signal(signal.SIGCONT)
        self.kills[f"{name} paused"] += 1

    def upgrade(self, name: str) -> None:
        """Stop a worker, and start it with the other release."""
        self.processes[name].terminate()
        self.processes[name].wait(60)
        self.upgraded ^= {name}
        self.kills[f"{name} got another release"] += 1
        self.start(name)

    @property
    def is_over(self) -> bool:
        """Whether all crawlers have ended, so that a kill shows nothing any more."""
        return all(process.poll() is not None for name, process in self.processes.items() if _is_crawler(name))

    def start_ended_workers(self) -> None:
        """Start workers again that have ended by themselves."""
        for name, process in self.processes.items():
            if process.poll() is not None and not _is_crawler(name):
                self.kills[f"{name} ended by itself: {process.returncode}"] += 1
                self.start(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End all processes."""
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()

    def fill(self, name: str, small: Disk) -> None:
        """Fill the disk of a worker until it ends, make room, and start it again; one with nothing to do goes on."""
        small.fill(0)
        try:
            code = self.processes[name].wait(20.0)
        except subprocess.TimeoutExpired:
            self.kills["full disk of an idle worker"] += 1
            small.clear()
            return
        assert code == DISK_FULL, (name, code)
        small.clear()
        self.kills["full disk"] += 1
        self.start(name)

    def _end(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()

    def _start(self, name: str, *arguments: object) -> None:
        python = self.next_release.command if name in self.upgraded else [sys.executable]
        skewed = ["-c", SKEWED, str(SKEWS[name])] if name in SKEWS else ["-m", "budgetfrontier"]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*python, *skewed, *map(str, arguments)], stdout=log, stderr=log, cwd=ROOT
            )

    def _arguments(self, name: str) -> list[object]:
        if name.startswith("worker"):
            listen = f"unix:{self.folder / name}.socket"
            Path(listen.removeprefix("unix:")).unlink(missing_ok=True)
            config = self.folder / "worker.yaml"
            folder = self.folders.get(name, self.folder / name)
            return ["worker", "--config", config, "--folder", folder, "--listen", listen]
        address = f"kafka://{self.brokers}/{CRAWL}"
        return ["crawl", self.folder / f"{name}.yaml", "--job", self.folder / f"{name}-job", "--frontier", address]


class Run(NamedTuple):
    """What was seen of a run."""

    site: Web
    kills: Counter[str]
    total: Summary
    codes: dict[str, int]
    killed_for: float
    """Seconds during which processes were killed; it ends when the crawl has."""
    seconds: float
    unsound: list[str]
    """What `verify` says of the partitions on the small disk."""


def settings(chance: random.Random) -> dict[str, Any]:
    """Return settings of a frontier under which every page is fetched, and charged once."""
    return {
        "hold_queues": chance.random() < 0.3,
        "keep_urls": chance.random() < 0.5,
        "queue_assignment_policy": chance.choice(["hostname", "surt-authority", "registered-domain"]),
        "balance_replenish_amount": chance.choice([1, 10, 3000]),
    }


@contextmanager
def broker(folder: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """Run a broker; yield its address, and what kills it and starts it again."""
    with ExitStack() as first:
        address = first.enter_context(kafka_server.running(folder))
        stacks = [first.pop_all()]
    port = int(address.rpartition(":")[2])

    def again() -> None:
        stacks.pop().close()
        time.sleep(1.0)
        with ExitStack() as next_:
            next_.enter_context(kafka_server.running(folder, port))
            stacks.append(next_.pop_all())

    try:
        yield address, again
    finally:
        if stacks:
            stacks.pop().close()


def run(
    folder: Path,
    *,
    hosts: int,
    partitions: int,
    seconds: float,
    seed: int,
    brokers_too: bool = True,
    disk_too: bool = False,
    processes: tuple[int, int] = (3, 4),
    between: tuple[float, float] = (2.0, 6.0),
) -> Run:
    """Crawl all hosts; kill something now and then, for so many seconds, and let the crawl end.

    Hosts answer so slowly that the crawl takes about as long, without the kills.
    With `disk_too`, one worker has a small disk, which is filled now and then. `processes` are the numbers of workers
    and of crawlers, `between` bounds the seconds from one kill to the next.
    """
    chance = random.Random(seed)
    began = time.monotonic()
    with ExitStack() as stack:
        address, again = stack.enter_context(broker(folder / "kafka"))
        site = stack.enter_context(Web(hosts, 0.02))
        site.seconds = max(site.seconds, 0.8 * seconds * CONCURRENCY * processes[1] / len(site.expected()))
        drawn = settings(chance)
        print(f"settings of the frontier: {drawn}", flush=True)
        cluster = Cluster(folder, address, site, partitions=partitions, frontier=drawn)
        small: Disk | None = None
        if disk_too:
            small = stack.enter_context(disk(folder, "tmpfs", size=128 << 20))
            cluster.folders["worker0"] = small.folder
        workers = [f"worker{number}" for number in range(processes[0])]
        crawlers = [f"crawler{number}" for number in range(processes[1])]
        with cluster:
            for name in [*workers, *crawlers]:
                cluster.start(name)
            until(lambda: len(site.fetches) > 5)
            end = time.monotonic() + seconds
            what = (
                ["worker", "crawler", "worker", "crawler", "pause", "lose", "upgrade", "upgrade"]
                + ["broker"] * brokers_too
                + ["disk"] * disk_too
            )
            while time.monotonic() < end and not cluster.is_over:
                time.sleep(chance.uniform(*between))
                match chance.choice(what):
                    case "worker":
                        cluster.kill(chance.choice(workers))
                    case "crawler":
                        cluster.kill(chance.choice(crawlers))
                    case "upgrade":
                        cluster.upgrade(chance.choice(workers))
                    case "lose":
                        cluster.lose(chance.choice(workers))
                    case "pause":
                        cluster.pause(chance.choice(workers), SESSION * 1.7)
                    case "disk" if small is not None:
                        cluster.fill("worker0", small)
                    case "broker":
                        again()
                        cluster.kills["broker"] += 1
                cluster.start_ended_workers()
            killed_for = seconds - max(0.0, end - time.monotonic())
            where = place(f"kafka://{address}/{CRAWL}")
            deadline = time.monotonic() + 900
            while not cluster.is_over:
                assert time.monotonic() < deadline, "the crawl did not end"
                time.sleep(1.0)
                cluster.start_ended_workers()
            codes = {name: cluster.processes[name].returncode for name in crawlers}
            with ClusterFrontier(where.crawl, KafkaDirectory(where)) as frontier:
                total = frontier.summary()
        unsound = [] if small is None else verified(small.folder)
    return Run(site, cluster.kills, total, codes, killed_for, time.monotonic() - began, unsound)


def _is_crawler(name: str) -> bool:
    return name.startswith("crawler")


def verified(folder: Path) -> list[str]:
    """Return what `verify` says of the partitions of a worker that are not sound."""
    wrong = []
    for path in sorted(folder.glob("partition-*/frontier")):
        command = [sys.executable, "-m", "budgetfrontier", "verify", str(path)]
        found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        if found.returncode:
            wrong.append(f"{path}: {found.stdout}{found.stderr}")
    return wrong


def check(run: Run, folder: Path) -> list[str]:
    """Return what was promised and is not so."""
    wrong: list[str] = []
    expected = run.site.expected()
    robots = {(f"h{host}.test", "/robots.txt") for host in range(run.site.hosts)}
    seen = Counter((fetch.host, fetch.path) for fetch in run.site.fetches)
    if missing := expected - seen.keys():
        wrong.append(f"{len(missing)} pages were not fetched, such as {sorted(missing)[:5]}")
    if strange := seen.keys() - expected - robots:
        wrong.append(f"strange pages were fetched: {sorted(strange)[:5]}")
    last: dict[str, Fetch] = {}
    broken = []
    for fetch in sorted(run.site.fetches, key=lambda fetch: fetch.begin):
        if fetch.host in last and fetch.begin < last[fetch.host].end + DELAY - 0.005:
            broken.append((last[fetch.host], fetch))
        last[fetch.host] = fetch
    if broken:
        wrong.append(f"{len(broken)} fetches before the delay of their host was over, such as {broken[:3]}")
    total = run.total
    if total.succeeded - total.prerequisites != len(expected):
        wrong.append(f"{total.succeeded - total.prerequisites} pages succeeded, of {len(expected)}")
    if total.expenditure != len(expected) + total.retried:
        wrong.append(f"{total.expenditure} was spent, on {len(expected)} pages and {total.retried} retries")
    if total.queued or total.in_process or total.dead or total.failed:
        wrong.append(f"not all was done: {total}")
    if any(run.codes.values()):
        wrong.append(f"crawlers ended with {run.codes}")
    wrong += run.unsound
    for worker in sorted(folder.glob("worker?")):
        wrong += verified(worker)
    return wrong


def main() -> None:
    """Run it, and say what was seen."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.chaos", description=__doc__)
    parser.add_argument("--hosts", type=int, default=2000)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=300.0, help="for which processes are killed")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", type=Path, default=None, help="a new folder for all files, which are kept")
    parser.add_argument("--no-broker", action="store_true", help="do not kill the broker")
    parser.add_argument("--no-disk", action="store_true", help="fill no disk, which needs the right to mount one")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # which ends all processes
    folder = args.keep or Path(tempfile.mkdtemp(prefix="chaos"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"seed {args.seed}, files in {folder}", flush=True)
    seen = run(
        folder, hosts=args.hosts, partitions=args.partitions, seconds=args.seconds, seed=args.seed,
        brokers_too=not args.no_broker, disk_too=not args.no_disk,
    )  # fmt: skip
    print(
        f"{len(seen.site.fetches)} fetches in {seen.seconds:.0f} s, with kills for {seen.killed_for:.0f} s: "
        f"{dict(seen.kills)}; {seen.total}"
    )
    wrong = check(seen, folder)
    print("\n".join(wrong) or "all as promised")
    if not args.keep and not wrong:
        shutil.rmtree(folder)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
