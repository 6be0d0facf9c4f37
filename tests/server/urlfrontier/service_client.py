"""A server for tests, in this process or in one of its own, and a client that knows all RPCs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from budgetfrontier import Settings
from budgetfrontier.server import server
from budgetfrontier.server.stopping import Stop
from budgetfrontier.server.urlfrontier import methods, service
from budgetfrontier.server.urlfrontier import urlfrontier_pb2 as m
from tests.crawler.process import forked_main
from tests.forked import ForkedProcess
from tests.support import PATIENCE

OK, SKIPPED, FAIL = 0, 1, 2
_OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)  # else a client may get one to a server that was killed


class Client:
    """The RPCs of a server at an address, by their names: `client.GetStats(request)`; streams are lists."""

    def __init__(self, address: str, *, metadata: Iterable[tuple[str, str]] = (), channel: Any = None) -> None:
        self.channel = grpc.insecure_channel(address, options=_OWN_CONNECTION) if channel is None else channel
        self._metadata = tuple(metadata)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()

    def rpc(self, name: str) -> Callable[..., Any]:
        """The RPC as gRPC offers it."""
        method = methods.METHODS[name]
        kind: Any = {
            (False, False): self.channel.unary_unary,
            (False, True): self.channel.unary_stream,
            (True, True): self.channel.stream_stream,
        }[method.streams_requests, method.streams_replies]
        found: Callable[..., Any] = kind(
            method.path, request_serializer=bytes_of, response_deserializer=method.reply.FromString
        )
        return found

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = methods.METHODS[name]

        def call(request: Any = None, **fields: Any) -> Any:
            if method.streams_requests:
                request = iter(request)
            elif request is None:
                request = method.request(**fields)
            reply = self.rpc(name)(request, timeout=PATIENCE, metadata=self._metadata)
            return list(reply) if method.streams_replies else reply

        return call

    def put(self, *items: Any) -> list[int]:
        """The statuses of URLItems, in their order: their IDs differ."""
        acks = {ack.ID: int(ack.status) for ack in self.PutURLs(items)}
        assert len(acks) == len(items)
        return [acks[name_of(item)] for item in items]

    def get(self, crawl: str = "c", **fields: Any) -> list[str]:
        """The URLs that GetURLs hands out."""
        return [info.url for info in self.GetURLs(crawlID=crawl, **fields)]


def bytes_of(message: Any) -> bytes:
    """A message as it is sent; bytes as they are."""
    return message if isinstance(message, bytes) else bytes(message.SerializeToString())


def name_of(item: Any) -> str:
    """The ID with which an item is acknowledged."""
    return str(item.ID or item.known.info.url or item.discovered.info.url)


def info(url: str, crawl: str = "c", key: str = "", **metadata: Any) -> Any:
    """A URLInfo; `bf_cost` stands for `bf.cost`."""
    found = m.URLInfo(url=url, crawlID=crawl, key=key)
    for name, value in metadata.items():
        found.metadata[name.replace("_", ".")].values.append(str(value))
    return found


def discovered(url: str, crawl: str = "c", key: str = "", *, id: str = "", **metadata: Any) -> Any:
    """A URLItem for a URL that was found."""
    return m.URLItem(ID=id, discovered=m.DiscoveredURLItem(info=info(url, crawl, key, **metadata)))


def known(url: str, date: int = 0, crawl: str = "c", key: str = "", *, id: str = "", **metadata: Any) -> Any:
    """A URLItem for a URL that was fetched."""
    return m.URLItem(ID=id, known=m.KnownURLItem(info=info(url, crawl, key, **metadata), refetchable_from_date=date))


@contextmanager
def serving(jobs: Path, **options: Any) -> Iterator[Client]:
    """Serve jobs in this process, on a socket beside them unless `listen` is given, and yield a client."""
    services = options.pop("services", (service.URLFRONTIER,))
    settings = options.pop("settings", None) or Settings.from_dict({"profile": "served"})
    stop, started = Stop(), threading.Event()
    errors: list[BaseException] = []
    address = options.pop("listen", f"unix:{jobs}.socket")

    def run() -> None:
        try:
            server.serve(
                jobs,
                settings,
                listen=address,
                services=services,
                started=lambda _: started.set(),
                stop=stop,
                **options,
            )
        except BaseException as e:
            errors.append(e)
            started.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert started.wait(PATIENCE)
        if errors:
            raise errors[0]
        with Client(address) as client:
            yield client
    finally:
        stop.ask()
        thread.join(PATIENCE)
        assert not thread.is_alive()


class Process:
    """`budgetfrontier serve` in a process of its own."""

    def __init__(self, jobs: Path, *options: str, listen: str = "", forked: bool = True, **popen: Any) -> None:
        self.jobs = jobs
        self.errors = Path(f"{jobs}.log")
        self.address = listen or f"unix:{jobs}.socket"
        words = ["serve", str(jobs), "--listen", self.address, *options]
        self.popen: subprocess.Popen[bytes] | ForkedProcess
        with self.errors.open("ab") as log:
            if forked and not popen:
                self.popen = ForkedProcess(forked_main, *words, log=log)
            else:
                command = [sys.executable, "-m", "budgetfrontier", *words]
                self.popen = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, **popen)

    def client(self) -> Client:
        """A client, once the server serves."""
        client = Client(self.address)
        try:
            grpc.channel_ready_future(client.channel).result(PATIENCE)
        except grpc.FutureTimeoutError:
            raise AssertionError(self.errors.read_text()) from None
        return client

    def kill(self) -> None:
        """Kill the process, as a failing machine would."""
        self.popen.kill()
        self.popen.wait(PATIENCE)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, wait for the end, and return the exit code."""
        self.popen.send_signal(number)
        return self.popen.wait(PATIENCE)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        if self.popen.poll() is None:
            self.kill()


def command(*words: str | os.PathLike[str]) -> subprocess.CompletedProcess[str]:
    """Run another command of budgetfrontier."""
    with ForkedProcess(forked_main, *map(str, words)) as process:
        out, said = process.communicate()
    return subprocess.CompletedProcess(words, process.wait(), out, said)
