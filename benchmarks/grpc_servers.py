"""Servers that speak URLFrontier's messages and do nothing, one in each form that grpcio has.

`python -m benchmarks.grpc_servers FORM` prints its port, and for each line of its input the processor time that it has
used, in seconds.
"""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from budgetfrontier.server.rpc_calls import Handed, MessageTurns, RpcCall
from budgetfrontier.server.urlfrontier.methods import METHODS, SERVICE
from budgetfrontier.server.urlfrontier.urlfrontier_pb2 import (
    AckMessage,
    BatchAck,
    DiscoveredBatch,
    GetParams,
    URLInfo,
    URLItem,
)

URLS = 100  # that GetURLs returns
HOSTS = 1000


def info(number: int, hosts: int = HOSTS) -> URLInfo:
    """Return a URL as clients of URLFrontier send it."""
    host = f"www.host{number % hosts}.example.org"
    made = URLInfo(url=f"https://{host}/section/{number}/a-page-of-some-length.html", key=host, crawlID="crawl")
    made.metadata["depth"].values.append("3")
    return made


def acknowledged(item: URLItem) -> AckMessage:
    """Answer an item of PutURLs."""
    return AckMessage(ID=item.ID, status=AckMessage.OK)


def stored(batch: DiscoveredBatch) -> BatchAck:
    """Answer a batch of PutDiscovered."""
    return BatchAck(ID=batch.ID, statuses=[AckMessage.OK for _ in batch.items])


def leased(params: GetParams) -> list[URLInfo]:
    """Answer GetURLs."""
    return [info(number) for number in range(params.max_queues)]


def answer(name: str, request: bytes) -> Iterable[bytes]:
    """Return the replies to a request of an RPC, all as bytes."""
    if name == "PutURLs":
        return (acknowledged(URLItem.FromString(request)).SerializeToString(),)
    if name == "PutDiscovered":
        return (stored(DiscoveredBatch.FromString(request)).SerializeToString(),)
    return [reply.SerializeToString() for reply in leased(GetParams.FromString(request))]


def with_messages(stream: Callable[..., Any], single: Callable[..., Any]) -> grpc.GenericRpcHandler:
    """Return gRPC's usual handlers: `stream` and `single` make them of the functions above."""
    functions: dict[str, Callable[[Any], Any]] = {"PutURLs": acknowledged, "PutDiscovered": stored}
    handlers = {
        name: grpc.stream_stream_rpc_method_handler(
            stream(function), METHODS[name].request.FromString, METHODS[name].reply.SerializeToString
        )
        for name, function in functions.items()
    }
    handlers["GetURLs"] = grpc.unary_stream_rpc_method_handler(
        single(leased), GetParams.FromString, URLInfo.SerializeToString
    )
    return grpc.method_handlers_generic_handler(SERVICE, handlers)


def threads() -> int:
    """Start `grpc.server`, with a thread for each call; return the port."""

    def stream(function: Callable[[Any], Any]) -> Callable[..., Iterator[Any]]:
        return lambda requests, context: map(function, requests)

    def single(function: Callable[[Any], Any]) -> Callable[..., Iterator[Any]]:
        return lambda request, context: iter(function(request))

    return _started(with_messages(stream, single))


def asyncio_tasks() -> int:
    """Start `grpc.aio.server`, with a task for each call, on a thread of its own; return the port."""

    def stream(function: Callable[[Any], Any]) -> Callable[..., AsyncIterator[Any]]:
        async def replies(requests: AsyncIterator[Any], _: object) -> AsyncIterator[Any]:
            async for request in requests:
                yield function(request)

        return replies

    def single(function: Callable[[Any], Any]) -> Callable[..., AsyncIterator[Any]]:
        async def replies(request: Any, _: object) -> AsyncIterator[Any]:
            for reply in function(request):
                yield reply

        return replies

    return _serve_with_asyncio(with_messages(stream, single))


def asyncio_bytes() -> int:
    """Start `grpc.aio.server` with `read` and `write`, of bytes; return the port."""

    def handler(name: str) -> Callable[..., Any]:
        async def handle(_: object, context: Any) -> None:
            while (request := await context.read()) is not grpc.aio.EOF:
                for reply in answer(name, request):
                    await context.write(reply)

        return handle

    handlers = {name: grpc.stream_stream_rpc_method_handler(handler(name)) for name in METHODS}
    return _serve_with_asyncio(grpc.method_handlers_generic_handler(SERVICE, handlers))


def calls() -> int:
    """Start `grpc.server` with our calls, answered on its own thread; return the port."""
    return _started(_ours(MessageTurns(_answer_turn)))


def calls_with_engine() -> int:
    """Start `grpc.server` with our calls, answered on another thread, as an engine would; return the port."""
    turns: queue.SimpleQueue[list[Handed]] = queue.SimpleQueue()

    def work() -> None:
        while True:
            _answer_turn(turns.get())

    threading.Thread(target=work, daemon=True).start()
    return _started(_ours(MessageTurns(turns.put)))


FORMS = {
    "grpc.aio": asyncio_tasks,
    "grpc.aio, bytes": asyncio_bytes,
    "grpc.server": threads,
    "our calls": calls,
    "our calls, engine's thread": calls_with_engine,
}
"""The forms of a server, by name; each starts one, and returns its port."""


def _answer_turn(turn: list[Handed]) -> None:
    replies: dict[RpcCall, list[bytes]] = {}
    for call, request in turn:
        if request is not None:
            replies.setdefault(call, []).extend(answer(call.method.name, request))
    for call, messages in replies.items():
        call.reply(messages, last=not call.method.streams_requests)


def _ours(turns: MessageTurns) -> grpc.GenericRpcHandler:
    handlers = {name: turns.handler(method) for name, method in METHODS.items()}
    return grpc.method_handlers_generic_handler(SERVICE, handlers)


def _started(handler: grpc.GenericRpcHandler) -> int:
    server = grpc.server(ThreadPoolExecutor(16), handlers=[handler])
    port: int = server.add_insecure_port("127.0.0.1:0")
    server.start()
    _KEPT.append(server)
    return port


def _serve_with_asyncio(handler: grpc.GenericRpcHandler) -> int:
    ports: queue.SimpleQueue[int] = queue.SimpleQueue()

    async def serve() -> None:
        server = grpc.aio.server(handlers=[handler])
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        ports.put(port)
        await server.wait_for_termination()

    threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()
    return ports.get()


_KEPT: list[object] = []  # a server stops when it is collected


def main() -> None:
    """Serve until the input ends."""
    print(FORMS[sys.argv[1]](), flush=True)
    for _ in sys.stdin:
        print(time.process_time(), flush=True)


if __name__ == "__main__":
    main()
