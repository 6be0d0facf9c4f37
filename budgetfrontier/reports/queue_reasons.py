"""The reasons why a queue hands nothing out: those of `explain` after the ones of a URL."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

from budgetfrontier.core.model import CrawlState, CrawlUri, Directive, QueueRecord, QueueState
from budgetfrontier.core.units import counted, format_time, say_duration
from budgetfrontier.core.uris import robots_url
from budgetfrontier.reports.exhausted_reasons import add_deletion, explain_exhausted
from budgetfrontier.reports.explanation import Explanation, Outlook
from budgetfrontier.reports.group_reasons import wait_for_group
from budgetfrontier.reports.queue_past import QueuePast
from budgetfrontier.reports.sources import setting_sources
from budgetfrontier.reports.suggested_commands import (
    group_arguments,
    lifting_precedence,
    named,
    one_more_session,
    raised_quota,
    replenish_amount,
)
from budgetfrontier.rules import crawl_windows
from budgetfrontier.rules.attempts import attempts_told, waits_for_retry
from budgetfrontier.rules.backoff import UNAVAILABLE
from budgetfrontier.rules.budgets import has_completed, is_over_total, total_of
from budgetfrontier.rules.uri_outcomes import ERROR, attempts_after_answer
from budgetfrontier.rules.verdict import GONE, SILENT, are_leases_held
from budgetfrontier.settings import sheets
from budgetfrontier.settings.matching import queue_match
from budgetfrontier.settings.overrides import Limits, QueueSettings
from budgetfrontier.storage.holds import holds
from budgetfrontier.storage.quota_use import QuotaUse

if TYPE_CHECKING:
    from budgetfrontier.storage.reader import Reader
    from budgetfrontier.storage.view import PendingUri


class QueueReasons:
    """Adds the reasons of queues to explanations; `job` is its folder in suggested commands.

    `entry_name` returns the name of an audit entry by its number.
    """

    def __init__(self, reader: Reader, job: str, now: float, entry_name: Callable[[int], object]) -> None:
        self._reader = reader
        self._job = job
        self._now = now
        self._entry_name = entry_name
        self._terminated = reader.summary().state is CrawlState.TERMINATED

    def command(self, name: str, *arguments: str) -> str | None:
        """Return a command on the job; None if the crawl was terminated, which no command helps."""
        return None if self._terminated else shlex.join(("budgetfrontier", name, self._job, *arguments))

    def _of_queue(self, name: str, queue: QueueRecord, *options: str) -> str | None:
        return self.command(name, *options, *named(queue))

    def settings(self, queue: QueueRecord) -> QueueSettings:
        """Return the settings in force for a queue: those of its first URI."""
        return self.settings_of(self._first(queue), queue.queue)

    def settings_of(self, uri: CrawlUri, key: str) -> QueueSettings:
        """Return the settings in force for a URI on a queue."""
        in_force = sheets.effective(self._reader.settings, self._reader.adjustments)
        return in_force.for_uri(uri.url, key, uri.source)

    def _first(self, queue: QueueRecord) -> CrawlUri:
        """Return a queue's first URI, or the URL of the last one added if it is empty."""
        first = self._reader.pending(queue.queue, 1)
        return first[0].uri if first else CrawlUri(queue.last_enqueued or "http://unknown/")

    def explain_settings(self, explanation: Explanation, queue: QueueRecord, uri: CrawlUri | None = None) -> None:
        """Add the settings in force for a URI, or for the first of the queue."""
        uri = uri or self._first(queue)
        with self._reader.view() as view:
            explanation.settings = setting_sources(view, uri.url, queue.queue, uri.source)

    def adjust(
        self,
        queue: QueueRecord,
        *,
        total: int | None = None,
        replenish: int | None = None,
        precedence: int | None = None,
    ) -> str | None:
        """Return the command that gives a queue other budgets or another precedence."""
        arguments = ["--match", queue_match(queue.queue)]
        arguments += [] if total is None else ["--total-budget", str(total)]
        arguments += [] if replenish is None else ["--replenish", str(replenish)]
        arguments += [] if precedence is None else ["--set", f"precedence={precedence}"]
        return self.command("adjust", *arguments)

    def explain_queue(self, explanation: Explanation, queue: QueueRecord) -> None:
        """Add why nothing of a queue is handed out, or what has its turn before."""
        name = f"Queue {queue.queue}"
        match queue.state:
            case QueueState.READY:
                before, _ = self._reader.turns_before(queue)
                explanation.add("ready", f"{name} is READY; queues before it in the ring: {before:,}.")
                self._explain_budgets(explanation, queue)
                self._explain_windows(explanation, queue)
            case QueueState.IN_PROCESS:
                expires = [lease.expires for lease in self._reader.leases() if lease.queue == queue.queue]
                left = f"{say_duration(max(expires) - self._now)} at the most" if expires else ""
                one = queue.out == 1
                left = left and f", {'' if one else 'the last of them '}for {left}"
                landed = f" ({queue.landed} landed)" if queue.landed else ""
                until = f"{left}; no more may go out until {'it' if one else 'one'} is finished"
                if not are_leases_held(self._reader.process()):
                    until = f", with {GONE}"
                out = counted(queue.out, "URI is", "URIs are")
                text = f"{name} is IN_PROCESS: {out} out{landed}{until}."
                explanation.add("in-process", text, verdict=Outlook.LATER)
            case QueueState.SNOOZED:
                self._explain_wait(explanation, queue, f"{name} is SNOOZED")
                self._explain_budgets(explanation, queue)
                self._explain_windows(explanation, queue)
            case QueueState.INACTIVE:
                self._explain_inactive(explanation, queue)
                self._explain_windows(explanation, queue)
            case QueueState.INELIGIBLE:
                self._explain_ineligible(explanation, queue)
            case QueueState.RETIRED:
                self._explain_retired(explanation, queue)
            case QueueState.EXHAUSTED:
                with self._reader.view() as view:
                    explain_exhausted(explanation, view, queue, self._now, self.command, self._entry_name)
                self._explain_wait_then(explanation, queue, "Once it holds one")

    def explain_deletion(self, explanation: Explanation, key: str, url: str, *, since: str) -> bool:
        """Add that a command has deleted a URL from a queue, not before `since` (ISO 8601); return whether it has."""
        with self._reader.view() as view:
            queue = view.find_queue(key)
            found = None if queue is None else QueuePast(view, queue).deletion_of(url)
        if found is None or (found.entry.id and format_time(found.entry.when) < since):
            return False
        add_deletion(explanation, found, "It was", self.command, self._entry_name, otherwise=Outlook.NEVER)
        return True

    def _explain_wait_then(self, explanation: Explanation, queue: QueueRecord, then: str) -> None:
        """Add the wait of a queue that hands nothing out, and keeps its wake time, unless it is politeness alone."""
        if max(queue.block, queue.delayed, min(queue.overloaded_until, queue.wake_time)) > self._now:
            self._explain_wait(explanation, queue, f"{then}, it is SNOOZED")

    def _explain_wait(self, explanation: Explanation, queue: QueueRecord, subject: str) -> None:
        with self._reader.view() as view:
            of_group = wait_for_group(view, queue, self._now)
        if of_group is not None:
            command = self._of_queue("wake", queue) if of_group.for_bytes else None
            text = f"{subject}: {of_group.text}{', which the command would end' if command else ''}."
            explanation.add("group-waits", text, verdict=Outlook.LATER, when=of_group.until, command=command)
            return
        left = queue.wake_time - self._now
        due = "and due: it joins the READY queues at the next lease"
        helps = left > 0 and queue.wake_time > queue.closed_until and self._is_worth_waking(queue)
        command = self._of_queue("wake", queue) if helps else None
        cause = self._cause_of_wait(queue, helps=command is not None)
        wait = f"for {say_duration(left)} more: {cause}" if left > 0 else due
        explanation.add(
            "snoozed",
            f"{subject} {wait}.",
            verdict=Outlook.LATER,
            when=queue.wake_time if left > 0 else None,
            command=command,
        )

    def _windows(self, queue: QueueRecord) -> str:
        return "; ".join(self.settings(queue).windows) or "of before a change of settings"

    def _explain_windows(self, explanation: Explanation, queue: QueueRecord) -> None:
        """Add that a queue will be outside its crawl windows when it has its turn."""
        turn = max(self._now, queue.wake_time)
        opens = crawl_windows.opens_at(self.settings(queue).windows, turn)
        if opens > turn:
            left = say_duration(opens - self._now)
            text = f"In its turn it waits for its crawl windows ({self._windows(queue)}), which open in {left}."
            explanation.add("closed", text, verdict=Outlook.LATER, when=opens)

    def _is_worth_waking(self, queue: QueueRecord) -> bool:
        """Return whether a `wake` changes when the queue is leased from: a crawl must run, or be started before."""
        process = self._reader.process()
        crawls = process.alive or process.server is not None
        return crawls or max(queue.block, queue.delayed, queue.wake_time - SILENT) > self._now

    def _cause_of_wait(self, queue: QueueRecord, *, helps: bool) -> str:
        failure = self._failure_of(queue)
        cut_short = ", which the command would cut short" if helps else ""
        if self._now < queue.wake_time <= queue.closed_until:
            return f"it is outside its crawl windows ({self._windows(queue)}), which `adjust` of guards.windows changes"
        if queue.block < queue.wake_time and self._now < queue.overloaded_until:
            length = f" (back-off: {say_duration(queue.backoff)})" if queue.backoff else ""
            failed = failure and f"; {failure}"
            return f"its host answered 429 or 503 and is left alone{length}{cut_short}{failed}"
        if max(queue.block, queue.delayed) < queue.wake_time <= queue.busy_until:
            return f"what was received takes so long by politeness.max_bandwidth{cut_short}"
        if max(queue.block, queue.delayed) < queue.wake_time <= queue.paced_until:
            seconds = say_duration(queue.paced_until - queue.served)
            return f"it is leased from at most once in {seconds}, its interval{cut_short}"
        if max(queue.block, queue.delayed) < queue.wake_time:
            if failure:
                return f"{failure}{'. The command would end the wait now' if helps else ''}"
            return f"politeness towards its host{cut_short}"
        if queue.block < queue.wake_time:
            failed = failure and f"; {failure}"
            return f"a worker asked for this delay{failed}"
        with self._reader.view() as view:
            past = QueuePast(view, queue)
            if (cause := past.snooze()) is not None:
                return f"{cause.subject()} snoozed it{cause.told()}"
            audit_has = past.audit_has()
        return f"it is blocked, and {audit_has} no `snooze` for that: clients of a service set such blocks"

    def attempts_told_alone(self, pending: PendingUri, queue: QueueRecord, left: float) -> str:
        """Return which attempt of a URI has failed that waits while its queue goes on.

        With `retry.scope: queue`, its host has answered with an error; otherwise, it may have.
        """
        settings = self.settings(queue)
        if pending.uri.directive is Directive.HIGHEST:  # an error of a robots.txt is about its host
            return attempts_told(pending.attempts, settings, left)
        most = attempts_after_answer(ERROR, settings)
        if not settings.retry_uri and pending.attempts < most:
            return attempts_told(pending.attempts, settings, left, status=ERROR)
        text, most = attempts_told(pending.attempts, settings, left), max(most, pending.attempts + 1)
        return text if most > settings.max_retries else f"{text}, or after attempt {most:,} if that gets an error page"

    def _failure_of(self, queue: QueueRecord) -> str:
        """Return the cause, time and number of the last failed attempt, and the attempt that gives up the URI.

        "" if the queue does not wait for its retry.
        """
        first = self._reader.pending(queue.queue, 1)
        if not first:
            return ""
        if not waits_for_retry(queue, first[0].attempts):
            return self._failure_of_robots(queue, first[0].uri.url)
        settings = self.settings(queue)
        ago = say_duration(max(self._now - queue.failed_at, 0.0))
        why = f": {queue.failure}" if queue.failure else ""
        overloaded = self._now < queue.overloaded_until
        status = UNAVAILABLE if overloaded else 0
        attempts = attempts_told(first[0].attempts, settings, max(queue.wake_time - self._now, 0.0), status=status)
        all_wait = settings.retry_uri or overloaded or first[0].uri.directive is Directive.HIGHEST
        others = "" if all_wait else ". With `retry.scope: uri`, the other URIs of the queue would go on"
        return f"{first[0].uri.url} failed {ago} ago{why}. That was {attempts}{others}"

    def _failure_of_robots(self, queue: QueueRecord, url: str) -> str:
        """Return the failure of a robots.txt that a URL waits for, and when it is tried again; "" if it does not wait.

        With `retry.scope: uri` it is set aside, and its pages are put back until it is due.
        """
        robots: PendingUri | None = self._reader.find(robots_url(url))["pending"] if queue.future else None
        if robots is None or robots.when is None or not robots.attempts:
            return ""
        left = max(robots.when - self._now, queue.block - self._now, 0.0)
        ago = say_duration(max(self._now - queue.failed_at, 0.0))
        attempts = attempts_told(robots.attempts, self.settings_of(robots.uri, queue.queue), left)
        why = f": {queue.failure}" if queue.failure else ""
        return (
            f"it waits for {robots.uri.url}, which failed {ago} ago{why}. That was {attempts}; it is tried again in "
            f"{say_duration(left)}"
        )

    def _explain_inactive(self, explanation: Explanation, queue: QueueRecord) -> None:
        before, better = self._reader.turns_before(queue)
        counts = self._reader.summary().queues
        active = counts[QueueState.READY] + counts[QueueState.IN_PROCESS]
        explanation.add(
            "inactive",
            f"Queue {queue.queue} is INACTIVE until no queue is READY and all before it were activated: {before:,} in "
            f"the FIFO of precedence {queue.precedence}, {better:,} of a better precedence. "
            f"READY or IN_PROCESS: {active:,}.",
            verdict=Outlook.LATER,
        )
        if queue.wake_time > self._now:
            self._explain_wait(explanation, queue, "Once activated, it is SNOOZED")
        self._explain_budgets(explanation, queue)

    def _explain_ineligible(self, explanation: Explanation, queue: QueueRecord) -> None:
        frontier = self._reader.settings.frontier
        wanted = lifting_precedence(queue, self._first(queue).url, self.settings(queue).precedence, frontier)
        ways = "before it gets a lower one, as the command does"
        if wanted is None:
            ways = "before it gets a lower one, or precedence_floor is raised in the settings"
        explanation.add(
            "ineligible",
            f"Queue {queue.queue} is INELIGIBLE: its precedence, {queue.precedence}, is not better than "
            f"precedence_floor, {frontier.precedence_floor}. It hands nothing out {ways}.",
            verdict=Outlook.BLOCKED,
            command=None if wanted is None else self.adjust(queue, precedence=wanted),
        )
        self._explain_wait_then(explanation, queue, "Once it is activated")

    def _explain_retired(self, explanation: Explanation, queue: QueueRecord) -> None:
        name, reasons_before = f"Queue {queue.queue}", len(explanation.reasons)
        if queue.by_name:
            with self._reader.view() as view:
                cause = QueuePast(view, queue).retirement()
            told = "an operator retired it"
            if cause is not None:
                told = f"{cause.subject()} retired it{' by name' if cause.is_alone else ''}{cause.told()}"
            explanation.add(
                "retired-by-name",
                f"{name} is RETIRED: {told}.",
                verdict=Outlook.BLOCKED,
                command=self._of_queue("unretire", queue),
            )
        self._explain_budgets(explanation, queue)
        if len(explanation.reasons) == reasons_before:
            explanation.add(
                "retired",
                f"{name} is RETIRED at the request of a worker, not for its budgets.",
                verdict=Outlook.BLOCKED,
                command=self._of_queue("unretire", queue),
            )
        self._explain_wait_then(explanation, queue, "Once it is revived and activated")

    def _explain_budgets(self, explanation: Explanation, queue: QueueRecord) -> None:
        """Add the budgets for which a queue is RETIRED, or will be on its turn."""
        settings, retired = self.settings(queue), queue.state is QueueState.RETIRED
        replenish, total = settings.balance_replenish_amount, total_of(queue, settings)
        session = replenish_amount(replenish, self._reader.settings.frontier.balance_replenish_amount)
        name = f"Queue {queue.queue} is RETIRED"
        subject = name if retired else "It will retire on its turn without a fetch"
        if is_over_total(queue.expenditure, total, settings.reached):
            more = one_more_session(session, total)
            over = name if retired else "It is over budget, and will retire again on its turn without a fetch"
            rule = "as much as" if queue.expenditure == total else "more than"
            explanation.add(
                "over-total-budget" if retired else "over-budget",
                f"{over}: it has spent {queue.expenditure:,}, {rule} its total budget of {total:,}. The command "
                f"raises it to {queue.expenditure + more:,}.",
                verdict=Outlook.BLOCKED,
                command=self.adjust(queue, total=queue.expenditure + more),
            )
        with self._reader.view() as view:
            [held] = holds(view, [queue])
        if (group := held.group) is not None:
            raised = group.expenditure + one_more_session(session, group.total_budget)
            explanation.add(
                "over-group-budget" if retired else "over-budget",
                f"{subject}: its group {group.name} has spent {group.expenditure:,}, and its total budget is "
                f"{group.total_budget:,}{group.cause}. The command raises it to {raised:,}.",
                verdict=Outlook.BLOCKED,
                command=self.command("adjust", *group_arguments(group.name, total_budget=raised)),
            )
        if has_completed(queue):
            explanation.add(
                "completed" if retired else "over-budget",
                f"{subject}: its limit of {queue.max_completed:,} completed URLs is reached, with {queue.completed:,}. "
                "The command takes it away; a crawler has set it (SetCrawlLimit), or `set-queue`.",
                verdict=Outlook.BLOCKED,
                command=self._of_queue("set-queue", queue, "--limit", "0"),
            )
        if replenish <= 0:
            explanation.add(
                "no-replenishment" if retired else "over-budget",
                f"{subject}: its balance_replenish_amount is {replenish}, so that it has nothing to spend.",
                verdict=Outlook.BLOCKED,
                command=self.adjust(queue, replenish=session),
            )
        for use, quota in held.quotas:
            told = subject if settings.force_retire else "Its next URI will be disregarded"
            self.explain_quota(explanation, told, use, quota)

    def explain_quota(self, explanation: Explanation, told: str, use: QuotaUse, quota: Limits) -> None:
        """Add a quota that is used up, after its consequence as `told`."""
        explanation.add(
            "over-quota",
            f"{told}: {use.text()}. The command raises it.",
            verdict=Outlook.BLOCKED,
            command=self.command("adjust", *raised_quota(use, quota)),
        )
