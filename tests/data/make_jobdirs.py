"""Writes a JOBDIR for each disk queue of the Scrapy that is installed, by Scrapy's own scheduler.

`python tests/data/make_jobdirs.py FOLDER` makes FOLDER/QUEUE_CLASS/requests.queue. `peers.tar.xz` has those of Scrapy
1.8.3, 2.0.1, 2.11.2, 2.13.4 and 2.19.0 under peers/scrapy, made in environments of their own, and the queue of
make_qcrawl.py.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from types import SimpleNamespace
from typing import Any

with contextlib.suppress(Exception):  # a reactor is only asked for by some releases
    import twisted.internet.reactor  # noqa: F401

from scrapy import FormRequest, Request, Spider, squeues
from scrapy.utils.misc import load_object
from scrapy.utils.test import get_crawler


class Sample(Spider):  # type: ignore[misc]
    name = "sample"

    def parse_item(self, response: Any) -> None:
        """A callback."""


def requests(spider: Any) -> Any:
    yield Request("http://a.test/1", meta={"depth": 1}, headers={"Referer": "http://a.test/"})
    yield Request("http://a.test/2", meta={"depth": 2, "tags": ("x", 1), "big": 1 << 80}, priority=5)
    yield Request("http://b.test/1", priority=-10, cookies={"s": "1"}, callback=spider.parse_item, cb_kwargs={"n": 1})
    yield FormRequest("http://b.test/form", formdata={"q": "x"}, dont_filter=True, flags=["f"])
    yield Request("http://a.test/3", headers={"Accept": ["text/html", "text/plain"]}, meta={"is_start_request": True})


def make(folder: str, queue_class: str) -> None:
    os.makedirs(folder)
    chosen = {"JOBDIR": folder, "SCHEDULER_DISK_QUEUE": "scrapy.squeues." + queue_class}
    if hasattr(Spider, "start"):  # its own queue for requests of `start`
        chosen["SCHEDULER_START_DISK_QUEUE"] = "scrapy.squeues." + queue_class
    crawler = get_crawler(Sample, chosen)
    spider = crawler.spider = crawler._create_spider()
    if hasattr(crawler, "_apply_settings") and not getattr(crawler.settings, "frozen", True):
        crawler._apply_settings()
    scheduler = load_object(crawler.settings["SCHEDULER"])
    downloader = SimpleNamespace(slots={}, get_slot_key=_slot, _get_slot_key=_slot)
    crawler.engine = SimpleNamespace(downloader=downloader)
    made = scheduler.from_crawler(crawler)
    made.open(spider)
    for request in requests(spider):
        assert made.enqueue_request(request)
    assert not len(made.mqs)
    made.close("finished")


def _slot(request: Any, spider: Any = None) -> Any:
    return request.url.split("/")[2]


if __name__ == "__main__":
    for name, _ in inspect.getmembers(squeues):
        if name.startswith(("Pickle", "Marshal")) and "NonRequest" not in name:
            make(os.path.join(sys.argv[1], name), name)
