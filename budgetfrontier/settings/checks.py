"""Checks of single values: seeds, names of policies, addresses, files."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from budgetfrontier.core import uris
from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.settings.values import brief, show

NEEDS_URLS = (
    "update_priority has to find the URI that waits: set `frontier.keep_urls: true`, too, which is fixed when a "
    "frontier is created"
)

NEEDS_EXACT = "keep_urls records every URL with its state: leave `frontier.duplicates` as it is by default, exact"
NO_PARTITIONS = "a crawl in partitions cannot have a Bloom filter: `frontier.duplicates` is exact or noop there"
NO_TOTAL_BANDWIDTH = (
    "a crawl in partitions (cluster.kafka) has no bandwidth of its own, for each partition is crawled by itself: limit "
    "queues with frontier.politeness.max_bandwidth"
)

STAR: Final = "star"
"""The total budget of groups that follows from the links to their registered domains."""
LONGEST_TOPIC: Final = 249 - len("-suffixes")
"""Characters of the name of a crawl in partitions: those of a topic of Kafka, without the suffix."""

_GZIP = b"\x1f\x8b"  # with which such files begin


PRELOADED_IN_PARTITIONS = (
    "a crawl in partitions (cluster.kafka) cannot have the policy preloaded: each owner would have to read the same "
    "file; give `precedence` with the URIs instead"
)
LABELS_IN_PARTITIONS = (
    "quotas.label is not possible in a crawl in partitions: the URIs with a label are in all of them; give quotas.host "
    "or quotas.queue"
)
BY_ADDRESS = (
    "the queue of a seed depends on the address of its host here, which is not known yet: give the seed a `queue`, or "
    "write an override for its host instead of its budget or sheet"
)


def is_named(url: str | None) -> bool:
    """Return whether the host of a URL, as written, has a name, so that its address is not known here."""
    try:
        return uris.own_address(uris.host(uris.parse(url or ""))) is None
    except InvalidUrl:  # it is refused elsewhere
        return False


def floor_doubt(frontier: Any, of_some: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the warning of a precedence floor at which all queues are, with what overrides and sheets set."""
    floor, precedence = frontier.precedence_floor, frontier.precedence
    if floor is None or precedence < floor or frontier.precedence_policy != "base":
        return None
    if any(name.startswith("precedence") for values in of_some for name in values):
        return None
    return f"no queue is crawled: the precedence of all is {precedence}, and from {floor} on they are INELIGIBLE"


def sheet_objection(name: str, sheets: Mapping[str, object]) -> str:
    """Return the problem of a sheet that does not exist."""
    hint = did_you_mean(name, list(sheets), quote='"')
    return f'there is no sheet "{brief(name)}"{hint}'


def topics_objection(crawl: str) -> str | None:
    """Return why a crawl of this name cannot have topics of Kafka; None if it can."""
    if re.fullmatch(r"[A-Za-z0-9._-]+", crawl) and len(crawl) <= LONGEST_TOPIC:
        return None
    return (
        f"{show(crawl)} cannot name the topics of a crawl in partitions (cluster.kafka): use ASCII letters, digits, ., "
        f"_ and -, {LONGEST_TOPIC} at the most"
    )


NO_LIMIT = "set politeness, max_in_flight, total_budget, max_bandwidth or quotas, here or for `group:NAME` in overrides"
"""The remedy for a group of queues that has no limit."""


def group_objection(name: str, match: str | None, by: str | None, total_budget: int | str) -> str | None:
    """Return what is wrong with the definition of a group; None if nothing is."""
    if not name:
        return "a group needs a name"
    if (match is None) == (by is None):
        return "a group has either a match, which its queues fit, or a by: then there is a group for each value"
    if total_budget == STAR and by != "registered-domain":
        return "total_budget: star needs by: registered-domain, for its budgets follow from the links to these domains"
    return None


def partitions_objection(by: str | None, assignment: str | None, total_budget: int | str) -> str | None:
    """Return why a group cannot be in a crawl in partitions; None if one partition knows all about it."""
    if total_budget == STAR:
        return (
            "total_budget: star is not possible in a crawl in partitions (cluster.kafka): its ranks are those of all "
            "domains, and no partition sees all links; give a number"
        )
    if by == "registered-domain" and assignment == "registered-domain":
        return None
    return (
        "the queues of this group may be in several partitions (cluster.kafka), which do not know of each other; only "
        "a group `by: registered-domain` is whole, with `queue_assignment_policy: registered-domain`"
    )


def policy_name(spec: Any) -> str | None:
    """Return the name in a policy's spec: "name", {"name": options} or {"policy": name, **options}; None if invalid."""
    if isinstance(spec, Mapping):
        spec = spec["policy"] if "policy" in spec else next(iter(spec)) if len(spec) == 1 else None
    return spec if isinstance(spec, str) and spec else None


def is_address(value: Any) -> bool:
    """Return whether a value is "ip:port", with brackets around an IPv6 address."""
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[0-9.]+):([1-9][0-9]{0,4})", value) if isinstance(value, str) else None
    if not match or int(match[2]) > 65535:
        return False
    try:
        ipaddress.ip_address(match[1].strip("[]"))
    except ValueError:
        return False
    return True


def objection_to_file(path: Path, *, gzip: bool = False) -> str | None:
    """Return why a path does not name a file of text lines; None if it does, or if it cannot be read now.

    `gzip`: such a file may be compressed.
    """
    name = f'"{brief(str(path), 1000)}"'
    try:
        if path.is_dir():
            return f"{name} is a folder; give a file"
        if not path.is_file():
            fault = "is a pipe or a device, which cannot be read more than once; give a file"
            return f"{name} {fault}" if path.exists() else f"there is no file {name}"
        with path.open("rb") as file:
            packed = not gzip and file.read(len(_GZIP)) == _GZIP
    except PermissionError:  # reading it will fail with an error
        return None
    except (OSError, ValueError):  # the name is too long, or contains a NUL
        return f"there is no file {name}"
    return f"{name} is compressed; decompress it with gunzip, and give the file of text" if packed else None
