"""Queue assignment policies: which queue a URI belongs to.

A queue is identified by its key alone: URIs with the same key wait for one another. `by_authority` declares that the
key depends on scheme, host and port only, so that the engine computes it once for each of these. A custom policy
without this attribute is called for every URI. `one_host` declares that all URIs of a queue have the same host, so that
a pattern of hosts matches all of them or none.
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
    """One queue per host and port: "example.org", "example.org:8080" (Heritrix: HostnameQueueAssignmentPolicy).

    Unlike in Heritrix, http and https share a queue: politeness is owed to the host, not to the scheme.
    """

    by_authority: Final = True
    one_host: Final = True

    def __call__(self, uri: CrawlUri) -> str:
        return uris.authority(uri.url)


class SurtAuthority:
    """The same queues as `hostname`, with keys that sort by domain: "org,example,www,".

    Heritrix: SurtAuthorityQueueAssignmentPolicy.
    """

    by_authority: Final = True
    one_host: Final = True

    def __call__(self, uri: CrawlUri) -> str:
        return uris.surt_authority(uris.authority(uri.url))


class RegisteredDomain:
    """One queue per registered domain: "example.co.uk" for "www.example.co.uk:8080".

    Registered domains follow a public suffix list, its private section included: "blog.github.io" is a domain. Where no
    rule of the list matches, its default rule does: "intra.corp" for "www.intra.corp". IP addresses, "localhost", and
    hosts that are public suffixes themselves are their own key.

    `suffix_list` is the text of a public suffix list (default: the one bundled with tldextract). A frontier stores the
    text and passes it back, because a different list would move queues in mid-crawl. For the same reason, the default
    rule applies only if the text has it, as a line "*" that `with_default_rule` adds: frontiers created before that
    line existed keep the whole host as the key there. The list is parsed at the first URI (6 ms, 1 MB); after that, a
    new host takes about 1 us. Heritrix: TopmostAssignedSurtQueueAssignmentPolicy (1),
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
        # Not by tldextract: its import takes 0.1 s, it reads lists from URLs only, and its results may change.
        rules = self._rules = self._rules or _rules(self._suffix_list or with_default_rule(bundled_suffix_list()))
        labels = host.split(".")
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
    """Return a public suffix list with the default rule added: where none matches, the last label is the suffix."""
    return f"{suffix_list}\n{_DEFAULT}\n"


def _rules(suffix_list: str) -> frozenset[str]:
    """Return the rules of a public suffix list (https://publicsuffix.org/list/), names encoded as in a href (IDNA)."""
    lines = (line.split()[0] for line in suffix_list.splitlines() if line.strip() and not line.startswith("//"))
    return frozenset(rule if rule.isascii() else can_ada.idna_encode(rule).decode() for rule in lines)


def bundled_suffix_list() -> str:
    """Return the text of the public suffix list bundled with the installed tldextract, without importing it.

    Raises PolicyError if tldextract is not installed.
    """
    package = find_spec("tldextract")
    if package is None or package.origin is None:
        raise PolicyError("tldextract is not installed, and with it no public suffix list; set frontier.suffix_list")
    return Path(package.origin).with_name(".tld_set_snapshot").read_text(encoding="utf-8")


class Single:
    """One queue for all URIs, with the key "all": a plain ordered queue, for a single site or for tests."""

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
