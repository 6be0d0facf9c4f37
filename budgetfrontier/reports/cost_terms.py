"""The cost of a URI term by term, for the built-in cost policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.settings import plugins

_HERITRIX = {"ZeroCost": "zero", "UnitCost": "unit", "WagCost": "wag", "AntiCalendarCost": "anti-calendar"}


class CostTerm(NamedTuple):
    """One term of a cost: its cause and amount."""

    text: str
    amount: int


def cost_terms(policy: Any, uri: CrawlUri) -> list[CostTerm] | None:
    """Return the terms of a URI's cost by a cost policy as written in the settings.

    None for a policy that is not built in: its terms are not known. The stored cost may be another: it was fixed when
    the URI was scheduled, by the settings then in force, or given with it.
    """
    name, options = _name(policy)
    base = [CostTerm("each URI", 1)]
    match name:
        case "zero":
            return [CostTerm("each URI", 0)]
        case "unit":
            return base
        case "wag":
            return [*base, *_wag(uri)]
        case "anti-calendar":
            return [*base, CostTerm("it looks like a calendar", 1)] if _asked(name, uri) > 1 else base
        case "additive":
            return [*base, *_additive(options.get("rules", ()), uri)]
    return None


def _wag(uri: CrawlUri) -> list[CostTerm]:
    cost = _asked("wag", uri)
    terms = [CostTerm("it has a query string", 1)] if cost > 1 else []
    return [*terms, CostTerm("the page it was found on is the same but for the query", 1)] if cost > 2 else terms


def _additive(rules: Any, uri: CrawlUri) -> list[CostTerm]:
    found = []
    for rule in rules:
        amount = _asked({"additive": {"rules": [rule]}}, uri) - 1
        if amount:
            what = ", ".join(f"{key} {value}" for key, value in rule.items() if key not in ("add", "add-each", "when"))
            found.append(CostTerm(f"{rule.get('when', '?')}{f' ({what})' if what else ''}", amount))
    return found


def _asked(policy: Any, uri: CrawlUri) -> int:
    return int(plugins.resolve("cost", policy)(uri))


def _name(policy: Any) -> tuple[str, Mapping[str, Any]]:
    """Return the name of a policy and its options, from any of the forms that settings take."""
    options: Mapping[str, Any] = {}
    if isinstance(policy, Mapping):
        if "policy" in policy:
            name, options = policy["policy"], policy
        else:
            name, options = next(iter(policy.items()), ("", {}))
    else:
        name = policy
    plain = str(name).rpartition(".")[2].removesuffix("AssignmentPolicy")
    return _HERITRIX.get(plain, str(name).replace("_", "-")), options
