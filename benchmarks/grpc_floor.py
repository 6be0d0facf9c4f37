"""The floor of a gRPC service: `python -m benchmarks.grpc_floor` measures servers that do nothing, in each form.

Figures are per second of the server's processor time, the best of the rounds: a busy machine only makes them worse.
A message of PutURLs or GetURLs carries one URL, one of PutDiscovered carries 256.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from benchmarks import script
from benchmarks.grpc_servers import FORMS, HOSTS, URLS, info
from benchmarks.http2_load import Connection, message
from budgetfrontier.server.urlfrontier.methods import METHODS
from budgetfrontier.server.urlfrontier.urlfrontier_pb2 import DiscoveredBatch, GetParams, URLItem

MESSAGES = 20_000
ROUNDS = 5
IN_FLIGHT = 1000  # messages of a stream without an acknowledgement
AT_ONCE = 32  # messages in one write of the client
BATCH = 256
STREAMS = 4
PUT, DISCOVERED, GET = (METHODS[name].path for name in ("PutURLs", "PutDiscovered", "GetURLs"))


class Server:
    """A server in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.port = int(self._line())

    def used(self) -> float:
        """Return the processor time that it has used, in seconds."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@contextmanager
def serving(form: str) -> Iterator[Server]:
    """Run a server of a form."""
    command = [sys.executable, "-m", "benchmarks.grpc_servers", form]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=script.HERE.parent
    )
    try:
        yield Server(process)
    finally:
        process.kill()
        process.communicate()


def items(count: int, kind: str) -> list[bytes]:
    """Return items of PutURLs, "discovered" or "known"."""
    made = []
    for number in range(count):
        item = URLItem(ID=str(number))
        getattr(item, kind).info.CopyFrom(info(number))
        made.append(message(item.SerializeToString()))
    return made


def batches(numbers: Sequence[int], hosts: int = HOSTS) -> list[bytes]:
    """Return the batches of PutDiscovered for URLs."""
    parts = [numbers[first : first + BATCH] for first in range(0, len(numbers), BATCH)]
    return [
        message(DiscoveredBatch(ID=str(part[0]), items=[info(n, hosts) for n in part]).SerializeToString())
        for part in parts
    ]


def put(port: int, path: str, messages: Sequence[bytes], in_flight: int, at_once: int = AT_ONCE) -> None:
    """Send messages on one stream, and wait for their replies and for its end."""
    connection = Connection(port)
    opened = connection.stream(path)
    connection.exchange(opened, messages, in_flight, at_once)
    connection.end(opened)
    connection.close()


def put_on_streams(port: int, messages: Sequence[bytes]) -> None:
    """Send messages on several streams at the same time, each on a connection of its own."""
    parts = [messages[first::STREAMS] for first in range(STREAMS)]
    streams = [threading.Thread(target=put, args=(port, PUT, part, IN_FLIGHT)) for part in parts]
    for stream in streams:
        stream.start()
    for stream in streams:
        stream.join()


def get_and_finish(port: int, finished: Sequence[bytes]) -> None:
    """Lease URLs by the hundred, and finish them."""
    connection = Connection(port)
    request = message(GetParams(max_queues=URLS, max_urls_per_queue=1, delay_requestable=60).SerializeToString())
    opened = connection.stream(PUT)
    for first in range(0, len(finished), URLS):
        if connection.call(GET, request) != URLS:
            raise ValueError("GetURLs returned another number of URLs")
        connection.exchange(opened, finished[first : first + URLS], IN_FLIGHT, AT_ONCE)
    connection.end(opened)
    connection.close()


def legs(count: int) -> dict[str, Callable[[int], None]]:
    """Return what is measured, by name; each takes a port, and deals with `count` URLs."""
    found, finished, grouped = items(count, "discovered"), items(count, "known"), batches(range(count))
    return {
        "PutURLs": partial(put, path=PUT, messages=found, in_flight=IN_FLIGHT),
        f"PutURLs, {STREAMS} streams": partial(put_on_streams, messages=found),
        "PutURLs, few in flight": partial(put, path=PUT, messages=found, in_flight=URLS, at_once=1),
        f"GetURLs({URLS}) + known": partial(get_and_finish, finished=finished),
        f"PutDiscovered of {BATCH}": partial(put, path=DISCOVERED, messages=grouped, in_flight=16, at_once=1),
    }


def measure(forms: Sequence[str], count: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return URLs per second of the server's processor time, by form and leg."""
    measured = legs(count)
    best: dict[str, dict[str, float]] = {form: dict.fromkeys(measured, 0.0) for form in forms}
    for _ in range(rounds):
        for form in forms:
            with serving(form) as server:
                for leg in measured.values():  # the first round of a process is slower
                    leg(server.port)
                for name, leg in measured.items():
                    before = server.used()
                    leg(server.port)
                    best[form][name] = max(best[form][name], count / (server.used() - before))
    return best


def table(best: dict[str, dict[str, float]]) -> str:
    """Return the figures as a table in Markdown, with the microseconds for each URL."""
    names = list(next(iter(best.values())))
    rows = [f"| server | {' | '.join(names)} |", "| --- |" + " --- |" * len(names)]
    for form, figures in best.items():
        cells = [f"{figures[name]:,.0f} ({1e6 / figures[name]:.1f} µs)" for name in names]
        rows.append(f"| {form} | {' | '.join(cells)} |")
    return "\n".join(rows)


def main() -> None:
    """Measure, and write the results."""
    parser = script.parser("benchmarks.grpc_floor", __doc__, scaled="the messages")
    parser.add_argument("--form", action="append", choices=list(FORMS), help="only these")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = script.parse(parser)
    about = script.describe(options)
    best = measure(options.form or list(FORMS), int(MESSAGES * options.scale), options.rounds)
    record = script.record(about, measured=best)
    script.write(
        "grpc-floor", "gRPC servers that do nothing", [table(best), script.facts(about)], record, options.results
    )


if __name__ == "__main__":
    main()
