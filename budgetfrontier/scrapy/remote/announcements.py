"""Lines in the log of a spider about the frontier that it shares."""

from __future__ import annotations

import logging
from typing import Any

from budgetfrontier.core.model import Summary
from budgetfrontier.errors import FrontierError, WrongCredentials
from budgetfrontier.scrapy.remote.options import URL, SharedOptions

SETTINGS = {"address": URL, "token": "BUDGETFRONTIER_TOKEN", "tls": "BUDGETFRONTIER_TLS"}
"""The settings by the options of a client."""

log = logging.getLogger("budgetfrontier.scrapy.shared")


class Announcements:
    """The log lines of a spider. A line that many requests may cause is logged once."""

    def __init__(self, spider: Any) -> None:
        self._log = logging.LoggerAdapter(log, {"spider": spider})
        self._said: set[str] = set()
        self._away = False

    # -- opening

    def connecting(self, options: SharedOptions, within: float) -> None:
        """Say which server is looked for, before it has answered."""
        self._log.info("Connecting to the %s (%s), %g s at the most", options.server, URL, within)

    def not_opened(self, error: FrontierError) -> None:
        """Say why the frontier cannot be used, with the settings that are to be changed."""
        self._log.error("Cannot open the shared frontier: %s", _text(error))

    def sharing(self, options: SharedOptions, at_once: int, job: str) -> None:
        """Say which crawl is shared, and warn if several processes may fetch from a host at once."""
        crawl = "" if options.is_cluster else f"crawl {options.crawl} of the "
        self._log.info("Sharing the %s%s", crawl, options.server)
        if at_once > 1:
            self._log.warning(
                "The settings of the crawl let processes fetch from a host at once (per_queue_concurrency: %d); with "
                "`budgetfrontier adjust %s --set politeness.per_queue_concurrency=1`%s they do not",
                at_once,
                job,
                "" if options.is_cluster else " on the server",
            )

    # -- requests

    def kept(self, request: Any, reason: str) -> None:
        """Say once that requests which cannot be stored stay here."""
        if self._is_first("kept"):
            self._log.warning(
                "Unable to share request: %s - reason: %s - it stays with this process, and is lost when that ends - "
                "no more such requests will be logged (stats being collected)",
                request,
                reason,
            )

    def made_before(self, request: Any) -> None:
        """Say once that start requests are not made again."""
        if self._is_first("made before"):
            self._log.info(
                "Start request not made: %s: this crawl has had it, from another process or before this one was "
                "started again - no more such requests will be logged (stats being collected)",
                request,
            )

    def refused(self, request: Any, reason: str) -> None:
        """Say that a request is not scheduled."""
        self._log.warning("Not scheduled: %s: %s", request, reason)

    def other_key(self, url: str, error: Exception) -> None:
        """Say that a request was written with another key."""
        self._log.error("Cannot run %s: %s", url, error)

    def dead_letter(self, url: str, error: Exception) -> None:
        """Say that a request could not be restored."""
        self._log.error("Dead letter: %s: %s", url, error)

    def late(self, url: str) -> None:
        """Say once that leases have expired here."""
        if self._is_first("late"):
            self._log.warning(
                "The lease of %s has expired before its end was told: another process may fetch it again - no more "
                "will be logged (stats being collected)",
                url,
            )

    # -- the server

    def answers(self, options: SharedOptions, does: bool, silent: float) -> None:
        """Say when the server goes away, which shows after `silent` seconds, and when it comes back."""
        if not does and not self._away:
            self._log.warning(
                "The %s has not answered for %.0f s; what it is to be told waits until it does", options.server, silent
            )
        elif does and self._away:
            self._log.info("The %s answers again", options.server)
        self._away = not does

    def failed(self, error: Exception, what: str) -> None:
        """Say that something has failed, with a traceback if that is no error of the frontier."""
        self._log.error("%s: %s", what, _text(error), exc_info=None if isinstance(error, FrontierError) else error)

    # -- closing

    def idle(self, since: float, summary: Summary) -> None:
        """Say that others have work, and this process has had none for long."""
        self._log.info(
            "No request for %.0f s (BUDGETFRONTIER_IDLE_BEFORE_CLOSE); the shared crawl is %s, and has %d queued, "
            "%d of them leased, and %d due later",
            since,
            summary.state,
            summary.queued,
            summary.in_process,
            summary.future,
        )

    def all_seen(self, options: SharedOptions, requests: int, summary: Summary) -> None:
        """Say that all requests which this process has made were made before, and what to do."""
        self._log.warning(
            "Nothing was crawled: all requests of this process (%d) were made before in the shared crawl %s, which has "
            "%d URLs as seen; to crawl them again, %s",
            requests,
            options.crawl,
            summary.seen,
            f"begin another crawl, with workers of its own, such as `crawl: {options.crawl}-2`"
            if options.is_cluster
            else f"name another crawl, such as BUDGETFRONTIER_CRAWL = {f'{options.crawl}-2'!r}",
        )

    def over_budget(self, options: SharedOptions, queues: int, job: str) -> None:
        """Say how many queues of the crawl are over their budgets."""
        where = "" if options.is_cluster else " on the server"
        text = "Queues of the shared crawl over their budgets: %d; `budgetfrontier report %s`%s lists them"
        self._log.info(text, queues, job, where)

    def closing(self, options: SharedOptions, *, lost: int, all_told: bool) -> None:
        """Log which requests are lost with this process, and whether the server has got all reports."""
        if lost:
            self._log.warning("Requests that could not be shared are lost: %d", lost)
        if not all_told:
            self._log.warning(
                "The %s did not take everything: the leases of this process expire within %g s, and their pages are "
                "fetched again",
                options.server,
                options.lease_ttl,
            )

    def _is_first(self, kind: str) -> bool:
        is_first = kind not in self._said
        self._said.add(kind)
        return is_first


def _text(error: Exception) -> str:
    """Return what an error says, with the names of the settings that are to be changed."""
    return error.naming(SETTINGS[error.option]) if isinstance(error, WrongCredentials) else str(error)
