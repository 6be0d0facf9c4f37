"""At least once, whoever dies: consumers in processes of their own are killed, and so is the owner of the queue."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from budgetfrontier import Frontier, Lease
from budgetfrontier.clock import ManualClock
from budgetfrontier.leasing import LeaseQueue
from tests.support import START, child_process

TTL = 60.0

# Answers with the id of each lease that it is done with; dies over the one that it was told to.
CONSUMER = """
import os, signal, sys

for number, line in enumerate(sys.stdin, 1):
    lease, url = line.split()
    if number == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    print(lease, flush=True)
"""

OWNER = """
import sys
from budgetfrontier.leasing import LeaseQueue

queue = LeaseQueue.open(sys.argv[1])
for number in range(200):
    queue.push(f"https://h{number % 5}.test/{number}")
while lease := queue.lease_request():
    print("done", lease.uri.url, flush=True)
    queue.ack_lease(lease)
    if lease.uri.url.endswith("7"):
        queue.flush()
        print("flushed", flush=True)
"""


class Consumer:
    """A process that is given leases by their ids, one at a time."""

    def __init__(self, dies_over: int = 0) -> None:
        command = [sys.executable, "-c", CONSUMER, str(dies_over)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def consume(self, lease: Lease) -> int | None:
        """The id that it answers with; None: it died over it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(lease.id, lease.uri.url, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        return int(answer) if answer else None

    def end(self) -> int:
        self._process.communicate()
        return self._process.returncode


def test_what_a_killed_consumer_held_goes_to_another() -> None:
    clock = ManualClock(START)
    urls = [f"https://h{number % 3}.test/{number}" for number in range(30)]
    done: Counter[str] = Counter()
    deliveries: dict[str, int] = {}
    with LeaseQueue.open(":memory:", clock=clock) as queue:
        for url in urls:
            queue.push(url)
        consumers = [Consumer(dies_over=4), Consumer(dies_over=1), Consumer()]
        alive = list(consumers)
        while not queue.is_empty() or queue.state().leased:
            lease = queue.lease_request(TTL)
            if lease is None:
                clock.advance(TTL)  # what the dead held is all that is left
                continue
            consumer = alive.pop(0)
            answer = consumer.consume(lease)
            if answer is not None:
                assert queue.ack_lease(answer)
                done[lease.uri.url] += 1
                deliveries[lease.uri.url] = lease.delivery
                alive.append(consumer)
        endings = [consumer.end() for consumer in consumers]
    assert endings == [-signal.SIGKILL, -signal.SIGKILL, 0]
    assert done == Counter(urls)
    assert Counter(deliveries.values()) == {1: 28, 2: 2}


def test_a_killed_owner_loses_nothing_and_repeats_nothing_flushed(tmp_path: Path) -> None:
    done: list[str] = []
    flushed = 0
    with child_process([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        for line in owner.stdout:
            if not line.endswith("\n"):
                break  # cut by the kill
            word, _, url = line.strip().partition(" ")
            if word == "done":
                done.append(url)
            else:
                flushed = len(done)
                if flushed >= 60:
                    owner.kill()
    with LeaseQueue.open(tmp_path) as queue:
        again = []
        while lease := queue.lease_request():
            again.append(lease.uri.url)
            queue.ack_lease(lease)
        assert isinstance(queue.frontier, Frontier)
        queue.frontier.check()
    assert flushed >= 60 and not set(done[:flushed]) & set(again)
    assert len(set(done) | set(again)) == 200
