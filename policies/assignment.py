"""Which queue a URI belongs to. A queue's key is all there is to a queue: URIs with one key wait for one another.

`by_authority` says that a key depends on scheme, host and port alone, so that it need be computed once for each. A
policy of one's own that says nothing is asked for every URI.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import can_ada

from budgetfrontier import uris
from budgetfrontier.errors import PolicyError
from budgetfrontier.model import CrawlUri

_DEFAULT = "*"  # https://github.com/publicsuffix/list/wiki/Format#formal-algorithm


class Hostname:
    """One queue a host and port: "example.org", "example.org:8080" (Heritrix: HostnameQueueAssignmentPolicy).

    Other than in Heritrix, http and https share a queue: it is one host that must not be hurried.
    """

    by_authority: Final = True

    def __call__(self, uri: CrawlUri) -> str:
        return uris.authority(uri.url)


class SurtAuthority:
    """The same queues as `hostname`, in an order that keeps domains together: "org,example,www,".

    Heritrix: SurtAuthorityQueueAssignmentPolicy.
    """

    by_authority: Final = True

    def __call__(self, uri: CrawlUri) -> str:
        return uris.surt_authority(uris.authority(uri.url))


class RegisteredDomain:
    """One queue a domain that somebody could register: "example.co.uk" for "www.example.co.uk:8080".

    What is registered is read from a public suffix list, its private part included: "blog.github.io" is a domain of its
    own. Where no rule of the list fits, its default rule does: "intra.corp" for "www.intra.corp". Addresses,
    "localhost", and hosts that are a public suffix themselves are their own key.

    `suffix_list` is the text of a public suffix list; without it, the one that tldextract brings along. A frontier
    stores the text and passes it back, because another list would move queues in mid-crawl. So the default rule counts
    only if the text has it, as a line "*" that `with_default_rule` adds: frontiers that were begun without it keep such
    hosts whole. The list is read at the
    first URI (6 ms, 1 MB); then about 1 us for a new host. Heritrix: TopmostAssignedSurtQueueAssignmentPolicy (1),
    AssignmentLevelSurtQueueAssignmentPolicy (3).
    """

    by_authority: Final = True
    needs_suffix_list: Final = True

    def __init__(self, *, suffix_list: str | None = None) -> None:
        if suffix_list is not None and "\n" not in suffix_list:
            raise PolicyError("registered-domain: suffix_list is the text of a public suffix list, not a file's name")
        self._suffix_list = suffix_list
        self._rules: frozenset[str] = frozenset()
        self._domain = lru_cache(maxsize=65536)(self._look_up)

    def __call__(self, uri: CrawlUri) -> str:
        return self._domain(uris.host(uri.url))

    def _look_up(self, host: str) -> str:
        # Not by tldextract: its import takes 0.1 s, it reads lists from URLs only, and its next version may differ.
        rules = self._rules = self._rules or _rules(self._suffix_list or with_default_rule(bundled_suffix_list()))
        labels = host.removesuffix(".").split(".")
        for start in range(len(labels)):  # the longest suffix first
            suffix, parent = ".".join(labels[start:]), ".".join(labels[start + 1 :])
            if "!" + suffix in rules:
                return suffix
            if suffix in rules or "*." + parent in rules:
                return ".".join(labels[start - 1 :]) if start else host
        if _DEFAULT in rules and len(labels) > 1 and not (labels[-1].isdigit() or host.startswith("[")):
            return ".".join(labels[-2:])
        return host


def with_default_rule(suffix_list: str) -> str:
    """Return a public suffix list with its default rule written down: what no rule fits is below its last label."""
    return f"{suffix_list}\n{_DEFAULT}\n"


def _rules(suffix_list: str) -> frozenset[str]:
    """The rules of a public suffix list (https://publicsuffix.org/list/), its names as they are in a href."""
    lines = (line.split()[0] for line in suffix_list.splitlines() if line.strip() and not line.startswith("//"))
    return frozenset(rule if rule.isascii() else can_ada.idna_encode(rule).decode() for rule in lines)


def bundled_suffix_list() -> str:
    """The text of the public suffix list that the installed tldextract brings along, without importing it."""
    package = find_spec("tldextract")
    if package is None or package.origin is None:
        raise PolicyError("tldextract is not installed, and with it no public suffix list; set frontier.suffix_list")
    return Path(package.origin).with_name(".tld_set_snapshot").read_text(encoding="utf-8")


class Single:
    """One queue for everything, "all": a plain ordered queue, for a single site or for tests."""

    by_authority: Final = True

    def __call__(self, uri: CrawlUri) -> str:
        return "all"


BUILTIN: dict[str, type] = {
    "hostname": Hostname,
    "surt-authority": SurtAuthority,
    "registered-domain": RegisteredDomain,
    "single": Single,
}
HERITRIX = {
    "HostnameQueueAssignmentPolicy": "hostname",
    "SurtAuthorityQueueAssignmentPolicy": "surt-authority",
    "TopmostAssignedSurtQueueAssignmentPolicy": "registered-domain",
    "AssignmentLevelSurtQueueAssignmentPolicy": "registered-domain",
}
