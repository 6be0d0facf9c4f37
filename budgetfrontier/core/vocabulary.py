"""States, outcomes and columns, shared by records, reports and the command line. The names are Heritrix's.

The module imports no dependency: the help of the command line lists these names without loading any.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class QueueState(StrEnum):
    """The state of a queue. READY, IN_PROCESS and SNOOZED queues are *active*."""

    READY = "READY"  # in the ring; its next URI may be leased now
    IN_PROCESS = "IN_PROCESS"  # has leases, and no more may be given
    SNOOZED = "SNOOZED"  # waits for its wake time
    INACTIVE = "INACTIVE"  # has URIs, waits in the FIFO of its precedence
    INELIGIBLE = "INELIGIBLE"  # has URIs, and a precedence at or beyond the floor: waits for no activation
    RETIRED = "RETIRED"  # over budget, or retired by the operator; keeps its URIs
    EXHAUSTED = "EXHAUSTED"  # holds no URI


class CrawlState(StrEnum):
    """The state of a crawl."""

    NEW = "NEW"  # nothing was ever admitted
    RUNNING = "RUNNING"
    PAUSING = "PAUSING"  # paused, with leases not yet finished
    PAUSED = "PAUSED"
    FINISHED = "FINISHED"  # nothing queued, leased or scheduled for later
    TERMINATED = "TERMINATED"  # for good
    UNKNOWN = "UNKNOWN"  # that of a crawl in partitions of which some do not answer; none is stored


class Admission(StrEnum):
    """The result of scheduling a URI."""

    ADDED = "ADDED"
    DUPLICATE = "DUPLICATE"
    INVALID = "INVALID"
    FULL = "FULL"


class Outcome(StrEnum):
    """The outcome of an attempt. It decides the charge, and whether the URI stays queued."""

    SUCCESS = "SUCCESS"  # any response that the fetcher accepts: removed, its cost is charged
    FAILURE = "FAILURE"  # failed for good: removed, its cost and the error penalty are charged
    RETRY = "RETRY"  # keeps its position, its cost is charged; after too many: DEAD
    DEFERRED = "DEFERRED"  # not really tried: keeps its position, nothing is charged
    DISREGARDED = "DISREGARDED"  # robots.txt, scope: removed, nothing is charged
    DEAD = "DEAD"  # moved to the dead letters, its cost is charged


class RunEnd(StrEnum):
    """The end of a run, the time from the opening of a frontier to its closing."""

    EXIT = "EXIT"  # closed by its program
    LIMIT = "LIMIT"  # a limit of the crawl was reached
    SIGNAL = "SIGNAL"
    OPERATOR = "OPERATOR"  # by a command
    DISK_FULL = "DISK_FULL"
    ERROR = "ERROR"
    KILLED = "KILLED"  # no end was stored


class Directive(IntEnum):
    """Heritrix's scheduling directives, the first criterion in the order of a queue."""

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
    "bytes",
    "last_lease_time",
    "backoff",
    "overloaded_until",
)
"""The columns of a queue row in every report, in order."""

LEASE_FIELDS = ("id", "queue", "url", "age", "deliveries", "attempt", "landed", "deadline", "began", "cost", "via")
"""The columns of a lease in every listing, in order."""

AUDITED = (
    "adjust",
    "withdraw",
    "retire",
    "unretire",
    "snooze",
    "wake",
    "set_queue",
    "delete",
    "forget",
    "undo",
    "discard",
    "pause",
    "resume",
    "terminate",
    "schedule",
    "mark_seen",
    "bury",
    "replay",
    "drop",
    "settings",
)
"""The commands that the audit has; `settings` is a change of the configuration."""

SOURCE_KINDS = ("list", "heritrix", "scrapy", "kumo", "qcrawl")
"""The kinds of sources that `import` can read, each by a module of `formats`."""

NOINDEX = "noindex"
"""The annotation in crawl.log of a page that says `noindex`, in a robots meta element or X-Robots-Tag."""
NOFOLLOW = "nofollow"
"""The annotation of a page that says `nofollow`."""
NOT_STORED = "notStored"
"""The annotation of a page that says `noindex`, and is in no other output."""
NO_ROBOTS = "robots.txt unreachable"
"""The beginning of the reason of a dead letter after its robots.txt was given up; the cause of that follows."""
BAD_PORT = "is a port that browsers refuse to open"
"""The words in the reason of a fetch that was refused for its port; of the others, the address was refused."""

AMOUNTS = ("successes", "errors", "urls", "novel", "success_bytes", "error_bytes", "bytes", "novel_bytes")
"""The amounts that a quota may limit, by their names in FetchStats."""
ANSWERS = ("answers_2xx", "answers_3xx", "answers_4xx", "answers_5xx", "unanswered")
"""The totals of attempts by the class of their status; of the last, no answer with a status came."""
QUOTA_KINDS = ("host", "queue", "label")
"""The kinds of quotas, by the names of the settings in `frontier.quotas`."""
OF_GROUP = "group"
"""The kind of the quotas that groups of queues have among their limits."""
QUOTA = "quota"
"""The reason of a URI that is DISREGARDED because a quota is used up."""
