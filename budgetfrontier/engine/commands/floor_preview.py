"""The precedence floor in a dry run: the queues that a change makes INELIGIBLE, and those that it brings back."""

from __future__ import annotations

from budgetfrontier.core.model import CrawlUri, QueueRecord
from budgetfrontier.rules.queue_states import INELIGIBLE, WORST_PRECEDENCE
from budgetfrontier.settings import plugins
from budgetfrontier.settings.overrides import QueueSettings
from budgetfrontier.storage import keys
from budgetfrontier.storage.turn_order import lowest_precedence
from budgetfrontier.storage.view import View


class FloorPreview:
    """Tells the queues that are at the precedence floor or beyond, once a change of the settings is in force.

    A policy that is not built in is not asked: as far as it is known, its precedences stay.
    """

    def __init__(self, view: View) -> None:
        frontier = view.settings()[0].frontier
        self._floor = frontier.precedence_floor
        self._policy, self._cursor = None, view.txn.cursor(view.db[keys.PENDING])
        if self._floor is not None and plugins.is_builtin("precedence", frontier.precedence_policy):
            self._policy = plugins.resolve("precedence", frontier.precedence_policy)

    def holds(self, queue: QueueRecord, url: str, settings: QueueSettings) -> bool:
        """Return whether a queue that waits is INELIGIBLE by these settings. `url` is its next one."""
        if self._floor is None:
            return False
        if self._policy is None:
            return queue.state is INELIGIBLE
        return self.precedence(queue, url, settings) >= self._floor

    def precedence(self, queue: QueueRecord, url: str, settings: QueueSettings) -> int:
        """Return the precedence of a queue by these settings, as far as it is known. `url` is its next one."""
        policy = self._policy
        if policy is None:
            return queue.precedence
        found = policy(CrawlUri(url), precedence=settings.precedence)
        if (of_queue := getattr(policy, "of_queue", None)) is not None:
            by_uris = getattr(policy, "by_uris", False)
            found = of_queue(queue, found, *((lowest_precedence(self._cursor, queue.id),) if by_uris else ()))
        return min(int(found), WORST_PRECEDENCE)
