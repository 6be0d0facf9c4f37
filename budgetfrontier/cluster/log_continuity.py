"""The continuity of a log: nothing is applied after entries that are missing, nor from a log that has begun again."""

from __future__ import annotations

from budgetfrontier.cluster.state import PartitionState
from budgetfrontier.errors import FrontierError


class LogGap(FrontierError):
    """Entries of a log are missing: restore a later snapshot of the partition."""


def gap(state: PartitionState, first: int) -> str:
    """Return the message for a log that begins after the position of a partition."""
    return (
        f"{_named(state)}: its copy has the entries before offset {state.position}, and the first that the log still "
        f"has is {first}. Those between are missing, so that nothing was applied. Give `cluster.snapshots` a store "
        f"with a snapshot of this partition at {first} or later, or this worker a folder with such a copy; then let "
        f"the topic {state.crawl}-log keep its entries for longer (retention.ms)"
    )


def begun_again(state: PartitionState, first: int) -> str:
    """Return the message for a log that has used applied offsets again."""
    return (
        f"{_named(state)}: its copy has the entries before offset {state.position}, and the log goes on at {first}: "
        f"the topic {state.crawl}-log was made anew, or has lost its end. Nothing was applied. Bring the topic back, "
        "or begin the crawl under another name; `budgetfrontier export` reads the copy"
    )


def other_log(state: PartitionState, there: str) -> str:
    """Return the message for another log than a partition has applied."""
    return (
        f"{_named(state)}: its copy was made from another log than the topic {state.crawl}-log, which was made anew "
        f"({state.log}, now {there}). Nothing was applied. Bring the topic back, or begin the crawl under another "
        "name; to begin it anew under this one, move the folders of its workers and its snapshots away"
    )


def _named(state: PartitionState) -> str:
    return f"partition {state.partition} of {state.crawl!r}"
