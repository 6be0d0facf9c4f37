"""The owner of the tables `links` and `degrees`: which registered domains link to which, as far as URIs arrive with it.

Links are gathered in memory, each pair of domains once, and written with the next commit. Budgets follow from
the in-degrees at the last ranking: a row whose in-degree has changed since keeps the one that it had then, too.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import xxhash

from budgetfrontier.core import uris
from budgetfrontier.core.bounded_cache import BoundedCache
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.rules import star
from budgetfrontier.settings.grouping import LONGEST_VALUE, Grouping
from budgetfrontier.settings.schema import StarSettings
from budgetfrontier.storage import keys
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.records import Counters, LinksRow, decode_links

MOST_PAIRS = 1 << 16
"""Pairs of domains kept in memory at the most, before they are written."""
CACHE = 1 << 15
"""Domains of authorities, and budgets of domains, that are kept in memory at the most."""
_AUTHORITY = re.compile(r"https?://[a-z0-9._-]+(:[0-9]+)?")  # what follows it in a URL cannot change its host


class LinkTable:
    """Counts the registered domains that link to each one. One look-up for each domain linked to and commit."""

    def __init__(self, env: Environment, counters: Counters) -> None:
        self._env = env
        self._counters = counters
        self._new: defaultdict[str, set[bytes]] = defaultdict(set)
        self._pairs = 0
        self._domains: BoundedCache[str, str] = BoundedCache(CACHE)
        self._budgets: BoundedCache[str, int] = BoundedCache(CACHE)
        self._grouping = Grouping(())
        self._star = StarSettings()

    def use(self, grouping: Grouping, settings: StarSettings) -> None:
        """Put settings in force: the registered domains are those of the groups."""
        self._grouping, self._star = grouping, settings
        self._domains.clear()
        self._budgets.clear()

    # -- links

    def note(self, batch: Iterable[object], via: CrawlUri | None) -> None:
        """Note the links that URIs stand for: each from the page on which it was found, or from `via`. Policies did
        not fail for them."""
        page = None if via is None else self._domain(via.url)
        for given in batch:
            if isinstance(given, str):
                url, source = given, page
            elif isinstance(given, CrawlUri):
                url, source = given.url, self._domain(given.via) if given.via else page
            else:
                continue
            if source is None:
                continue
            target = self._domain(url)
            if target is not None and target != source:
                known, before = self._new[target], len(self._new[target])
                known.add(xxhash.xxh3_64_digest(source.encode()))
                self._pairs += len(known) - before
        if self._pairs >= MOST_PAIRS:
            self.flush()

    def _domain(self, url: str) -> str | None:
        """Return the registered domain of a URL; None for one that cannot be crawled."""
        authority = url[: url.find("/", 8)]
        domain = self._domains.get(authority)
        if domain is None:
            try:
                domain = self._grouping.registered_domain(CrawlUri(uris.parse(url)))
            except InvalidUrl:
                return None
            if len(domain.encode()) > LONGEST_VALUE:
                return None
            if _AUTHORITY.fullmatch(authority):
                self._domains.put(authority, domain)
        return domain

    def flush(self) -> None:
        """Write the links that were noted."""
        if not self._new:
            return
        rows: list[tuple[bytes, bytes]] = []
        changes = Counter[int]()
        for domain in sorted(self._new, key=str.encode):
            row = self._row(domain) or LinksRow(0, b"")
            before = row.degree
            if not star.add(row, self._new[domain]):
                continue
            if row.degree != before:
                if row.changed_after != self._counters.rankings:
                    row.ranked, row.changed_after = before, self._counters.rankings
                changes[before] -= 1
                changes[row.degree] += 1
            rows.append((domain.encode(), encode(row)))
        self._new.clear()
        self._pairs = 0
        self._env.txn.cursor(self._env.db[keys.LINKS]).putmulti(rows)
        del changes[0]  # domains without links have no row
        self._count(changes)
        self._env.wrote(sum(len(value) for _, value in rows))

    def _count(self, changes: Counter[int]) -> None:
        txn, db = self._env.txn, self._env.db[keys.DEGREES]
        for degree, change in sorted(changes.items()):
            self._counters.unranked = True
            key = keys.u32.pack(degree)
            stored = txn.get(key, db=db)
            number = change + (0 if stored is None else keys.u32.unpack(stored)[0])
            if number:
                txn.put(key, keys.u32.pack(number), db=db)
            elif stored is not None:
                txn.delete(key, db=db)

    def _row(self, domain: str) -> LinksRow | None:
        value = self._env.txn.get(domain.encode(), db=self._env.db[keys.LINKS])
        return None if value is None else decode_links(value)

    # -- budgets

    def budget(self, domain: str) -> int:
        """Return the total budget of a registered domain by the last ranking; "": of one to which no links lead."""
        budget = self._budgets.get(domain)
        if budget is None:
            row, counters = self._row(domain) if domain else None, self._counters
            degree = 0 if row is None else star.ranked(row, counters.rankings)
            budget = star.budget(degree, counters.lowest_degree, counters.highest_degree, self._star)
            self._budgets.put(domain, budget)
        return budget

    def has_news(self) -> bool:
        """Return whether an in-degree has changed since the last ranking."""
        self.flush()
        return self._counters.unranked

    def rank(self) -> None:
        """Rank all domains by their in-degrees as they are now. O(settings.top)."""
        self.flush()
        counters = self._counters
        counters.rankings += 1
        counters.unranked = False
        counters.lowest_degree, counters.highest_degree = star.cut_offs(self._degrees(), self._star.top)
        self._budgets.clear()

    def _degrees(self) -> Iterator[tuple[int, int]]:
        """Yield the in-degrees that domains have, with the number of these domains, the highest first."""
        cursor = self._env.txn.cursor(self._env.db[keys.DEGREES])
        if cursor.last():
            for key, value in cursor.iterprev():
                if key != keys.SENTINEL:
                    yield keys.u32.unpack(key)[0], keys.u32.unpack(value)[0]
