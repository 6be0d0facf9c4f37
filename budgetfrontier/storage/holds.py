"""The causes besides its own budget that hold a queue: a group over its total budget, and quotas that are used up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.settings.overrides import Limits
from budgetfrontier.storage.group_listing import GroupsInTurn, SpentGroup
from budgetfrontier.storage.quota_use import QuotasInForce, QuotaUse
from budgetfrontier.storage.view import View


class Holds(NamedTuple):
    """The causes that hold a queue; each has to be raised before it goes on."""

    group: SpentGroup | None = None
    quotas: Sequence[tuple[QuotaUse, Limits]] = ()
    """The first limit that is reached of each quota of its next URI, with all limits of that quota."""

    def texts(self) -> Iterator[str]:
        """Yield a sentence without its end on each."""
        if self.group is not None:
            yield self.group.text()
        for use, _ in self.quotas:
            yield use.text()


def holds(view: View, queues: Iterable[QueueRecord]) -> Iterator[Holds]:
    """Yield what holds each of some queues that are RETIRED, or will be on their turn."""
    quotas, groups = QuotasInForce(view), GroupsInTurn(view)
    for queue in queues:
        first = next(view.pending(queue, 1), None) if quotas.kinds else None
        used_up = [] if first is None else list(quotas.used_up(first.uri, queue))
        yield Holds(groups.spent(queue), used_up)
