"""The protocol of `budgetfrontier.remote` with `budgetfrontier serve`: RPCs of gRPC with bodies in MessagePack.

The body of an RPC is a `Call`, its reply a value of the type that its `Method` names. Arrays may have more fields at
the end than a reader knows, which it ignores, and fewer, which then have their defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from budgetfrontier import errors
from budgetfrontier.core.converters import plain
from budgetfrontier.core.model import (
    Admission,
    CrawlState,
    CrawlUri,
    DeadLetter,
    Lease,
    Outcome,
    QueueRecord,
    Summary,
    Tally,
)

SERVICE: Final = "budgetfrontier.Frontier"
VERSION: Final = 1
"""The version of the protocol; a server refuses clients of another."""
MOST_BYTES: Final = 8 << 20
"""Bytes of URIs in one call, and of leases in one reply."""
MOST_ITEMS: Final = 5000
"""URIs, leases or finishes in one call, so that no call keeps the others waiting for long."""
LONGEST_WAIT: Final = 20.0
"""Seconds for which one call waits for URIs: a client that waits longer calls again."""
RETRY_FOR: Final = 30.0
"""Seconds for which clients repeat calls after a lost connection, by default."""
ERROR: Final = "bf-error"
"""The name of the trailing metadata with the class of the error that has ended a call."""
TOKEN: Final = "authorization"

_T = TypeVar("_T")

encode: Final = msgspec.msgpack.Encoder(enc_hook=plain).encode

Uri = str | CrawlUri | None
"""A URI as it is sent; None stands for a value that is no URI."""


class Call(msgspec.Struct, array_like=True, gc=False):
    """The body of every RPC.

    The server remembers its replies to a session by `number` until they are among `received`: a call that is repeated
    after a lost connection is answered again, and not applied again. It applies a call after the call with the number
    `after`. A `number` of 0 is not remembered; 0 for `after` means none. The replies to calls that the client has
    `abandoned` are forgotten, too, and leases in them given back.
    """

    crawl: str
    session: bytes
    number: int
    received: list[int]
    after: int
    arguments: msgspec.Raw
    abandoned: list[int] = []


class Connect(msgspec.Struct, array_like=True):
    """The first exchange; it opens the crawl, or creates it."""

    version: int


class Connected(msgspec.Struct, array_like=True):
    """The answer to `Connect`: the folder of the frontier on the server, and its settings (`Settings`)."""

    version: int
    folder: str
    settings: msgspec.Raw


class Uris(msgspec.Struct, array_like=True):
    """A batch of URIs; `charge` is for `MarkSeen`, `maxsize` and `again` are for `AdmitMany` and `AdmitEach`.

    `brought` is for `ScheduleMany`: they come from outside of the crawl, as in an import, so that none counts as found.
    """

    uris: list[Uri]
    charge: bool = False
    maxsize: int = 0
    again: bool = False
    brought: bool = False


class Admitted(msgspec.Struct, array_like=True):
    """The results for URIs, and by position the messages of failed policies, which have refused their URIs."""

    results: list[Admission]
    failures: dict[int, str] = {}


class Wanted(msgspec.Struct, array_like=True):
    """A request for leases, for which the server waits up to `wait` seconds."""

    count: int
    ttl: float | None = None
    wait: float = 0.0


class Ended(msgspec.Struct, array_like=True):
    """The end of a lease with all that `Frontier.finish` takes."""

    id: int
    outcome: Outcome = Outcome.SUCCESS
    fetch_seconds: float | None = None
    crawl_delay: float | None = None
    discovered: list[Uri] = []
    reason: str = ""
    delay: float | None = None
    retire_queue: bool = False
    size: int = 0
    status: int = 0
    novel: bool | None = None
    address: str = ""
    digest: bytes = b""


class Exchange(msgspec.Struct, array_like=True):
    """Ends of leases, and a request for more, which does not wait."""

    ended: list[int | Ended]
    wanted: Wanted


class Exchanged(msgspec.Struct, array_like=True):
    """The positions of leases that had ended, and the new leases."""

    late: list[int]
    leases: list[Lease]


class Renewal(msgspec.Struct, array_like=True):
    """Leases that are to have a new deadline, by id."""

    leases: list[int]
    ttl: float | None = None


class Renewed(msgspec.Struct, array_like=True):
    """The new deadline, and the positions of leases that had ended."""

    expires: float
    late: list[int]


class Landing(msgspec.Struct, array_like=True):
    """A download that is over: the arguments of `Frontier.landed`, the lease by its id."""

    lease: int
    fetch_seconds: float | None = None
    crawl_delay: float | None = None


class Budget(msgspec.Struct, array_like=True):
    """The total budget that crawlers ask for the queue of a URI, which its normalized URL and `queue` name."""

    url: str
    queue: str | None
    total: int


class MethodCall(msgspec.Struct, array_like=True):
    """A call of a method of Frontier by its name, one of PLAIN."""

    name: str
    positional: list[Any] = []
    named: dict[str, Any] = {}


class Method(NamedTuple):
    """An RPC: its name, and the types of its arguments and its reply."""

    name: str
    arguments: Any
    reply: Any
    changes: bool = True
    """Whether it changes the frontier, so that it is answered after a commit, and remembered."""
    streams_requests: bool = False
    """Never; for a server that has other services, too."""

    @property
    def path(self) -> str:
        """The path of the RPC in HTTP/2."""
        return f"/{SERVICE}/{self.name}"


CONNECT: Final = Method("Connect", Connect, Connected, changes=False)
SCHEDULE_MANY: Final = Method("ScheduleMany", Uris, Tally)
SCHEDULE_EACH: Final = Method("ScheduleEach", Uris, list[Admission])
MARK_SEEN: Final = Method("MarkSeen", Uris, Tally)
ADMIT_MANY: Final = Method("AdmitMany", Uris, Tally)
ADMIT_EACH: Final = Method("AdmitEach", Uris, Admitted)
"""As `ScheduleMany` and `ScheduleEach`, but while fewer than `maxsize` are queued, as `room` does it."""
LEASE: Final = Method("Lease", Wanted, list[Lease])
FINISH_MANY: Final = Method("FinishMany", list[int | Ended], list[int])
"""A bare id is the lease of a success; the reply has the positions of leases that had ended."""
EXCHANGE: Final = Method("Exchange", Exchange, Exchanged)
RENEW: Final = Method("Renew", Renewal, Renewed)
GIVE_BACK: Final = Method("GiveBack", list[int], list[int])
LANDED: Final = Method("Landed", list[Landing], list[int])
"""The reply has the positions of leases that had ended."""
SET_BUDGETS: Final = Method("SetBudgets", list[Budget], None)
"""As `regulate`; a URI that has no queue, or none yet, changes nothing."""
LEAVE: Final = Method("Leave", list[int], None)
"""The end of a session: its leases, and those in replies that it has not received, are given back."""
LOOK: Final = Method("Look", MethodCall, Any, changes=False)
STEER: Final = Method("Steer", MethodCall, Any)

METHODS: Final = (
    CONNECT, SCHEDULE_MANY, SCHEDULE_EACH, MARK_SEEN, ADMIT_MANY, ADMIT_EACH, LEASE, FINISH_MANY, EXCHANGE, RENEW,
    GIVE_BACK, LANDED, SET_BUDGETS, LEAVE, LOOK, STEER,
)  # fmt: skip


class Plain(NamedTuple):
    """A method of Frontier or of its internals that `Look` or `Steer` calls with plain data, and its type of result."""

    reply: Any
    method: Method = STEER
    is_property: bool = False
    is_internal: bool = False


PLAIN: Final[dict[str, Plain]] = {
    "summary": Plain(Summary, LOOK),
    "state": Plain(CrawlState, LOOK, is_property=True),
    "waiting": Plain(int, LOOK),
    "queue": Plain(QueueRecord | None, LOOK),
    "queue_key": Plain(str, LOOK, is_internal=True),
    "rest": Plain(float, LOOK, is_internal=True),
    "adjustments": Plain(list[dict[str, Any]], LOOK, is_property=True),
    "next_ready_in": Plain(float | None, LOOK),
    "dead_letters": Plain(list[DeadLetter], LOOK),
    "standings": Plain(Any, LOOK),
    "inspect": Plain(Any, LOOK),
    "give_command": Plain(None),
    "pause": Plain(CrawlState),
    "resume": Plain(CrawlState),
    "terminate": Plain(CrawlState),
    "adjust": Plain(dict[str, Any]),
    "retire": Plain(bool),
    "unretire": Plain(bool),
    "snooze": Plain(bool),
    "wake": Plain(bool),
    "set_queue": Plain(bool),
    "regulate": Plain(bool, is_internal=True),
    "reset_queue": Plain(bool, is_internal=True),
    "delete": Plain(int),
    "replay": Plain(int),
    "drop_dead_letters": Plain(int),
}

ERRORS: Final[dict[str, type[Exception]]] = {
    name: value
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.FrontierError)
} | {error.__name__: error for error in (ValueError, TypeError)}
"""The errors of the engine by the names that are sent."""


def decoder(kind: type[_T] | Any) -> Callable[[bytes | msgspec.Raw], _T]:
    """Return a decoder of one type, which raises msgspec.DecodeError."""
    return msgspec.msgpack.Decoder(kind).decode
