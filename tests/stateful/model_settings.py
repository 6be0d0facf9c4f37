"""The settings of a frontier, from the options of the reference model."""

from __future__ import annotations

from typing import Any

from budgetfrontier import Settings
from tests.stateful.model import ASSOCIATIONS, PRELOADED, SHEETS

GROUPS: tuple[tuple[dict[str, Any], ...], ...] = (
    ({"name": "of-a", "match": "domain:a.test", "politeness": True},),
    ({"name": "all", "match": "*", "max_in_flight": 2, "total_budget": 5},),
    ({"name": "sites", "by": "surt", "segments": 2, "politeness": True, "max_in_flight": 2},),
    ({"name": "one", "match": "queue:forced", "max_in_flight": 1}, {"name": "each", "by": "host", "total_budget": 4}),
    ({"name": "busy", "match": "queue:?.test", "max_in_flight": 1},),
    ({"name": "machine", "by": "ip", "politeness": True},),
    ({"name": "domain", "by": "registered-domain", "total_budget": "star"},),
    (
        {"name": "few", "match": "domain:a.test", "quotas": {"urls": 3}},
        {"name": "one", "by": "host", "max_in_flight": 1},
    ),
    ({"name": "tag", "by": "label", "total_budget": 4}, {"name": "busy", "match": "queue:?.test", "max_in_flight": 1}),
    ({"name": "slow", "match": "queue:?.test", "max_bandwidth": 70},),
)

IN_PYTHON = (
    *("sheets", "keep_urls", "update_priority", "min_interval", "groups", "max_bandwidth", "queue_bandwidth"),
    *("precedence_floor", "precedence_policy", "uri_precedence_policy", "target_active", "guards.windows"),
    *("quotas.host", "quotas.queue", "quotas.label"),
)
"""The settings that may keep the compiled kernel from taking turns."""

_NESTED = (
    "per_queue_concurrency", "polite", "max_retries", "retry_delay", "status_delay", "retry_scope", "backoff",
    "min_interval", "groups", "expected", "queue_bandwidth",
)  # fmt: skip


def settings_of(options: dict[str, Any], *, commit_operations: int = 10**9) -> Settings:
    """The settings of a frontier that commits after so many operations, not by time."""
    politeness: dict[str, Any] = {name: options[name] for name in ("per_queue_concurrency", "min_interval")}
    politeness["max_bandwidth"] = options["queue_bandwidth"]
    if not options["polite"]:
        politeness |= {"delay_factor": 0.0, "min_delay": 0.0, "max_delay": 0.0}
    retry = {name: options[f"{prefix}{name}"] for prefix, name in (("", "max_retries"), ("retry_", "delay"))}
    frontier = {name: value for name, value in options.items() if name not in (*_NESTED, "sheets") and "." not in name}
    for name, value in options.items():
        if "." in name:
            frontier.setdefault(name.partition(".")[0], {})[name.partition(".")[2]] = value
    frontier["update_priority"] &= options["keep_urls"]
    frontier["bloom"] = {"expected": options["expected"], "error": 1e-12}
    retry |= {"scope": options["retry_scope"], "status_delay": options["status_delay"]}
    frontier |= {"politeness": politeness, "retry": retry}
    frontier |= {} if options["backoff"] else {"backoff": {"delay": 0.0}}
    frontier["star"] = {"default_budget": 2, "max_budget": 6, "top": 2, "epoch": 100}
    frontier |= {"commit_interval": 3600.0, "commit_operations": commit_operations}
    found: dict[str, Any] = {"crawl": "machine", "frontier": frontier, "groups": list(options["groups"])}
    found["sheets"] = {"unused": {"uri_precedence_policy": {"preloaded": {"file": str(PRELOADED)}}}}
    if options["sheets"]:
        there = [{"sheet": name, "match": match, "order": order} for (name, match), order in ASSOCIATIONS.items()]
        found["sheets"] |= SHEETS
        found["associations"] = there
    return Settings.from_dict(found)
