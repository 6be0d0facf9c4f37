"""Whole crawls over a message bus in real processes, which are killed at random: `python -m tests.bus.crawls`.

Two database workers, two strategy workers and two Scrapy spiders crawl a web on loopback over each transport, in a
random order of starts. Meanwhile processes are killed (the broker of ZeroMQ, too) and started again. Then every page
must have succeeded once, in one frontier, and been charged once for each attempt that counts.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from aiohttp import web

from budgetfrontier import Frontier
from budgetfrontier.bus.connect import connect
from budgetfrontier.bus.streams import DATABASE, OPERATORS, streams
from budgetfrontier.core.model import Summary
from budgetfrontier.crawler.demo.loopback import Loopback
from tests.bus import kafka_server
from tests.installed import NotInstalled
from tests.tools.importers.redis.server import started as redis_started

PARTITIONS = 2
TTL = 6
HOSTS = 12
CONFIG = f"""
crawl: bus
frontier:
  hold_queues: false
  lease_ttl: {TTL}s
  max_deliveries: 1000
  politeness: {{min_delay: 0.02, max_delay: 0.02, delay_factor: 0}}
  retry: {{delay: 1s}}
"""
SPIDER = f"""
import sys
from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.resolver import dnscache

for number in range(20):
    dnscache[f"h{{number}}.test"] = "127.0.0.1"
bus, port, partition = sys.argv[1:]

class Links(Spider):
    name = "links"

    async def start(self):
        yield Request(f"http://h0.test:{{port}}/0")

    def parse(self, response):
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, callback=self.parse_page)

    def parse_page(self, response):
        yield from self.parse(response)

process = CrawlerProcess({{
    "SCHEDULER": "budgetfrontier.scrapy.Scheduler",
    "BUDGETFRONTIER_BUS": bus,
    "BUDGETFRONTIER_SPIDER_LOG_PARTITIONS": {PARTITIONS},
    "BUDGETFRONTIER_SPIDER_FEED_PARTITIONS": {PARTITIONS},
    "BUDGETFRONTIER_SPIDER_PARTITION_ID": partition,
    "LOG_LEVEL": "INFO",
    "TELNETCONSOLE_ENABLED": False,
    "RETRY_ENABLED": False,
}})
process.crawl(Links)
process.start()
"""


class Web(Loopback):
    """Trees of pages on some hosts, each of which links to the next one's root."""

    def __init__(self, pages: int) -> None:
        super().__init__(self._answer)
        self.pages, self.fetches = pages, Counter[str]()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        host, _, port = request.host.partition(":")
        number, place = int(request.path[1:]), int(host[1:].partition(".")[0])
        self.fetches[f"{host}/{number}"] += 1
        links = [f"http://{host}:{port}/{child}" for child in (2 * number + 1, 2 * number + 2) if child < self.pages]
        if place + 1 < HOSTS and not number:
            links.append(f"http://h{place + 1}.test:{port}/0")
        return web.Response(text="".join(f'<a href="{link}">x</a>' for link in links), content_type="text/html")


class Processes:
    """The processes of one crawl, by name; their output goes to files."""

    def __init__(self, folder: Path, commands: dict[str, list[str]]) -> None:
        self._folder, self.commands = folder, commands
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.kills: Counter[str] = Counter()

    def start(self, name: str) -> None:
        with (self._folder / f"{name}.log").open("ab") as output:
            self.running[name] = subprocess.Popen(self.commands[name], stdout=output, stderr=output)

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.wait()
        self.kills[name] += 1

    def stop(self, *names: str) -> list[int]:
        """Send SIGTERM, and return the exit codes."""
        stopped = [self.running.pop(name) for name in names]
        for process in stopped:
            process.send_signal(signal.SIGTERM)
        return [process.wait(120) for process in stopped]

    def check(self) -> None:
        for name, process in self.running.items():
            if process.poll() is not None:
                text = (self._folder / f"{name}.log").read_text()[-3000:]
                raise AssertionError(f"{name} has ended with {process.returncode}:\n{text}")

    def end(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()


@contextmanager
def broker(kind: str, folder: Path) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """The URL of a bus, and the command of its broker if that is a process to kill."""
    if kind == "redis":
        with redis_started(folder) as redis:
            yield redis.url, {}
    elif kind == "kafka":
        with kafka_server.running(folder / "kafka") as address:
            yield f"kafka://{address}", {}
    else:
        where = f"ipc://{folder}/socket"
        command = [sys.executable, "-m", "budgetfrontier", "bus-broker", str(folder / "journal"), "--listen", where]
        yield f"zmq+{where}", {"broker": command}


def commands(folder: Path, bus: str, port: str) -> dict[str, list[str]]:
    (folder / "spider.py").write_text(SPIDER)
    common = [
        "--bus", bus, "--config", str(folder / "crawl.yaml"), "--spider-log-partitions", str(PARTITIONS),
        "--spider-feed-partitions", str(PARTITIONS), "--statistics-every", "1s",
    ]  # fmt: skip
    worker = [sys.executable, "-m", "budgetfrontier", "bus-worker", *common]
    # The scope is everything: the seeds are those of the spiders.
    (folder / "crawl.yaml").write_text(CONFIG + "scope: {accept: [all]}\n")
    found: dict[str, list[str]] = {}
    for number in ("0", "1"):
        found[f"db{number}"] = [*worker, str(folder / f"job{number}"), "--role", "db", "--partition", number]
        found[f"strategy{number}"] = [*worker, "--role", "strategy", "--partition", number]
        found[f"spider{number}"] = [sys.executable, str(folder / "spider.py"), bus, port, number]
    return found


def wait(condition: Callable[[], bool], processes: Processes, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        processes.check()
        assert time.monotonic() < end, f"it takes more than {seconds:g} s"
        time.sleep(0.1)


def crawl(kind: str, folder: Path, *, pages: int, kills: int, seed: int) -> tuple[Counter[str], Counter[str]]:
    """Crawl once; return how often each page was fetched, and each process killed."""
    chance = random.Random(seed)
    with ExitStack() as stack:
        site = stack.enter_context(Web(pages))
        url, extra = stack.enter_context(broker(kind, folder))
        processes = Processes(folder, {**extra, **commands(folder, url, site.address.rpartition(":")[2])})
        stack.callback(processes.end)
        order = list(processes.commands)
        chance.shuffle(order)
        for name in order:
            processes.start(name)
            time.sleep(chance.uniform(0.0, 0.5))
        total = pages * HOSTS
        for number in range(kills):
            wait(partial(_has, site, total * (number + 1) // (kills + 2)), processes, 120.0)
            name = chance.choice(order)
            processes.kill(name)
            time.sleep(chance.choice((0.0, 0.5)))
            processes.start(name)
        names = streams(spider_log_partitions=PARTITIONS, spider_feed_partitions=PARTITIONS)
        wait(lambda: len(site.fetches) == total, processes, 300.0)
        bus = connect(url)
        stack.callback(bus.close)
        settled = time.monotonic() + 2 * TTL + 2.0  # what was begun by a spider that was killed is fetched again
        wait(lambda: time.monotonic() > settled and not any(bus.lag(names.spider_log, DATABASE)), processes, 120.0)
        assert sum(bus.lag(names.dead_letters, OPERATORS)) == 0, "dead letters"
        codes = processes.stop(*(name for name in order if name != "broker"))
        assert codes == [0] * 6, dict(zip((name for name in order if name != "broker"), codes, strict=True))
        totals = [counted(folder / f"job{number}" / "frontier") for number in (0, 1)]
        assert sum(each.succeeded for each in totals) == total == sum(each.seen for each in totals), totals
        for each in totals:
            assert each.expenditure == each.succeeded + each.retried + each.failed, each
            assert each.failed == each.dead == each.queued == 0, each
        return site.fetches, processes.kills


def _has(site: Web, pages: int) -> bool:
    return len(site.fetches) >= pages


def counted(folder: Path) -> Summary:
    with Frontier.open(folder, keep_leases=True) as frontier:
        frontier.check()
        return frontier.summary()


def main() -> None:
    """Crawl over each transport, several times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transports", nargs="+", default=["zmq", "redis", "kafka"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pages", type=int, default=60, help="of each of 12 hosts")
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for kind in options.transports:
        for number in range(options.runs):
            begin = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                try:
                    fetches, kills = crawl(
                        kind, Path(folder), pages=options.pages, kills=options.kills, seed=options.seed + number
                    )
                except NotInstalled as error:
                    print(f"{kind}: skipped: {error}")
                    break
                except BaseException:
                    for log in sorted(Path(folder).glob("*.log")):
                        print(f"--- {log.name}\n{log.read_text()[-1500:]}")
                    raise
            twice = sum(fetches.values()) - len(fetches)
            print(
                f"{kind}, seed {options.seed + number}: {len(fetches)} pages, {twice} fetched again, killed: "
                f"{dict(kills)}, {time.monotonic() - begin:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
