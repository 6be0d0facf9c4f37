"""The overrides that match by authority and queue, and those that may match by path, found without trying each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from budgetfrontier.core import uris
from budgetfrontier.settings.matching import Match, spellings

Numbered = tuple[int, Match]


class AuthorityIndex:
    """Overrides by their matches. Each has a number; matches of everything, and regexes, are not here.

    Exact names are looked up, so that thousands of them cost nothing. A SURT prefix is filed under the domain that it
    names, and compared with the authorities at and below that domain only. Each glob is tried.
    """

    def __init__(self) -> None:
        self._queues: dict[str, list[int]] = {}
        self._hosts: dict[str, list[int]] = {}
        self._domains: dict[str, tuple[list[int], list[Numbered]]] = {}
        """By domain: the overrides that name it, and the SURT prefixes at or below it."""
        self._surts: list[Numbered] = []
        """All SURT prefixes."""
        self._anywhere: list[Numbered] = []
        """The SURT prefixes that name no domain: they may match any authority."""
        self._globs: list[tuple[int, bool, Callable[[str], Any]]] = []

    def add(self, number: int, match: Match) -> None:
        """File a match, which is on a queue key or an authority, or has SURT prefixes."""
        if match.keys:
            for key in spellings(match.keys):
                self._queues.setdefault(key, []).append(number)
        elif match.prefixes:
            self._add_surt(number, match)
        elif match.exact is None:
            self._globs.append((number, match.kind == "queue", match.test))
        elif match.kind == "host":
            self._hosts.setdefault(match.exact, []).append(number)
        else:
            self._below(match.exact)[0].append(number)

    def _add_surt(self, number: int, match: Match) -> None:
        self._surts.append((number, match))
        # All labels but the last, which may be the beginning of one: "com,example,www" names example.com.
        labels = match.prefixes[0].partition("(")[2].partition(")")[0].split(",")[:-1]
        if labels:
            self._below(".".join(reversed(labels)))[1].append((number, match))
        else:
            self._anywhere.append((number, match))

    def _below(self, domain: str) -> tuple[list[int], list[Numbered]]:
        return self._domains.setdefault(domain, ([], []))

    def find(self, prefix: str, queue: str) -> tuple[tuple[int, ...], Sequence[Numbered]]:
        """Return the overrides that match all URIs of an authority in a queue, in order, and those decided by path.

        `prefix` is the start of a href up to its path. O(labels of the host + globs + SURT prefixes at its domains).
        """
        host = prefix[prefix.find("/") + 2 :]
        # Of other authorities, such as those with a port, the SURT is not the host backwards.
        plain = not (":" in host or "@" in host or "," in host or host[-1:] == ".")
        surts = self._anywhere
        if not plain:
            host, surts = uris.host(prefix + "/"), self._surts
        matching: list[int] = []
        if host in self._hosts:
            matching += self._hosts[host]
        if queue in self._queues:
            matching += self._queues[queue]
        if domains := self._domains:
            labels = host.split(".")
            domain = labels.pop()
            while True:
                if domain in domains:
                    named, below = domains[domain]
                    matching += named
                    surts = [*surts, *below] if plain else surts
                if not labels:
                    break
                domain = f"{labels.pop()}.{domain}"
        for number, on_queue, test in self._globs:
            if test(queue if on_queue else host):
                matching.append(number)
        paths: list[Numbered] = []
        if surts:
            surt = uris.surt(prefix + "/")
            for number, match in surts:
                if not match.by_authority:
                    paths.append((number, match))
                elif match.test(surt):
                    matching.append(number)
        return tuple(sorted(matching)) if matching else (), paths
