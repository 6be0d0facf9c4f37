"""Redis as scrapy-redis uses it, through redis-py: a set of fingerprints, and a sorted set of requests.

The server is one of our own, on a Unix socket in the folder of the measurement, and has the other cores to itself.
Requests were encoded beforehand, which scrapy-redis does for each.
"""

from __future__ import annotations

import marshal
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import disk
from benchmarks.timing import MIB, Stopwatch

SINGLY = 10_000  # discoveries: each is two trips to the server, and the rate does not depend on how many there are
BATCH = 1000  # of a pipeline that fills
LEASES = 64  # of one that takes: as ours

PERSISTENCE = {
    "in memory": ["--save", "", "--appendonly", "no"],
    "appending": ["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"],
}


def missing() -> str:
    """Return which requirement is missing; "" if none is."""
    absent = [] if shutil.which("redis-server") else ["redis-server"]
    return " and ".join(absent + ([] if find_spec("redis") else ["redis-py"]))


@contextmanager
def server(room: Path, persistence: str) -> Iterator[Any]:
    """Start a server that ends with the block; return a client of it."""
    import redis

    socket = room / "socket"
    command = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--dir", str(room), "--daemonize", "no"]
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(range(os.cpu_count() or 1)) - mine or mine)
    process = subprocess.Popen([*command, *PERSISTENCE[persistence]], stdout=subprocess.DEVNULL)
    os.sched_setaffinity(0, mine)
    try:
        client = redis.Redis(unix_socket_path=str(socket))
        deadline = time.monotonic() + 10
        while not socket.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("redis-server did not start")
            time.sleep(0.01)
        yield client
        client.close()
    finally:
        process.terminate()
        process.wait()


def queue(requests: Path, room: Path, persistence: str) -> dict[str, float]:
    """Measure discoveries put and requests taken per second, one at a time and then through pipelines."""
    encoded = marshal.loads(requests.read_bytes())
    figures: dict[str, float] = {}
    with server(room, persistence) as client:
        for name, some, put, take in (
            ("", encoded[:SINGLY], _put, _take),
            ("piped_", encoded, _put_piped, _take_piped),
        ):
            watch = Stopwatch()
            admitted = put(client, some)
            figures[f"{name}per_second"] = watch.rates(len(some))["per_second"]
            figures["memory"] = client.info("memory")["used_memory"] / MIB
            figures["disk"] = disk.folder_size(room) / admitted
            watch = Stopwatch()
            taken = take(client)
            figures[f"{name}taken_per_second"] = watch.rates(taken)["per_second"]
            assert taken == admitted
            client.flushall()
    return figures


def _put(client: Any, encoded: list[tuple[str, bytes]]) -> int:
    admitted = 0
    for fingerprint, request in encoded:
        if client.sadd("dupefilter", fingerprint):
            client.execute_command("ZADD", "requests", 0, request)
            admitted += 1
    return admitted


def _take(client: Any) -> int:
    taken = 0
    while _pop(client, 1):
        taken += 1
    return taken


def _put_piped(client: Any, encoded: list[tuple[str, bytes]]) -> int:
    admitted = 0
    for i in range(0, len(encoded), BATCH):
        batch = encoded[i : i + BATCH]
        pipe = client.pipeline(transaction=False)
        for fingerprint, _ in batch:
            pipe.sadd("dupefilter", fingerprint)
        new = [request for (_, request), added in zip(batch, pipe.execute(), strict=True) if added]
        pipe = client.pipeline(transaction=False)
        for request in new:
            pipe.execute_command("ZADD", "requests", 0, request)
        pipe.execute()
        admitted += len(new)
    return admitted


def _take_piped(client: Any) -> int:
    taken = 0
    while found := _pop(client, LEASES):
        taken += len(found)
    return taken


def _pop(client: Any, count: int) -> list[bytes]:
    pipe = client.pipeline()
    pipe.multi()
    pipe.zrange("requests", 0, count - 1).zremrangebyrank("requests", 0, count - 1)
    found: list[bytes] = pipe.execute()[0]
    return found
