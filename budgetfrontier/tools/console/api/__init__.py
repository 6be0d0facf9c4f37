"""The API: what the pages show and steer as JSON, below PREFIX. Its table of resources is all that it is made from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec

from budgetfrontier.tools.console.named_tokens import Role
from budgetfrontier.tools.console.query import ROWS

PREFIX = "/api/v1"
JOB = "/jobs/{job}"
"""The beginning of the paths of a job's resources, below PREFIX."""
MOST_ROWS = 1000
"""Rows of one answer, at the most."""

_T = TypeVar("_T")


def described(text: str, **bounds: Any) -> Any:
    """Return the description of a parameter for the document."""
    return msgspec.Meta(description=text, **bounds)


class NoParameters(msgspec.Struct, forbid_unknown_fields=True):
    """The parameters of a resource that has none."""


class LimitParameters(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The parameters of a listing that shows its first rows only."""

    limit: Annotated[int, described("the most rows of the answer", ge=1, le=MOST_ROWS)] = ROWS


class ListingParameters(LimitParameters, forbid_unknown_fields=True, kw_only=True):
    """The parameters of a listing."""

    cursor: Annotated[str, described("the `next` of the answer before, for the rows that follow")] = ""


class Listing(msgspec.Struct, Generic[_T], kw_only=True):
    """Rows, and `next`, the cursor for those that follow: null if these are the last.

    `as_of` is the time of the scan of all queues that their order is from, null if they are as of the last commit.
    `note` is a sentence on rows or figures that are not known or were left out, "" if there are none.
    """

    rows: list[_T]
    next: str | None = None
    as_of: float | None = None
    note: str = ""


class ApiResource(NamedTuple):
    """A resource: a method and a path below PREFIX, with all that routes, checks and the OpenAPI document need.

    `answer` takes the job, or all jobs if the path names none, and the parameters. Of a GET it returns the result, of a
    POST the `SubmittedCommand` that is then given. Of a task, it takes that, and the sentence on what it waits for.
    """

    method: str
    path: str
    summary: str
    parameters: Any
    """The struct of the query of a GET, or of the body of a POST."""
    result: Any
    answer: Callable[[Any, Any], Any]
    role: Role = Role.READ
    """The role that it needs at least."""
    of_partitions: bool = True
    """Whether a crawl in partitions has it."""

    @property
    def name(self) -> str:
        """The name of the resource, the last part of its path."""
        return next(part for part in reversed(self.path.split("/")) if "{" not in part or self.path == JOB).strip("{}")


class ScanPending(Exception):
    """The first scan of all queues has not ended; the message says how far it is."""
