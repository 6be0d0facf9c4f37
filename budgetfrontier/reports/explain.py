"""Explanation why a URL or a queue is not being crawled, and when it would be.

It is a chain of reasons, from the URL to its queue to the crawl, each with the command that would remove it.
"""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlState, CrawlUri, DeadLetter, Directive, KeptUrl, QueueRecord, QueueState
from budgetfrontier.core.units import counted, say_duration
from budgetfrontier.core.uris import robots_url
from budgetfrontier.core.vocabulary import NO_ROBOTS
from budgetfrontier.reports import near_queues
from budgetfrontier.reports.explanation import Explanation, Outlook, RefusalOf, ScopeOf
from budgetfrontier.reports.group_reasons import wait_for_group
from budgetfrontier.reports.log_tables import REFUSED
from budgetfrontier.reports.sources import setting_sources
from budgetfrontier.reports.suggested_commands import (
    group_arguments,
    lifting_precedence,
    named,
    one_more_session,
    raised_quota,
    replenish_amount,
)
from budgetfrontier.reports.url_past import UNLESS_ALLOWED, Past, PastOf, tell
from budgetfrontier.rules import crawl_windows
from budgetfrontier.rules.attempts import attempts_told, waits_for_retry
from budgetfrontier.rules.backoff import UNAVAILABLE
from budgetfrontier.rules.budgets import has_completed, is_over_total, total_of
from budgetfrontier.rules.crawl_states import FINISH, is_paused_for_disk
from budgetfrontier.rules.uri_outcomes import ERROR, attempts_after_answer
from budgetfrontier.rules.verdict import (
    SILENT,
    closed_sentence,
    has_failed_policy,
    is_hung,
    opener,
    pause_sentence,
    process_line,
    raise_first,
    rest_sentence,
    verdict,
    ways_on,
)
from budgetfrontier.settings import sheets
from budgetfrontier.settings.overrides import Limits, QueueSettings
from budgetfrontier.storage.holds import holds
from budgetfrontier.storage.quota_use import QuotasInForce, QuotaUse
from budgetfrontier.storage.start_command import AGAIN, start_command

if TYPE_CHECKING:
    from budgetfrontier.storage.reader import Reader
    from budgetfrontier.storage.records import AuditEntry
    from budgetfrontier.storage.view import PendingUri


def explain(
    reader: Reader,
    target: str,
    *,
    job: str,
    now: float | None = None,
    scope: ScopeOf | None = None,
    past: PastOf | None = None,
    refusal: RefusalOf | None = None,
    anywhere: bool = False,
) -> Explanation:
    """Explain why `target`, a queue key or else a URL, is not being crawled.

    `job` is the folder for the suggested commands; `scope` returns the decision of the crawl's scope, `past` the log's
    records of a URL that is not pending, `refusal` the reason not to fetch a URL. Cost: a pass over the queues with
    earlier turns, and for a URL the cost of `Reader.find`, in all queues (`anywhere`) or in its host's.
    """
    now = time.time() if now is None else now
    return _Explainer(reader, job, now, scope, past, refusal, anywhere).explain(target)


class _Explainer:
    def __init__(
        self,
        reader: Reader,
        job: str,
        now: float,
        scope: ScopeOf | None,
        past: PastOf | None,
        refusal: RefusalOf | None,
        anywhere: bool,
    ) -> None:
        self._reader = reader
        self._job = job
        self._now = now
        self._scope = scope
        self._past = past
        self._refusal = refusal
        self._anywhere = anywhere
        self._terminated = reader.summary().state is CrawlState.TERMINATED

    def explain(self, target: str) -> Explanation:
        queue = self._reader.queue(target) or self._meant(target)
        if queue is not None:
            explanation = Explanation(target, "queue", queue.queue)
            self._explain_settings(explanation, queue)
            self._explain_queue(explanation, queue)
            self._explain_crawl(explanation)
            return explanation
        explanation = Explanation(target, "url")
        self._explain_url(explanation)
        return explanation

    def _meant(self, target: str) -> QueueRecord | None:
        """Return the queue of a host that is written in another way than its key; of a URL, the URL is explained."""
        if "://" in target:
            return None
        with self._reader.view() as view:
            key = near_queues.meant(view, target)
        return None if key is None else self._reader.queue(key)

    def _command(self, name: str, *arguments: str) -> str | None:
        """Return a command on the job; None if the crawl was terminated, which no command helps."""
        return None if self._terminated else shlex.join(("budgetfrontier", name, self._job, *arguments))

    def _of_queue(self, name: str, queue: QueueRecord, *options: str) -> str | None:
        return self._command(name, *options, *named(queue))

    # -- the URL

    def _explain_url(self, explanation: Explanation) -> None:
        found = self._reader.find(explanation.target, anywhere=self._anywhere)
        if not found["valid"]:
            end = "."
            if "://" not in explanation.target:
                with self._reader.view() as view:
                    near = near_queues.did_you_mean(view, explanation.target)
                end = f", and there is no queue of this name{near or '.'}"
            explanation.add(
                "invalid", f"It is no URL that can be crawled ({found['reason']}){end}", verdict=Outlook.NEVER
            )
            return
        explanation.queue = found["queue"]
        pending: PendingUri | None = found["pending"]
        queue = None if pending is None else self._reader.queue(pending.queue)
        self._explain_scope(explanation, found)
        refused = self._explain_refusal(explanation, found)
        if pending is None or queue is None:
            self._explain_gone(explanation, found, refused=refused)
            return
        if pending.when is not None:
            left = pending.when - self._now
            wait = f"in {say_duration(left)}" if left > 0 else "with the next lease: it is due"
            why = ""
            if pending.attempts:
                failure = self._attempts_told_alone(pending, queue, max(left, 0.0))
                why = f" Its last attempt failed: {failure}."
                why += f" The last failure in its queue: {queue.failure}." if queue.failure else ""
            explanation.add(
                "future",
                f"It is scheduled for later: it comes to queue {queue.queue} {wait}.{why}",
                verdict=Outlook.LATER,
                when=pending.when,
            )
        elif pending.leased:
            return self._explain_lease(explanation, pending)
        else:
            explanation.add(
                "queued",
                f"It is queued in {queue.queue}. URIs before it: {pending.place:,}; its cost: {pending.cost}; "
                f"attempts so far: {pending.attempts}.",
                verdict=Outlook.LATER if pending.place else Outlook.NOW,
            )
            self._explain_budget_ahead(explanation, queue, pending)
        self._explain_settings(explanation, queue, pending.uri)
        self._explain_queue(explanation, queue)
        self._explain_crawl(explanation)

    def _explain_scope(self, explanation: Explanation, found: dict[str, Any]) -> None:
        """Add the decision of the scope, which a crawl also asks before the fetch of a pending URI."""
        pending = found["pending"]
        record = pending or found["dead"]
        decision = self._scope and self._scope(found["url"], record and record.uri)
        if not decision:
            return
        explanation.scope = {"accepted": decision.accepted, "rule": decision.rule}
        if decision.accepted is not False:
            explanation.add("in-scope" if decision.accepted else "scope-unknown", f"Scope: {decision.text}.")
            return
        text = f"{decision.text[0].upper()}{decision.text[1:]}."
        if pending and not pending.leased:
            explanation.add(
                "out-of-scope", f"{text} It will be disregarded when its turn comes.", verdict=Outlook.NEVER
            )
        else:
            explanation.add("out-of-scope", text)

    def _explain_refusal(self, explanation: Explanation, found: dict[str, Any]) -> bool:
        """Add that the crawl would not fetch a URL that waits or is not known; return whether that is so.

        Without a scope, a program crawls, which has rules of its own.
        """
        if explanation.scope is None or self._refusal is None or (why := self._refusal(found["url"])) is None:
            return False
        if found["pending"] or found["dead"] or not found["seen"]:
            explanation.add("refused", f"The crawl does not fetch it: {why}.", verdict=Outlook.NEVER)
        return True

    def _explain_lease(self, explanation: Explanation, pending: PendingUri) -> None:
        expires = [lease.expires for lease in self._reader.leases() if lease.uri.url == pending.uri.url]
        left = f" for {say_duration(max(expires) - self._now)} more at the most" if expires else ""
        explanation.add("leased", f"It is being crawled: a worker has it{left}.", verdict=Outlook.LEASED)

    def _explain_gone(self, explanation: Explanation, found: dict[str, Any], *, refused: bool) -> None:
        """Add why a URL is not pending: it is dead, done, or was never scheduled; or that it waits elsewhere."""
        url, letter, kept = found["url"], found["dead"], found["kept"]
        if kept is not None and kept.due is not None:
            explanation.add(
                "waits-elsewhere",
                "It waits, and where is not known: it was scheduled more than once, and the URI that came last has "
                "ended or was deleted.",
                verdict=Outlook.LATER,
            )
            return
        if letter is not None:
            explanation.queue = letter.queue
            self._explain_letter(explanation, letter, refused=refused)
            return
        past = self._past(url) if self._past else None  # forced URIs are not recorded as seen
        if found["seen"] or (past and past.attempts):
            explanation.past = past.to_dict() if past else None
            if kept is not None and not (past and past.attempts):
                return self._explain_completed(explanation, kept)
            denials = self._reader.summary().quota_denials > 0
            settings = self._settings_of(CrawlUri(url), found["queue"])
            fate = tell(past, settings, searched=self._past is not None, denials=denials)
            quotas = self._quotas_against(CrawlUri(url), found["queue"])
            explanation.add(
                fate.code,
                fate.text,
                verdict=Outlook.NEVER,
                command=self._command("import", "--force", url) if fate.again and not (refused or quotas) else None,
            )
            for use, quota in quotas:
                self._explain_quota(explanation, "It would be disregarded if it were scheduled again", use, quota)
            if past:
                self._explain_redirect(explanation, url, past)
            return
        if found["doubt"]:
            explanation.add(
                "seen-unknown",
                f"It is not pending. Whether it was seen is not known, and no log names it: {found['doubt']}.",
                verdict=Outlook.BLOCKED,
                command=None if refused else self._command("import", url),
            )
            return
        skipped = ""
        if self._reader.settings.links.nofollow == "skip" and explanation.scope:
            skipped = " (links of pages that say nofollow are skipped, see `links.nofollow`)"
        kept_out = "" if explanation.scope and explanation.scope["accepted"] else "the scope kept it out, "
        explanation.add(
            "never-scheduled",
            f"It was never scheduled: no page that was fetched links or redirects to it{skipped}, {kept_out}or the "
            "frontier or its queue was full.",
            verdict=Outlook.BLOCKED,
            command=None if refused else self._command("import", url),
        )

    def _quotas_against(self, uri: CrawlUri, key: str) -> list[tuple[QuotaUse, Limits]]:
        """Return the quotas for which a URI without a label would be disregarded if it were scheduled."""
        queue = self._reader.queue(key)
        if queue is None or self._settings_of(uri, key).force_retire:
            return []
        with self._reader.view() as view:
            return list(QuotasInForce(view).used_up(uri, queue))

    def _explain_letter(self, explanation: Explanation, letter: DeadLetter, *, refused: bool) -> None:
        """Add that a URL is a dead letter, and its replay, unless that would end as before."""
        text = f"It is a dead letter: {letter.reason} (attempts {letter.attempts}, lost {letter.deliveries})."
        if not self._reader.settings.fetch.allow_private and f"({REFUSED})" in letter.reason:
            text += f" A replay would end in the same way, {UNLESS_ALLOWED}: the host has a private address."
            refused = True
        replay = self._command("dead-letters", "--replay", *self._letters_to_replay(letter))
        explanation.add(
            "dead-letter",
            text,
            verdict=Outlook.NEVER if refused else Outlook.BLOCKED,
            command=None if refused else replay,
        )

    def _explain_redirect(self, explanation: Explanation, url: str, past: Past) -> None:
        """Add that the scope excludes the target of a page's redirect, if it does."""
        location = (past.page or {}).get("location")
        if not isinstance(location, str) or self._scope is None:
            return
        try:
            target = uris.parse(urljoin(url, location))
        except ValueError:  # an InvalidUrl, or an error of urljoin
            return
        hops = "LR" if past.attempts[-1].via else "R"
        decision = self._scope(target, CrawlUri(target, via=url, hops=hops))
        if decision and decision.accepted is False:
            explanation.add(
                "redirect-out-of-scope", f"What it redirects to is not crawled: {target} is {decision.text}."
            )

    def _letters_to_replay(self, letter: DeadLetter) -> list[str]:
        """Return the id of a dead letter, after that of the robots.txt for which it was given up, if that is one."""
        found = [letter.id]
        if letter.reason.startswith(NO_ROBOTS):
            robots: DeadLetter | None = self._reader.find(robots_url(letter.uri.url))["dead"]
            found = [robots.id, *found] if robots is not None else found
        return list(map(str, found))

    def _explain_completed(self, explanation: Explanation, kept: KeptUrl) -> None:
        """Add that a URL waits for nothing, which a frontier that keeps its URLs knows without a log."""
        known = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(kept.created))
        explanation.add(
            "done",
            f"It is completed, in queue {kept.queue}; it is known since {known}. It is handed out again if it is "
            "reported with a new date, or imported with --force.",
            verdict=Outlook.NEVER,
            command=self._command("import", "--force", kept.url),
        )

    def _explain_budget_ahead(self, explanation: Explanation, queue: QueueRecord, pending: PendingUri) -> None:
        """Add that the URIs before it will use up the total budget first, if they will."""
        if queue.total_budget < 0 or queue.state is QueueState.RETIRED:
            return
        ahead = self._reader.cost_of(queue.queue, pending.place)
        if is_over_total(queue.expenditure + ahead, queue.total_budget, self._settings(queue).reached):
            explanation.add(
                "budget-ahead",
                f"What is before it costs {ahead:,}, and of the total budget {queue.total_budget:,} only "
                f"{max(queue.total_budget - queue.expenditure, 0):,} is left: the queue will be retired first. "
                "The command raises it so far that this URL is reached.",
                verdict=Outlook.BLOCKED,
                command=self._adjust(queue, total=queue.expenditure + ahead + max(pending.cost, 1)),
            )

    # -- the queue

    def _settings(self, queue: QueueRecord) -> QueueSettings:
        """Return the settings in force for a queue: those of its first URI."""
        return self._settings_of(self._first(queue), queue.queue)

    def _settings_of(self, uri: CrawlUri, key: str) -> QueueSettings:
        in_force = sheets.effective(self._reader.settings, self._reader.adjustments)
        return in_force.for_uri(uri.url, key, uri.source)

    def _first(self, queue: QueueRecord) -> CrawlUri:
        """Return a queue's first URI, or the URL of the last one added if it is empty."""
        first = self._reader.pending(queue.queue, 1)
        return first[0].uri if first else CrawlUri(queue.last_enqueued or "http://unknown/")

    def _explain_settings(self, explanation: Explanation, queue: QueueRecord, uri: CrawlUri | None = None) -> None:
        uri = uri or self._first(queue)
        with self._reader.view() as view:
            explanation.settings = setting_sources(view, uri.url, queue.queue, uri.source)

    def _adjust(
        self,
        queue: QueueRecord,
        *,
        total: int | None = None,
        replenish: int | None = None,
        precedence: int | None = None,
    ) -> str | None:
        arguments = ["--match", f"queue:{queue.queue}"]
        arguments += [] if total is None else ["--total-budget", str(total)]
        arguments += [] if replenish is None else ["--replenish", str(replenish)]
        arguments += [] if precedence is None else ["--set", f"precedence={precedence}"]
        return self._command("adjust", *arguments)

    def _explain_queue(self, explanation: Explanation, queue: QueueRecord) -> None:
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
                left = left and f", the last of them for {left}"
                landed = f" ({queue.landed} landed)" if queue.landed else ""
                explanation.add(
                    "in-process",
                    f"{name} is IN_PROCESS: URIs out: {queue.out}{landed}{left}; no more may go out until one is "
                    "finished.",
                    verdict=Outlook.LATER,
                )
            case QueueState.SNOOZED:
                self._explain_wait(explanation, queue, f"{name} is SNOOZED")
                self._explain_budgets(explanation, queue)
            case QueueState.INACTIVE:
                self._explain_inactive(explanation, queue)
                self._explain_windows(explanation, queue)
            case QueueState.INELIGIBLE:
                self._explain_ineligible(explanation, queue)
            case QueueState.RETIRED:
                self._explain_retired(explanation, queue)
            case QueueState.EXHAUSTED:
                later = f"; {counted(queue.future, 'is', 'are')} scheduled for later" if queue.future else ""
                explanation.add(
                    "exhausted",
                    f"{name} is EXHAUSTED: it holds no URI{later}. It comes back when one arrives.",
                    verdict=Outlook.LATER if queue.future else Outlook.NEVER,
                )
                self._explain_wait_then(explanation, queue, "Once it holds one")

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
            when=queue.wake_time,
            command=command,
        )

    def _windows(self, queue: QueueRecord) -> str:
        return "; ".join(self._settings(queue).windows) or "of before a change of settings"

    def _explain_windows(self, explanation: Explanation, queue: QueueRecord) -> None:
        """Add that a queue which is about to have its turn is outside its crawl windows."""
        opens = crawl_windows.opens_at(self._settings(queue).windows, self._now)
        if opens > self._now:
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
        entry = self._reader.last_snooze(queue)
        if entry is not None:
            return f"an operator snoozed it{_by(entry)}"
        return "it is blocked, and the audit has no `snooze` for that: clients of a service set such blocks"

    def _attempts_told_alone(self, pending: PendingUri, queue: QueueRecord, left: float) -> str:
        """Return which attempt of a URI has failed that waits while its queue goes on.

        With `retry.scope: queue`, its host has answered with an error; otherwise, it may have.
        """
        settings = self._settings(queue)
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
        settings = self._settings(queue)
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
        left = max(robots.when - self._now, 0.0)
        ago = say_duration(max(self._now - queue.failed_at, 0.0))
        attempts = attempts_told(robots.attempts, self._settings_of(robots.uri, queue.queue), left)
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
        wanted = lifting_precedence(queue, self._first(queue).url, self._settings(queue).precedence, frontier)
        ways = "before it gets a lower one, as the command does"
        if wanted is None:
            ways = "before it gets a lower one, or precedence_floor is raised in the settings"
        explanation.add(
            "ineligible",
            f"Queue {queue.queue} is INELIGIBLE: its precedence, {queue.precedence}, is not better than "
            f"precedence_floor, {frontier.precedence_floor}. It hands nothing out {ways}.",
            verdict=Outlook.BLOCKED,
            command=None if wanted is None else self._adjust(queue, precedence=wanted),
        )
        self._explain_wait_then(explanation, queue, "Once it is activated")

    def _explain_retired(self, explanation: Explanation, queue: QueueRecord) -> None:
        name, reasons_before = f"Queue {queue.queue}", len(explanation.reasons)
        if queue.by_name:
            explanation.add(
                "retired-by-name",
                f"{name} is RETIRED: an operator retired it by name{_by(self._reader.last_retirement(queue.queue))}.",
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
        settings, retired = self._settings(queue), queue.state is QueueState.RETIRED
        replenish, total = settings.balance_replenish_amount, total_of(queue, settings)
        session = replenish_amount(replenish, self._reader.settings.frontier.balance_replenish_amount)
        if is_over_total(queue.expenditure, total, settings.reached):
            more = one_more_session(session, total)
            subject = (
                f"Queue {queue.queue} is RETIRED"
                if retired
                else "It is over budget, and will retire again on its turn without a fetch"
            )
            rule = "as much as" if queue.expenditure == total else "more than"
            explanation.add(
                "over-total-budget" if retired else "over-budget",
                f"{subject}: it has spent {queue.expenditure:,}, {rule} its total budget of {total:,}. The command "
                f"raises it to {queue.expenditure + more:,}.",
                verdict=Outlook.BLOCKED,
                command=self._adjust(queue, total=queue.expenditure + more),
            )
        with self._reader.view() as view:
            [held] = holds(view, [queue])
        if (group := held.group) is not None:
            subject = f"Queue {queue.queue} is RETIRED" if retired else "It will retire on its turn without a fetch"
            raised = group.expenditure + one_more_session(session, group.total_budget)
            explanation.add(
                "over-group-budget" if retired else "over-budget",
                f"{subject}: its group {group.name} has spent {group.expenditure:,}, and its total budget is "
                f"{group.total_budget:,}{group.cause}. The command raises it to {raised:,}.",
                verdict=Outlook.BLOCKED,
                command=self._command("adjust", *group_arguments(group.name, total_budget=raised)),
            )
        if has_completed(queue):
            subject = f"Queue {queue.queue} is RETIRED" if retired else "It will retire on its turn without a fetch"
            explanation.add(
                "completed" if retired else "over-budget",
                f"{subject}: its limit of {queue.max_completed:,} completed URLs is reached, with {queue.completed:,}. "
                "The command takes it away; a crawler has set it (SetCrawlLimit), or `set-queue`.",
                verdict=Outlook.BLOCKED,
                command=self._of_queue("set-queue", queue, "--limit", "0"),
            )
        if replenish <= 0:
            subject = f"Queue {queue.queue} is RETIRED" if retired else "It will retire on its turn without a fetch"
            explanation.add(
                "no-replenishment" if retired else "over-budget",
                f"{subject}: its balance_replenish_amount is {replenish}, so that it has nothing to spend.",
                verdict=Outlook.BLOCKED,
                command=self._adjust(queue, replenish=session),
            )

        for use, quota in held.quotas:
            if not settings.force_retire:
                told = "Its next URI will be disregarded"
            else:
                told = f"Queue {queue.queue} is RETIRED" if retired else "It will retire on its turn without a fetch"
            self._explain_quota(explanation, told, use, quota)

    def _explain_quota(self, explanation: Explanation, told: str, use: QuotaUse, quota: Limits) -> None:
        """Add a quota that is used up, after its consequence as `told`."""
        explanation.add(
            "over-quota",
            f"{told}: {use.text()}. The command raises it.",
            verdict=Outlook.BLOCKED,
            command=self._command("adjust", *raised_quota(use, quota)),
        )

    # -- the crawl

    def _explain_crawl(self, explanation: Explanation) -> None:
        standing = self._reader.standing(self._now)
        summary = standing.totals
        if summary.state is CrawlState.TERMINATED:
            explanation.add("terminated", verdict(standing).text, verdict=Outlook.NEVER)
            return
        if summary.state in (CrawlState.PAUSED, CrawlState.PAUSING):
            # Starting a crawl that paused when it was finished also resumes it.
            starts = summary.pause_reason == FINISH and not standing.process.alive
            ways, command = "", None if starts else self._command("resume")
            if has_failed_policy(standing) or is_paused_for_disk(summary.state, summary.pause_reason):
                ways, command = ways_on(standing)
            explanation.add(
                "paused",
                f"{pause_sentence(standing)} Nothing is handed out. {ways}".rstrip(),
                verdict=Outlook.BLOCKED,
                command=command,
            )
        elif summary.state is CrawlState.FINISHED:
            runs = standing.process.alive or standing.process.server is not None
            alone = " by itself" if runs else ", once it is started,"
            explanation.add(
                "finished", f"The crawl is FINISHED; it goes on{alone} when a URI arrives or a queue revives."
            )
        if standing.process.server is not None:
            explanation.add("unused", f"No process has this frontier open: {opener(standing.process)}.")
        elif not standing.process.alive:
            stop = standing.process.last_stop
            start = start_command(self._job, "" if stop is None else stop.program)
            last = process_line(standing).removeprefix("none; ")
            what = "start the crawl again with its configuration" if start else AGAIN
            explanation.add(
                "not-running",
                f"Nothing runs this frontier at the moment ({last}): {what}.{raise_first(stop)}",
                verdict=Outlook.BLOCKED,
                command=start,
            )
        elif is_hung(standing):
            found = verdict(standing)
            explanation.add("hung", found.text, verdict=Outlook.BLOCKED, command=found.remedy)
        elif standing.closed_until > standing.now:
            explanation.add(
                "crawl-closed", closed_sentence(standing), verdict=Outlook.LATER, when=standing.closed_until
            )
        elif standing.rests_until > standing.now:
            explanation.add("crawl-rests", rest_sentence(standing), verdict=Outlook.LATER, when=standing.rests_until)


def _by(entry: AuditEntry | None) -> str:
    """Return a command's author, time and reason, for the end of a sentence; "" without its entry."""
    if entry is None:
        return ""
    day = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(entry.when))
    return f" ({entry.who}, {day}" + (f": {entry.reason})" if entry.reason else ")")
