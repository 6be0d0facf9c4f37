"""The precedence floor in a dry run: the queues that a change makes INELIGIBLE, and those that it brings back."""

from __future__ import annotations

from budgetfrontier.core.model import CrawlUri, QueueRecord
from budgetfrontier.rules.queue_states import INELIGIBLE
from budgetfrontier.settings import plugins
from budgetfrontier.settings.overrides import QueueSettings
from budgetfrontier.storage.view import View


class FloorPreview:
    """Tells the queues that are at the precedence floor or beyond, once a change of the settings is in force.

    A policy that is not built in is not asked: as far as it is known, its precedences stay.
    """

    def __init__(self, view: View) -> None:
        frontier = view.settings()[0].frontier
        self._floor = frontier.precedence_floor
        self._policy = None
        if self._floor is not None and plugins.is_builtin("precedence", frontier.precedence_policy):
            self._policy = plugins.resolve("precedence", frontier.precedence_policy)

    def holds(self, queue: QueueRecord, url: str, old: QueueSettings, new: QueueSettings) -> bool:
        """Return whether a queue that waits is INELIGIBLE after a change of its settings. `url` is its next one."""
        if self._floor is None:
            return False
        if self._policy is None:
            return queue.state is INELIGIBLE
        return self._precedence(queue, url, old, new) >= self._floor

    def _precedence(self, queue: QueueRecord, url: str, old: QueueSettings, new: QueueSettings) -> int:
        policy = self._policy
        assert policy is not None
        before, after = (policy(CrawlUri(url), precedence=each.precedence) for each in (old, new))
        of_queue = getattr(policy, "of_queue", None)
        if of_queue is None:
            found = after
        elif getattr(policy, "by_uris", False):  # the part of the URIs that it holds stays
            found = queue.precedence + after - before
        else:
            found = of_queue(queue, after)
        return int(found)
