"""The sources of the settings in force for a URI: defaults, settings, overrides and adjustments, as they apply."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.reports.format import setting_in_words
from budgetfrontier.settings import sheets
from budgetfrontier.settings.grouping import Grouping
from budgetfrontier.settings.names import OF_GROUPS, is_of_groups, per_uri
from budgetfrontier.settings.overrides import Effective, Override
from budgetfrontier.settings.schema import FrontierSettings, OfGroupSettings
from budgetfrontier.settings.values import brief

if TYPE_CHECKING:
    from budgetfrontier.storage.view import View

_DEFAULTS = FrontierSettings()
_LONGEST_MATCH = 100
_LIMITS = OfGroupSettings.__struct_fields__


def setting_sources(view: View, url: str, queue: str, label: str | None = None) -> list[dict[str, Any]]:
    """Return each setting per URI with its `value` and its `sources`, in the order of application: the last wins.

    A source has a `kind` ("default", "settings", "sheet", "override", "crawlers" or "adjustment"), and its `value`. An
    override has its `match`, and `at`, FILE:LINE or its number in the settings; a sheet has its name and its `match`;
    an adjustment has its `match`, `id`, `who`, `when` and `reason`.
    """
    settings = view.settings()[0]
    first, adjustments = sheets.layers(settings, view.adjustments())
    overrides = [*first, *adjustments]
    matching = [(n, overrides[n]) for n in Effective(settings.frontier, overrides).applying(url, queue, label)]
    of_sheets = sum(bool(one.sheet) for one in first)
    by_name = _of_group(view, CrawlUri(url, source=label), queue)
    for name in per_uri():
        if is_of_groups(name):
            continue
        base, default = attrgetter(name)(settings.frontier), attrgetter(name)(_DEFAULTS)
        by_name[name] = [{"kind": "default" if base == default else "settings", "value": base}]
    for number, override in matching:
        if number < of_sheets:
            _add(by_name, "sheet", override, {"sheet": override.sheet})
        elif number < len(first):
            _add(by_name, "override", override, {"at": override.at or f"override {number - of_sheets + 1}"})
    record = view.find_queue(queue)
    if record is not None and record.own_budget is not None:
        by_name["queue_total_budget"].append({"kind": "crawlers", "value": record.own_budget})
    for number, override in matching:
        if number >= len(first):
            _add(by_name, "adjustment", override, _adjustment(view, override))
    return [{"name": name, "value": found[-1]["value"], "sources": found} for name, found in by_name.items()]


def _of_group(view: View, uri: CrawlUri, queue: str) -> dict[str, list[dict[str, Any]]]:
    """Return the sources of the limits of the group of a queue, by setting; none if it belongs to none."""
    grouping = view.grouping()
    group = grouping.name_of(uri, queue)
    if group is None:
        return {}
    alone = Grouping(grouping.groups)
    alone.use(*grouping.uses)
    defined = alone.limits_of(group)
    by_name: dict[str, list[dict[str, Any]]] = {
        f"{OF_GROUPS}{name}": [{"kind": "settings", "value": getattr(defined, name)}] for name in _LIMITS
    }
    for override, limits in grouping.changes_of(group):
        of_groups = replace(override, set={f"{OF_GROUPS}{name}": limit for name, limit in limits.items()})
        if override.id:
            _add(by_name, "adjustment", of_groups, _adjustment(view, override))
        else:
            _add(by_name, "override", of_groups, {"at": override.at or "the settings"})
    return by_name


def _add(by_name: dict[str, list[dict[str, Any]]], kind: str, override: Override, source: dict[str, Any]) -> None:
    for name, value in override.set.items():
        by_name[name].append({"kind": kind, "value": value, "match": override.match, **source})


def _adjustment(view: View, override: Override) -> dict[str, Any]:
    entry = view.audit_entry(override.id)
    if entry is None:
        return {"id": override.id, "who": None, "when": None, "reason": None}
    return {"id": override.id, "who": entry.who, "when": entry.when, "reason": entry.reason}


def source_lines(found: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each setting of an override or adjustment: its value, source, and replaced value."""
    for setting in found:
        *over, source = setting["sources"]
        if over:
            name = setting["name"]
            earlier = ((_source(one), setting_in_words(name, one["value"])) for one in reversed(over))
            below = "".join(f", over {where}: {value}" for where, value in earlier)
            yield f"{name} {setting_in_words(name, setting['value'])}  from {_source(source)}{below}"


def _source(source: dict[str, Any]) -> str:
    match source["kind"]:
        case "adjustment":
            by = f" by {source['who']}" if source["who"] else ""
            return f"adjustment {source['id'] or '(of unknown id)'} ({_match(source)}){by}"
        case "sheet":
            return f"sheet {source['sheet']} ({_match(source)})"
        case "override":
            return f"{source['at']} ({_match(source)})"
        case "crawlers":
            return "what crawlers asked for"
        case kind:
            return "the default" if kind == "default" else "the settings"


def _match(source: dict[str, Any]) -> str:
    """Return the pattern of a source, of a long list of queues only its beginning."""
    return brief(source["match"], _LONGEST_MATCH)
