"""Heritrix 3's beans and properties, and the settings that are their counterparts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, NamedTuple

from budgetfrontier.core import units


def whole(text: str) -> int:
    """Return a whole number. Raises ValueError."""
    return int(text.strip())


def number(text: str) -> float:
    """Return a number. Raises ValueError."""
    value = float(text.strip())
    if not isfinite(value):
        raise ValueError(text)
    return value


def flag(text: str) -> bool:
    """Return a boolean as Spring reads it. Raises ValueError."""
    word = text.strip().lower()
    if word not in ("true", "false", "yes", "no", "on", "off", "1", "0"):
        raise ValueError(word)
    return word in ("true", "yes", "on", "1")


def _milliseconds(text: str) -> Any:
    return units.write_duration(whole(text) / 1000)


def _seconds(text: str) -> Any:
    return units.write_duration(whole(text))


def _bytes(text: str) -> Any:
    return units.write_size(whole(text))


def _text(text: str) -> str:
    return " ".join(text.split())


def _robots(text: str) -> Any:
    """Return `fetch.robots`: of Heritrix's policies, those that fetch what robots.txt forbids ignore it."""
    if (name := text.strip()) not in ("obey", "classic", "ignore", "robotsTxtOnly"):
        raise ValueError(f"the policy {name}")
    return "ignore" if name == "ignore" else True


def _nofollow(text: str) -> str:
    return "skip" if flag(text) else "follow"


def _kilobytes(text: str) -> Any:
    return units.write_size(whole(text) * 1024)


def _mebibytes(text: str) -> Any:
    return units.write_size(whole(text) << 20)


def _file_size(text: str) -> Any:
    """Return the size at which a file ends, as `output.warc_size` has it: 0 for -1, which is no limit in Heritrix."""
    if (size := whole(text)) == 0:
        raise ValueError("a file for each record")
    return 0 if size == -1 else units.write_size(size)


def _sessions(text: str) -> int:
    """Return the replenish amount: 0 and less mean no maximum in Heritrix 3, but the end of the queue here."""
    return amount if (amount := whole(text)) > 0 else 10**12


class Counterpart(NamedTuple):
    """A property with a setting that means the same. `default`: Heritrix's, where it is another than that here."""

    setting: str
    convert: Callable[[str], Any] = whole
    default: str | None = None


PLAIN: Mapping[str, Mapping[str, Counterpart]] = {
    "BdbFrontier": {
        "queueTotalBudget": Counterpart("frontier.queue_total_budget"),
        "balanceReplenishAmount": Counterpart("frontier.balance_replenish_amount", _sessions),
        "errorPenaltyAmount": Counterpart("frontier.error_penalty_amount", whole, "100"),
        "precedenceFloor": Counterpart("frontier.precedence_floor", whole, "255"),
        "maxRetries": Counterpart("frontier.retry.max_retries"),
        "retryDelaySeconds": Counterpart("frontier.retry.delay", _seconds),
        "maxOutlinks": Counterpart("links.max_per_page", whole, "6000"),
    },
    "DispositionProcessor": {
        "delayFactor": Counterpart("frontier.politeness.delay_factor", number),
        "minDelayMs": Counterpart("frontier.politeness.min_delay", _milliseconds),
        "maxDelayMs": Counterpart("frontier.politeness.max_delay", _milliseconds),
        "respectCrawlDelayUpToSeconds": Counterpart("frontier.politeness.respect_crawl_delay_up_to", _seconds),
        "maxPerHostBandwidthUsageKbSec": Counterpart("frontier.politeness.max_bandwidth", _kilobytes),
    },
    "CrawlMetadata": {
        "jobName": Counterpart("crawl", _text),
        "robotsPolicyName": Counterpart("fetch.robots", _robots),
        "operator": Counterpart("output.warc_operator", _text),
        "description": Counterpart("output.warc_description", _text),
    },
    "FetchHTTP": {
        "timeoutSeconds": Counterpart("fetch.timeout", _seconds, "1200"),
        "soTimeoutMs": Counterpart("fetch.first_byte_timeout", _milliseconds, "20000"),
        "maxLengthBytes": Counterpart("fetch.max_body", _bytes, "0"),
    },
    "ExtractorHTML": {"obeyRelNofollow": Counterpart("links.rel_nofollow", _nofollow)},
    "FrontierPreparer": {"preferenceEmbedHops": Counterpart("links.prefer_embeds", lambda text: whole(text) > 0, "1")},
    "CrawlController": {
        "maxToeThreads": Counterpart("fetch.concurrency", whole, "25"),
        "runWhileEmpty": Counterpart("frontier.pause_at_finish", flag),
    },
    "CrawlLimitEnforcer": {
        "maxBytesDownload": Counterpart("limits.max_bytes", _bytes),
        "maxDocumentsDownload": Counterpart("limits.max_uris"),
        "maxTimeSeconds": Counterpart("limits.max_time", _seconds),
    },
    "WARCWriterChainProcessor": {
        "prefix": Counterpart("output.warc_prefix", _text),
        "maxFileSizeBytes": Counterpart("output.warc_size", _file_size, "1000000000"),
    },
    "DiskSpaceMonitor": {"pauseThresholdMiB": Counterpart("frontier.guards.min_free", _mebibytes, "8192")},
    "StatisticsTracker": {"intervalSeconds": Counterpart("output.statistics", _seconds)},
}
"""Properties with a counterpart that takes their value, by class."""

SAME_CLASS = {
    "WARCWriterProcessor": "WARCWriterChainProcessor",
    "ARCWriterProcessor": "WARCWriterChainProcessor",
    "WorkQueueFrontier": "BdbFrontier",
    "AggressiveExtractorHTML": "ExtractorHTML",
    "JerichoExtractorHTML": "ExtractorHTML",
}
"""Classes whose properties are read as those of another."""

OWNERS: Mapping[str, str] = {
    **{name: kind for kind, names in PLAIN.items() for name in names},
    "queuePrecedencePolicy": "BdbFrontier",
    "uriUniqFilter": "BdbFrontier",
    "queueAssignmentPolicy": "FrontierPreparer",
    "costAssignmentPolicy": "FrontierPreparer",
    "uriPrecedencePolicy": "FrontierPreparer",
    "canonicalizationPolicy": "FrontierPreparer",
}
"""The class that each property is read from."""

ASSIGNMENT_OPTIONS: Mapping[str, tuple[str, Callable[[str], Any], Any]] = {
    "limit": ("limit", whole, -1),
    "parallelQueues": ("parallel_queues", whole, 1),
    "parallelQueuesRandomAssignment": ("parallel_queues_random_assignment", flag, False),
}
"""Options of these policies: the name here, how the value is read, and the default of both."""

_BUILT_IN = (
    "ActionDirectory BdbModule BdbServerCache BdbUriUniqFilter CandidateChain CandidateScoper CandidatesProcessor "
    "CheckpointService ConfigFile ConfigPathConfigurer ConfigString ContentDigestHistoryLoader "
    "ContentDigestHistoryStorer CostUriPrecedencePolicy CrawlerLoggerModule CredentialStore DispositionChain "
    "ExtractorCSS ExtractorHTTP ExtractorRobotsTxt ExtractorSitemap FetchChain FetchHistoryProcessor "
    "PreconditionEnforcer Preselector SheetOverlaysManager TextSeedModule "
)
BUILT_IN = frozenset(_BUILT_IN.split())
"""Classes whose work a crawl does here without a setting."""

_PROCESSORS = (
    "ARCWriterProcessor AggressiveExtractorHTML CandidateScoper CandidatesProcessor ContentDigestHistoryLoader "
    "ContentDigestHistoryStorer DispositionProcessor ExtractorCSS ExtractorHTML ExtractorHTTP ExtractorJS ExtractorPDF "
    "ExtractorRobotsTxt ExtractorSWF ExtractorSitemap FetchDNS FetchFTP FetchHTTP FetchHistoryProcessor FetchWhois "
    "JerichoExtractorHTML PreconditionEnforcer Preselector QuotaEnforcer ReschedulingProcessor SourceQuotaEnforcer "
    "WARCWriterChainProcessor WARCWriterProcessor"
)
PROCESSORS = frozenset(_PROCESSORS.split())
"""Classes that do their work only as part of a chain."""
SWITCHED = frozenset(
    ("ExtractorHTTP", "ExtractorSitemap", "QuotaEnforcer", "WARCWriterChainProcessor", "SourceQuotaEnforcer")
)
"""Classes whose work is not done here either if they are turned off."""

UNREAD = "no counterpart; left out"
"""The remark on what nothing asks for."""

_AMOUNTS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "MaxFetchSuccesses": ("successes", whole),
    "MaxSuccessKb": ("success_bytes", _kilobytes),
    "MaxFetchResponses": ("urls", whole),
    "MaxAllKb": ("bytes", _kilobytes),
    "MaxNovelUrls": ("novel", whole),
    "MaxNovelKb": ("novel_bytes", _kilobytes),
}
QUOTAS: Mapping[str, tuple[str, str, Callable[[str], Any]]] = {
    kind + name: (setting, amount, read)
    for kind, setting in (("host", "quotas.host"), ("group", "quotas.queue"))
    for name, (amount, read) in _AMOUNTS.items()
}
"""Properties of QuotaEnforcer: the setting, the amount that it limits, and how the value is read; -1 is no limit."""

WITHOUT: Mapping[str, str] = {
    "ExtractorJS": "scripts are not searched for links",
    "ExtractorSWF": "Flash is not searched for links",
    "ExtractorPDF": "PDF files are not searched for links",
    "BdbCookieStore": "cookies that a host sets are not kept; fetch.requests sends cookies of your own",
    "SimpleCookieStore": "cookies that a host sets are not kept; fetch.requests sends cookies of your own",
    "FetchDNS": "addresses are looked up, without `dns:` URIs and without WARC records of them",
    "FetchWhois": "there are no `whois:` URIs",
    "FetchFTP": "FTP is not fetched",
    "SourceQuotaEnforcer": "write a quota under frontier.quotas.label, or an override that matches label:NAME",
    "ReschedulingProcessor": "set frontier.revisit.after to fetch pages again",
    "BrowserProcessor": "pages are not opened in a browser",
    "HttpBasicAuthenticationCredential": "write `auth` under fetch.requests",
    "HtmlFormCredential": "forms are not filled in",
}
"""Classes without a counterpart, and what happens instead."""

INSTEAD: Mapping[str, str] = {
    "BdbFrontier.snoozeLongMs": "Heritrix 3 does not read it either",
    "BdbFrontier.recoveryLogEnabled": "no recovery log is needed",
    "BdbFrontier.dumpPendingAtClose": "`budgetfrontier export` writes the pending URIs",
    "FrontierPreparer.preferenceDepthHops": "URIs near a seed are not preferred",
    "DiskSpaceMonitor.monitorPaths": "the disks of the job's folder, its logs and its WARC files are looked at",
    "DiskSpaceMonitor.monitorConfigPaths": "the disks of the job's folder, its logs and its WARC files are looked at",
    "CrawlMetadata.operatorFrom": "write the header From under fetch.requests",
    "ActionDirectory.actionDir": "the folder is JOB/action",
    "ActionDirectory.doneDir": "the folder is JOB/action/done",
    "FetchHTTP.ignoreCookies": "cookies that a host sets are never kept",
    "FetchHTTP.maxFetchKBSec": "the bandwidth of a fetch is not limited",
}
"""Properties without a counterpart for which there is something to say, as CLASS.PROPERTY."""
