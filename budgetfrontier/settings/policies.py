"""The policies that settings name, made with what settings give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from budgetfrontier import plugins
from budgetfrontier.model import CrawlUri
from budgetfrontier.settings.schema import FrontierSettings


def canonicalization(frontier: FrontierSettings) -> Callable[[str], str]:
    """The canonical form of normalized URLs, `(href) -> str`; the standard policy has the options of the settings."""
    policy: Any = plugins.resolve("canonicalization", frontier.canonicalization_policy)
    if getattr(policy, "takes_options", False):
        policy = type(policy)(**msgspec.structs.asdict(frontier.canonicalization))
    return policy  # type: ignore[no-any-return]


def canonicalizer_id(frontier: FrontierSettings) -> str:
    """What a frontier remembers its canonical form by: the policy's own `id`, or the name it was given."""
    return str(getattr(canonicalization(frontier), "id", frontier.canonicalization_policy))


def assignment(frontier: FrontierSettings, suffix_list: str | None) -> Callable[[CrawlUri], str]:
    """The queue key of a URI; a policy that needs a public suffix list gets the frontier's own."""
    policy: Any = plugins.resolve("assignment", frontier.queue_assignment_policy)
    if needs_suffix_list(policy) and suffix_list is not None:
        policy = type(policy)(suffix_list=suffix_list)
    return policy  # type: ignore[no-any-return]


def needs_suffix_list(policy: object) -> bool:
    """Whether an assignment policy looks at public suffixes."""
    return bool(getattr(policy, "needs_suffix_list", False))


def suffix_list(frontier: FrontierSettings) -> str | None:
    """The public suffix list to begin a frontier with, its default rule written down; None if none is needed."""
    from pathlib import Path

    if not needs_suffix_list(plugins.resolve("assignment", frontier.queue_assignment_policy)):
        return None
    from budgetfrontier.policies import assignment as lists

    if frontier.suffix_list:
        return lists.with_default_rule(Path(frontier.suffix_list).read_text(encoding="utf-8"))
    return lists.with_default_rule(lists.bundled_suffix_list())
