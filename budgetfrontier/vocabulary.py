"""The states, outcomes and columns that records, reports and the command line share. Names are Heritrix's.

It imports no dependency, so that the help of the command line, which lists them, loads none.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class QueueState(StrEnum):
    """Where a queue stands. READY, IN_PROCESS and SNOOZED queues are *active*."""

    READY = "READY"  # in the ring; may hand out its next URI now
    IN_PROCESS = "IN_PROCESS"  # leases are out, and nothing more may go out
    SNOOZED = "SNOOZED"  # waits for its wake time
    INACTIVE = "INACTIVE"  # holds URIs, waits in the FIFO of its precedence
    RETIRED = "RETIRED"  # over budget, or retired by the operator; keeps its URIs
    EXHAUSTED = "EXHAUSTED"  # holds no URI


class CrawlState(StrEnum):
    """Where the crawl stands."""

    NEW = "NEW"  # nothing was ever admitted
    RUNNING = "RUNNING"
    PAUSING = "PAUSING"  # paused, with leases still out
    PAUSED = "PAUSED"
    FINISHED = "FINISHED"  # nothing queued, leased or scheduled for later
    TERMINATED = "TERMINATED"  # for good


class Admission(StrEnum):
    """What became of a URI that was given to `schedule`."""

    ADDED = "ADDED"
    DUPLICATE = "DUPLICATE"
    INVALID = "INVALID"
    FULL = "FULL"


class Outcome(StrEnum):
    """How an attempt ended; it decides what is charged and whether the URI stays."""

    SUCCESS = "SUCCESS"  # any answer that the fetcher accepts: removed, its cost
    FAILURE = "FAILURE"  # given up: removed, its cost and the error penalty
    RETRY = "RETRY"  # keeps its place, its cost; once too often: DEAD
    DEFERRED = "DEFERRED"  # not really tried: keeps its place, free
    DISREGARDED = "DISREGARDED"  # robots, scope: removed, free
    DEAD = "DEAD"  # to the dead letters, its cost


class Directive(IntEnum):
    """Heritrix's scheduling directives: the first part of the order within a queue."""

    HIGHEST = 0  # prerequisites
    HIGH = 1
    MEDIUM = 2  # seeds
    NORMAL = 3


ROW_FIELDS = (
    "queue",
    "state",
    "precedence",
    "queued",
    "enqueued",
    "balance",
    "balance_replenish_amount",
    "total_budget",
    "expenditure",
    "last_cost",
    "average_cost",
    "wake_time",
    "errors",
    "last_enqueued",
    "last_leased",
)
"""The columns of a queue row in every report, in order."""
