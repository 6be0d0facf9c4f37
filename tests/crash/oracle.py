"""What a reopened frontier must be: exactly the reference model at one commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from budgetfrontier import Frontier, Reader
from budgetfrontier.core.model import QueueRecord
from tests.crash.workload import Ledger
from tests.stateful.model import IN_PROCESS, INACTIVE, READY, RETIRED, SNOOZED, Queue


def differences(frontier: Frontier, path: Path, model: Ledger) -> list[str]:
    """Where the frontier and the model differ: totals, queues and their money, places and order, every URI."""
    frontier.commit()
    return [
        f"{what}: the frontier says {told!r}, the model {expected!r}"
        for what, told, expected in _compared(frontier, path, model)
        if told != expected
    ]


def _compared(frontier: Frontier, path: Path, model: Ledger) -> Iterator[tuple[str, Any, Any]]:
    summary = dict(frontier.summary())
    for name, value in model.summary().items():
        yield f"total {name}", summary[name], value
    yield "commands in the audit", len(frontier.audit()), model.commands
    for key, queue in model.queues.items():
        record = frontier.queue(key)
        if record is None:
            yield f"queue {key}", None, queue.state
            continue
        for name, told, expected in _queue(record, queue, model.now):
            yield f"queue {key}: {name}", told, expected
    with Reader(path) as reader:
        records = list(reader.queues())
        yield "number of queues", len(records), len(model.queues)
        for state, waiting in ((READY, model.ring), (RETIRED, model.retired), (INACTIVE, model.waiting())):
            yield f"order of what is {state}", _order(records, state), [queue.key for queue in waiting]
        for key, queue in model.queues.items():
            pending = [(p.uri.url, p.cost, p.attempts, p.deliveries, p.leased) for p in reader.pending(key)]
            yield (
                f"pending in {key}",
                pending,
                [(u.url, u.cost, u.retries, u.deliveries, u.out) for u in model.in_order(queue)],
            )
        yield (
            "scheduled for later",
            sorted((p.when or 0.0, p.queue, p.uri.url, p.cost, p.attempts) for p in reader.future()),
            sorted((due, uri.queue, uri.url, uri.cost, uri.retries) for due, uri in model.future),
        )
        yield "dead letters", [letter.uri.url for letter in reader.dead_letters()], [uri.url for uri in model.dead]
        yield (
            "leases",
            [(lease.uri.url, lease.delivery, lease.expires, lease.landed) for lease in reader.leases()],
            [
                (lease.uri.url, lease.delivery, lease.expires, lease.uri.landed)
                for _, lease in sorted(model.leases.items())
            ],
        )


def _queue(record: QueueRecord, queue: Queue, now: float) -> Iterator[tuple[str, Any, Any]]:
    yield "state", str(record.state), queue.state
    yield "queued", record.queued, len(queue.uris)
    yield "out", record.out, len(queue.out)
    yield "landed", record.landed, len([uri for uri in queue.out if uri.landed])
    yield "expenditure", record.expenditure, queue.spent
    yield "penalties", record.penalties, queue.penalties
    yield "charges", record.charges, queue.charges
    yield "errors", record.errors, queue.errors
    yield "wake time", max(record.wake_time, now), max(queue.wake, now)
    yield "retired by name", record.by_name, queue.by_name
    if queue.uris:
        yield "precedence", record.precedence, queue.precedence
        yield "total budget", record.total_budget, queue.total
    if queue.state in (READY, IN_PROCESS, SNOOZED):
        yield "balance", record.balance, queue.balance


def _order(records: list[QueueRecord], state: str) -> list[str]:
    """The queues of a state in the order in which they wait."""
    found = [record for record in records if str(record.state) == state]
    by_precedence = state == INACTIVE
    return [r.queue for r in sorted(found, key=lambda r: (r.precedence if by_precedence else 0, r.position))]
