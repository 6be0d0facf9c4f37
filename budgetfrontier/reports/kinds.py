"""The kinds of reports, by the names that `report --kind` and the console have for them, and their formats."""

from __future__ import annotations

KINDS = (
    *("frontier", "crawl-summary", "seeds", "hosts", "mimetypes", "responsecodes", "sourcetags", "threads"),
    *("labels", "quotas", "groups", "rates", "busiest", "forecast", "settings"),
)
"""The frontier report, Heritrix's others, those of labels, quotas and groups, those over time, and the settings."""

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
