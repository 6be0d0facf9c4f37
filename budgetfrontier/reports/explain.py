"""Explanation why a URL or a queue is not being crawled, and when it would be.

It is a chain of reasons, from the URL to its queue to the crawl, each with the command that would remove it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri, DeadLetter, KeptUrl, QueueRecord, QueueState
from budgetfrontier.core.units import say_duration
from budgetfrontier.core.uris import robots_url
from budgetfrontier.core.vocabulary import NO_ROBOTS
from budgetfrontier.reports import near_queues
from budgetfrontier.reports.crawl_reasons import explain_crawl
from budgetfrontier.reports.explanation import Explanation, Outlook, RefusalOf, ScopeOf
from budgetfrontier.reports.log_tables import REFUSED
from budgetfrontier.reports.queue_reasons import QueueReasons
from budgetfrontier.reports.url_past import UNLESS_ALLOWED, Past, PastOf, tell
from budgetfrontier.rules.budgets import is_over_total
from budgetfrontier.rules.verdict import GONE, Standing, are_leases_held
from budgetfrontier.settings.overrides import Limits
from budgetfrontier.storage.quota_use import QuotasInForce, QuotaUse

if TYPE_CHECKING:
    from budgetfrontier.storage.reader import Reader
    from budgetfrontier.storage.view import PendingUri

_UNKNOWN = (
    "It is not recorded as seen, so that the next link to it, or an import, adds it: it was forgotten, forced, or lost "
    "in a repair."
)
_ROBOTS = "It is not recorded as seen: no robots.txt is that a crawler fetches for the rules of its host."


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
    entry_name: Callable[[int], object] = int,
    crawl: Standing | None = None,
) -> Explanation:
    """Explain why `target`, a queue key or else a URL, is not being crawled.

    `job` is the folder for the suggested commands, which name audit entries by `entry_name`; `scope` returns the
    decision of the crawl's scope, `past` the log's records of a URL that is not pending, `refusal` the reason not to
    fetch a URL. `crawl` is the standing of the crawl of which the frontier is a partition. Cost: a pass over the
    queues with earlier turns, and up to 0.2 s for what 100,000 entries of the audit tell of a queue; for a URL the
    cost of `Reader.find`, in all queues (`anywhere`) or in its host's.
    """
    if now is None:
        with reader.view() as view:
            now = view.now()
    queues = QueueReasons(reader, job, now, entry_name)
    return _Explainer(reader, queues, now, scope, past, refusal, anywhere, job, crawl).explain(target)


class _Explainer:
    def __init__(
        self,
        reader: Reader,
        queues: QueueReasons,
        now: float,
        scope: ScopeOf | None,
        past: PastOf | None,
        refusal: RefusalOf | None,
        anywhere: bool,
        job: str,
        crawl: Standing | None,
    ) -> None:
        self._reader = reader
        self._queues = queues
        self._now = now
        self._scope = scope
        self._past = past
        self._refusal = refusal
        self._anywhere = anywhere
        self._job, self._crawl = job, crawl

    def explain(self, target: str) -> Explanation:
        queue = self._reader.queue(target) or self._meant(target)
        if queue is not None:
            explanation = Explanation(target, "queue", queue.queue)
            self._queues.explain_settings(explanation, queue)
            self._queues.explain_queue(explanation, queue)
            self._explain_crawl(explanation)
            return explanation
        explanation = Explanation(target, "url")
        self._explain_url(explanation)
        return explanation

    def _explain_crawl(self, explanation: Explanation) -> None:
        standing = self._reader.standing(self._now)
        explain_crawl(explanation, standing, self._crawl or standing, job=self._job, command=self._queues.command)

    def _meant(self, target: str) -> QueueRecord | None:
        """Return the queue of a host that is written in another way than its key; of a URL, the URL is explained."""
        if "://" in target:
            return None
        with self._reader.view() as view:
            key = near_queues.meant(view, target)
        return None if key is None else self._reader.queue(key)

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
                next_in = max(left, queue.wake_time - self._now, 0.0)
                failure = self._queues.attempts_told_alone(pending, queue, next_in)
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
        self._queues.explain_settings(explanation, queue, pending.uri)
        self._queues.explain_queue(explanation, queue)
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
        if not are_leases_held(self._reader.process()):
            explanation.add("leased", f"It was being crawled, by {GONE}.", verdict=Outlook.LATER)
            return
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
        last = past.attempts[-1].time if past and past.attempts else ""
        if self._queues.explain_deletion(explanation, found["queue"], url, since=last):
            return
        if found["seen"] or (past and past.attempts):
            known = found["seen"] or found["doubt"]
            explanation.past = past.to_dict() if past else None
            if kept is not None and not (past and past.attempts):
                return self._explain_completed(explanation, kept)
            denials = self._reader.summary().quota_denials > 0
            settings = self._queues.settings_of(CrawlUri(url), found["queue"])
            fate = tell(past, settings, searched=self._past is not None, denials=denials)
            quotas = self._quotas_against(CrawlUri(url), found["queue"])
            again = fate.again and not (refused or quotas)
            explanation.add(
                fate.code,
                fate.text if known else f"{fate.text} {_ROBOTS if url == robots_url(url) else _UNKNOWN}",
                verdict=Outlook.BLOCKED if again and not known else Outlook.NEVER,
                command=self._queues.command("import", *(("--force",) if known else ()), url) if again else None,
            )
            for use, quota in quotas:
                self._queues.explain_quota(
                    explanation, "It would be disregarded if it were scheduled again", use, quota
                )
            if past:
                self._explain_redirect(explanation, url, past)
            return
        if found["doubt"]:
            explanation.add(
                "seen-unknown",
                f"It is not pending. Whether it was seen is not known, and no log names it: {found['doubt']}.",
                verdict=Outlook.BLOCKED,
                command=None if refused else self._queues.command("import", url),
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
            command=None if refused else self._queues.command("import", url),
        )

    def _quotas_against(self, uri: CrawlUri, key: str) -> list[tuple[QuotaUse, Limits]]:
        """Return the quotas for which a URI without a label would be disregarded if it were scheduled."""
        queue = self._reader.queue(key)
        if queue is None or self._queues.settings_of(uri, key).force_retire:
            return []
        with self._reader.view() as view:
            return list(QuotasInForce(view).used_up(uri, queue))

    def _explain_letter(self, explanation: Explanation, letter: DeadLetter, *, refused: bool) -> None:
        """Add that a URL is a dead letter, and its replay, unless that would end as before."""
        text = f"It is a dead letter: {letter.reason} (attempts {letter.attempts}, lost {letter.deliveries})."
        if not self._reader.settings.fetch.allow_private and f"({REFUSED})" in letter.reason:
            text += f" A replay would end in the same way, {UNLESS_ALLOWED}: the host has a private address."
            refused = True
        replay = self._queues.command("dead-letters", "--replay", *self._letters_to_replay(letter))
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
            command=self._queues.command("import", "--force", kept.url),
        )

    def _explain_budget_ahead(self, explanation: Explanation, queue: QueueRecord, pending: PendingUri) -> None:
        """Add that the URIs before it will use up the total budget first, if they will."""
        if queue.total_budget < 0 or queue.state is QueueState.RETIRED:
            return
        ahead = self._reader.cost_of(queue.queue, pending.place)
        if is_over_total(queue.expenditure + ahead, queue.total_budget, self._queues.settings(queue).reached):
            explanation.add(
                "budget-ahead",
                f"What is before it costs {ahead:,}, and of the total budget {queue.total_budget:,} only "
                f"{max(queue.total_budget - queue.expenditure, 0):,} is left: the queue will be retired first. "
                "The command raises it so far that this URL is reached.",
                verdict=Outlook.BLOCKED,
                command=self._queues.adjust(queue, total=queue.expenditure + ahead + max(pending.cost, 1)),
            )
