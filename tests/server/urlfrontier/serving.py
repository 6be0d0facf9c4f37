"""A server of all RPCs, with whatever answers them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

import grpc

from budgetfrontier.server.rpc_calls import Handed, MessageTurns
from budgetfrontier.server.urlfrontier.methods import METHODS, SERVICE
from tests.support import PATIENCE


def served(hand_over: Callable[[list[Handed]], None]) -> AbstractContextManager[str]:
    """Serve all RPCs on a free port, and yield the address."""
    return serving_turns(MessageTurns(hand_over))


@contextmanager
def serving_turns(turns: MessageTurns) -> Iterator[str]:
    """Serve all RPCs by turns on a free port, and yield the address."""
    handlers = {name: turns.handler(method) for name, method in METHODS.items()}
    server = grpc.server(ThreadPoolExecutor(1), handlers=[grpc.method_handlers_generic_handler(SERVICE, handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        assert server.stop(None).wait(PATIENCE)
