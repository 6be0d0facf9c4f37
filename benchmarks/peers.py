"""What ours is compared with: LMDB given the very rows that ours writes, and Scrapy's scheduler."""

from __future__ import annotations

import marshal
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lmdb

from benchmarks.timing import Stopwatch
from budgetfrontier import Frontier, plugins, uris
from budgetfrontier.store import keys

BATCH = 1000
COMMIT = 125_000  # discoveries: what an engine that reaches its target does in half a second, from commit to commit
DRAIN_SECONDS = 2.0  # Scrapy looks at every host for each request: its rate is measured for so long, not to the end


def prepare(urls: list[str], path: str, target: Path) -> dict[str, float]:
    """Write a stream's rows as ours stores them: for each discovery its `seen` key and, when new, its `pending` row."""
    with Frontier.open(path) as f:
        f.schedule_many(urls)
    env = lmdb.open(path, readonly=True, max_dbs=len(keys.TABLES), lib_version=0)
    with env.begin() as txn:
        pending = env.open_db(keys.PENDING.encode(), txn=txn, create=False)
        rows = sorted((keys.pending.unpack(key)[-1], key, value) for key, value in txn.cursor(pending) if value)
    env.close()
    canonical = plugins.resolve("canonicalization", "standard")
    known: set[bytes] = set()
    arrivals = iter(rows)
    discoveries = []
    for url in urls:
        fingerprint = uris.fingerprint(canonical(uris.parse(url)))
        new = fingerprint not in known
        known.add(fingerprint)
        discoveries.append((fingerprint, *(next(arrivals)[1:] if new else (None, None))))
    assert next(arrivals, None) is None
    target.write_bytes(marshal.dumps(discoveries))
    return {"rows": len(known)}


def puts(room: Path, rows: Path, *, in_order: bool = False) -> dict[str, float]:
    """Puts per second of those rows with py-lmdb and nothing else, synced commits as often as ours.

    `in_order` sorts each batch first, as ours does: what LMDB gives at the best.
    """
    discoveries = marshal.loads(rows.read_bytes())
    env = lmdb.open(str(room), map_size=1 << 34, max_dbs=2, meminit=False, lib_version=0)
    seen, pending = env.open_db(b"seen"), env.open_db(b"pending")
    watch = Stopwatch()
    txn = env.begin(write=True)
    for i in range(0, len(discoveries), BATCH):
        if i and not i % COMMIT:
            txn.commit()
            txn = env.begin(write=True)
        batch = discoveries[i : i + BATCH]
        if in_order:
            batch.sort(key=itemgetter(0))
            put = txn.cursor(seen).put
            arrived = [(key, value) for fingerprint, key, value in batch if put(fingerprint, b"", overwrite=False)]
            arrived.sort()
            txn.cursor(pending).putmulti(arrived)
        else:
            for fingerprint, key, value in batch:
                if txn.put(fingerprint, b"", overwrite=False, db=seen):
                    txn.put(key, value, db=pending)
    txn.commit()
    rates = watch.rates(len(discoveries))
    env.close()
    return rates


def scrapy(urls: list[str], jobdir: Path | None) -> dict[str, float]:
    """Scrapy's scheduler with its default queues: requests made and enqueued per second, then taken per second.

    With a folder it is the JOBDIR scheduler, which writes each request to a file and never syncs. No reactor runs: the
    priority queue asks the downloader for slots only, and is given one that is idle.
    """
    from scrapy import Request, Spider
    from scrapy.core.scheduler import Scheduler
    from scrapy.crawler import Crawler
    from scrapy.utils.httpobj import urlparse_cached

    options: dict[str, Any] = {"JOBDIR": str(jobdir) if jobdir else None, "TWISTED_REACTOR_ENABLED": False}
    crawler = Crawler(Spider, options)
    crawler._apply_settings()
    crawler.spider = Spider.from_crawler(crawler, name="benchmark")
    idle = SimpleNamespace(get_slot_key=lambda request: urlparse_cached(request).hostname, slots={})
    crawler.engine = SimpleNamespace(downloader=idle)
    scheduler = Scheduler.from_crawler(crawler)
    scheduler.open(crawler.spider)
    watch = Stopwatch()
    admitted = sum(scheduler.enqueue_request(Request(url)) for url in urls)
    rates = watch.rates(len(urls))
    taken, watch = 0, Stopwatch()
    while watch.seconds() < DRAIN_SECONDS and scheduler.next_request():
        taken += 1
    taken_rates = watch.rates(taken)
    scheduler.close("finished")
    return {**rates, "taken_per_second": taken_rates["per_second"], "admitted": admitted}
