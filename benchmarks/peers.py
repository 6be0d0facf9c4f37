"""Measurements of Scrapy's scheduler, and of the disk queues of queuelib that it uses."""

from __future__ import annotations

import marshal
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks import disk
from benchmarks.timing import MIB, Stopwatch, anonymous_memory

DRAIN_SECONDS = 2.0  # with thousands of hosts Scrapy's default queue would take minutes to the end

PRIORITY_QUEUES = {
    "default": "scrapy.pqueues.DownloaderAwarePriorityQueue",  # looks at every host for each request
    "plain": "scrapy.pqueues.ScrapyPriorityQueue",
}

QUEUES = {"FIFO": "FifoDiskQueue", "LIFO": "LifoDiskQueue"}


def prepare(urls: list[str], target: Path) -> dict[str, float]:
    """Write the requests for the URLs as Scrapy stores them: the fingerprint and the pickle of each."""
    from scrapy import Request
    from scrapy.utils.request import fingerprint

    requests = [Request(url) for url in urls]
    encoded = [(fingerprint(request).hex(), pickle.dumps(request.to_dict(), protocol=-1)) for request in requests]
    target.write_bytes(marshal.dumps(encoded))
    return {"requests": len(encoded)}


def scrapy(urls: list[str], jobdir: Path | None, queue: str) -> dict[str, float]:
    """Measure requests created and enqueued per second, requests taken per second, and their memory.

    With a folder it is the JOBDIR scheduler, which writes each request to a file and never syncs. No reactor runs: the
    default priority queue asks the downloader for slots only, and is given one that is idle.
    """
    from scrapy import Request, Spider
    from scrapy.core.scheduler import Scheduler
    from scrapy.crawler import Crawler
    from scrapy.utils.httpobj import urlparse_cached

    options: dict[str, Any] = {"JOBDIR": str(jobdir) if jobdir else None, "TWISTED_REACTOR_ENABLED": False}
    crawler = Crawler(Spider, options | {"SCHEDULER_PRIORITY_QUEUE": PRIORITY_QUEUES[queue]})
    crawler._apply_settings()
    crawler.spider = Spider.from_crawler(crawler, name="benchmark")
    idle = SimpleNamespace(get_slot_key=lambda request: urlparse_cached(request).hostname, slots={})
    crawler.engine = SimpleNamespace(downloader=idle)
    scheduler = Scheduler.from_crawler(crawler)
    scheduler.open(crawler.spider)
    before = anonymous_memory()
    watch = Stopwatch()
    admitted = sum(scheduler.enqueue_request(Request(url)) for url in urls)
    figures = {**watch.rates(len(urls)), "memory": (anonymous_memory() - before) / MIB}
    if jobdir and queue == "plain":  # the default queue has a file per host, most of it still in a buffer
        figures["disk"] = disk.folder_size(jobdir) / admitted
    taken, watch = 0, Stopwatch()
    while watch.seconds() < DRAIN_SECONDS and scheduler.next_request():
        taken += 1
    figures |= {f"taken_{name}": rate for name, rate in watch.rates(taken).items()}
    scheduler.close("finished")
    return figures


def queuelib(requests: Path, room: Path, kind: str) -> dict[str, float]:
    """Measure requests, encoded beforehand, pushed to and popped from one disk queue per second. Never synced."""
    import queuelib as library

    encoded = [request for _, request in marshal.loads(requests.read_bytes())]
    queue = getattr(library, QUEUES[kind])(str(room / "queue"))
    watch = Stopwatch()
    for request in encoded:
        queue.push(request)
    figures = watch.rates(len(encoded)) | {"disk": disk.folder_size(room) / len(encoded)}
    taken, watch = 0, Stopwatch()
    while queue.pop() is not None:
        taken += 1
    assert taken == len(encoded)
    figures["taken_per_second"] = watch.rates(taken)["per_second"]
    queue.close()
    return figures
