"""Writes a disk queue of the qcrawl that is installed into the folder given: `python tests/data/make_qcrawl.py FOLDER`.

`peers.tar.xz` has one of qcrawl 0.4.0 (pip install qcrawl aiofiles orjson), made in an environment of its own.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from qcrawl.core.queues.disk import DiskQueue
from qcrawl.core.request import Request

REQUESTS = [
    Request("http://a.test/1", meta={"depth": 2, "tags": ["x"]}, headers={"Accept": "text/html"}),
    Request("http://a.test/low", priority=-10),
    Request("http://a.test/high", priority=100, callback="parse_item", cb_kwargs={"n": 1}, retries=2),
    Request("http://b.test/form", method="POST", body=b"q=x", cookies={"s": "1"}, proxy="http://p.test:3128"),
    Request("http://a.test/2"),
]


async def make(folder: Path) -> None:
    queue = DiskQueue(path=folder)
    for request in REQUESTS:
        await queue.put(request, priority=request.priority)
    await queue.close()


if __name__ == "__main__":
    asyncio.run(make(Path(sys.argv[1])))
