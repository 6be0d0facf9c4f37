"""Creation of the policies that the settings name; the policies themselves are in the folder `policies`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.errors import PolicyError, pass_on_interruption
from budgetfrontier.settings import plugins
from budgetfrontier.settings.schema import FrontierSettings, GroupSettings

PRELOADED_IN_PARTITIONS = (
    "a crawl in partitions (cluster.kafka) cannot have the policy preloaded: each owner would have to read the same "
    "file; give `precedence` with the URIs instead"
)


def canonicalization(frontier: FrontierSettings) -> Callable[[str], str]:
    """Return the canonicalization policy, `(href) -> str`; the standard one gets its options from the settings."""
    policy: Any = plugins.resolve("canonicalization", frontier.canonicalization_policy)
    if getattr(policy, "takes_options", False):
        policy = type(policy)(**msgspec.structs.asdict(frontier.canonicalization))
    return policy  # type: ignore[no-any-return]


def canonicalizer_id(frontier: FrontierSettings) -> str:
    """Return the id under which a frontier stores its canonicalization policy: the policy's `id`, or its name."""
    return str(getattr(canonicalization(frontier), "id", frontier.canonicalization_policy))


def assignment(
    frontier: FrontierSettings, suffix_list: str | None, address_of: Callable[[str], str | None] = uris.own_address
) -> Callable[[CrawlUri], str]:
    """Return the queue assignment policy; if it needs a public suffix list, it gets the one stored in the frontier.

    One that goes by addresses is asked with that of the URI's host, which `address_of` returns if it is known.
    """
    spec = frontier.queue_assignment_policy
    policy = plugins.resolve("assignment", spec)
    if needs_suffix_list(policy) and suffix_list is not None:
        policy = plugins.resolve("assignment", spec, suffix_list=suffix_list)
    if getattr(policy, "by_address", False):
        return lambda uri: policy(uri, address=address_of(uris.host(uri.url)))
    return policy


def former_assignments(
    frontier: FrontierSettings,
    specs: Sequence[Any],
    suffix_list: str | None,
    address_of: Callable[[str], str | None],
) -> list[Callable[[CrawlUri], str | None]]:
    """Return the queue assignments of settings before, as far as they can still be made.

    Each returns the key that a URI had by it; None if it fails now.
    """
    made = []
    for spec in specs:
        try:
            policy = assignment(replace(frontier, queue_assignment_policy=spec), suffix_list, address_of)
        except PolicyError:
            continue
        made.append(_lenient(policy))
    return made


def _lenient(policy: Callable[[CrawlUri], object]) -> Callable[[CrawlUri], str | None]:
    def key(uri: CrawlUri) -> str | None:
        try:
            found = policy(uri)
        except Exception as e:  # a policy of the user's, which may raise anything
            pass_on_interruption(e)
            return None
        return found if isinstance(found, str) else None

    return key


def goes_by_address(frontier: FrontierSettings) -> bool:
    """Return whether the queue of a URI depends on the IP address of its host."""
    return bool(getattr(plugins.resolve("assignment", frontier.queue_assignment_policy), "by_address", False))


def has_parallel_queues(frontier: FrontierSettings) -> bool:
    """Return whether the queue assignment divides the URIs of a host among several queues."""
    return bool(getattr(plugins.resolve("assignment", frontier.queue_assignment_policy), "in_parallel", False))


def partition_objection(frontier: FrontierSettings) -> tuple[str, str] | None:
    """Return the name of the setting with which a crawl cannot be in partitions, and why; None if there is none."""
    if goes_by_address(frontier):
        return "queue_assignment_policy", (
            "a crawl in partitions needs queue keys that do not depend on the addresses of hosts, for the key of a "
            "queue determines its partition: use another queue assignment, such as registered-domain"
        )
    if preloaded_files([frontier.uri_precedence_policy]):
        return "uri_precedence_policy", PRELOADED_IN_PARTITIONS
    if not frontier.defer_to_previous:
        return "defer_to_previous", "a crawl in partitions needs true: no URI can move to a queue of another partition"
    return None


def preloaded_file(spec: Any) -> str | None:
    """Return the file of precedences that a precedence policy of URIs reads; None for any other policy."""
    if spec == "cost" or not plugins.is_builtin("uri_precedence", spec):  # the default imports no policies
        return None
    return getattr(plugins.resolve("uri_precedence", spec), "file", None)


def preloaded_files(specs: Iterable[Any]) -> list[str]:
    """Return the files of precedences that precedence policies of URIs read, each once, in their order."""
    return list(dict.fromkeys(file for spec in specs if (file := preloaded_file(spec)) is not None))


def uri_precedence(spec: Any, value_of: Callable[[str, str], int | None] | None) -> Callable[[CrawlUri], object]:
    """Return the precedence policy of URIs; `value_of` returns the value of a URL in a file, as far as it was read."""
    policy: Any = plugins.resolve("uri_precedence", spec)
    if value_of is not None and preloaded_file(spec) is not None:
        policy.value_of = value_of
    return policy  # type: ignore[no-any-return]


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
