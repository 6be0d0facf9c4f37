"""The kinds of reports, by the names that `report --kind` and the console have for them, and their formats."""

from __future__ import annotations

CONTENTS = {
    "frontier": "verdict, totals, and the queues of each state",
    "crawl-summary": "how long all runs took, what they fetched, and how the last one stopped",
    "seeds": "the fate of each seed",
    "hosts": "fetches, bytes and robots denials of each host, and what is left",
    "mimetypes": "fetches and bytes of each media type",
    "responsecodes": "fetches of each status",
    "sourcetags": "fetches of each source tag and host",
    "threads": "the URIs that are leased, the oldest first",
    "labels": "what was fetched with each label of seeds",
    "quotas": "how much of each quota is used",
    "groups": "queues, spend and waits of each group of queues",
    "rates": "the rate of each figure in the last hour, beside the hour before and yesterday",
    "busiest": "the queues that spent and fetched most in the last hours, by the clock",
    "forecast": "when each bound would end the crawl",
    "scope": "the waiting URIs that the scope would disregard, by reason",
    "settings": "the settings and their defaults, without secrets",
}
"""The contents of each kind of report: the frontier report, Heritrix's others, those over time, and the settings."""

KINDS = tuple(CONTENTS)

WITH_SINCE = ("crawl-summary", "hosts", "mimetypes", "responsecodes", "sourcetags", "rates", "busiest", "forecast")
"""The kinds that can be about the time since a moment; the others are as of now."""

_HERITRIX = {
    "frontier-summary": "frontier", "crawl": "crawl-summary", "mimetype": "mimetypes", "responsecode": "responsecodes",
    "source": "sourcetags",
}  # fmt: skip
_TABLE_FORMATS = {"text": "txt", "json": "json", "csv": "csv"}


def kind(text: str) -> str:
    """Parse the name of a kind, or of Heritrix's file (`hosts-report.txt`)."""
    name = text.lower().removesuffix(".txt").removesuffix("-report")
    return _HERITRIX.get(name, name)


def formats(kind: str) -> dict[str, str]:
    """Return the formats of a kind of report, each with the ending of its file; none if there is no such kind."""
    if kind not in KINDS:
        return {}
    return _TABLE_FORMATS | {"html": "html"} if kind == "frontier" else _TABLE_FORMATS
