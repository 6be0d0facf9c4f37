"""Creation of the policies that the settings name; the policies themselves are in the folder `policies`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.settings import plugins
from budgetfrontier.settings.schema import FrontierSettings, GroupSettings


def canonicalization(frontier: FrontierSettings) -> Callable[[str], str]:
    """Return the canonicalization policy, `(href) -> str`; the standard one gets its options from the settings."""
    policy: Any = plugins.resolve("canonicalization", frontier.canonicalization_policy)
    if getattr(policy, "takes_options", False):
        policy = type(policy)(**msgspec.structs.asdict(frontier.canonicalization))
    return policy  # type: ignore[no-any-return]


def canonicalizer_id(frontier: FrontierSettings) -> str:
    """Return the id under which a frontier stores its canonicalization policy: the policy's `id`, or its name."""
    return str(getattr(canonicalization(frontier), "id", frontier.canonicalization_policy))


def assignment(frontier: FrontierSettings, suffix_list: str | None) -> Callable[[CrawlUri], str]:
    """Return the queue assignment policy; if it needs a public suffix list, it gets the one stored in the frontier."""
    spec = frontier.queue_assignment_policy
    policy = plugins.resolve("assignment", spec)
    if needs_suffix_list(policy) and suffix_list is not None:
        policy = plugins.resolve("assignment", spec, suffix_list=suffix_list)
    return policy


def needs_suffix_list(policy: object) -> bool:
    """Return whether an assignment policy uses public suffixes."""
    return bool(getattr(policy, "needs_suffix_list", False))


def registered_domain(suffix_list: str | None) -> Callable[[CrawlUri], str]:
    """Return the function that returns the registered domain of a URI, by the list stored in the frontier."""
    return assignment(FrontierSettings(queue_assignment_policy="registered-domain"), suffix_list)


def wants_suffix_list(frontier: FrontierSettings, groups: Sequence[GroupSettings] = ()) -> bool:
    """Return whether the queue assignment of these settings, or a group, uses public suffixes."""
    if any(group.by == "registered-domain" for group in groups):
        return True
    return needs_suffix_list(plugins.resolve("assignment", frontier.queue_assignment_policy))


def suffix_list(frontier: FrontierSettings, groups: Sequence[GroupSettings] = ()) -> str | None:
    """Return the public suffix list for a new frontier, with its default rule; None if nothing needs one."""
    from pathlib import Path

    if not wants_suffix_list(frontier, groups):
        return None
    from budgetfrontier.settings.policies import assignment as lists

    if frontier.suffix_list:
        return lists.with_default_rule(Path(frontier.suffix_list).read_text(encoding="utf-8"))
    return lists.with_default_rule(lists.bundled_suffix_list())
