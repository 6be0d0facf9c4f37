"""A changed scope: which of the URIs that are queued already it would disregard."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from budgetfrontier.crawl.scope import Scope
from budgetfrontier.reports.format import counted
from budgetfrontier.settings.schema import ScopeSettings
from budgetfrontier.store.reader import Reader

MOST, SHARE = 100, 0.01
"""URIs that a scope may disregard, and the share of all that are queued, before its operator is asked."""

PAUSE_REASON = "scope"

_EXAMPLES = 3
_TOLD_EVERY = 1_000_000  # URIs: a few seconds
_FILE = "surt-file:"


class Narrowing(NamedTuple):
    """How many of the URIs that wait, queued or for later, are out of a scope; the first ones, each with its rule."""

    out: int
    of: int
    examples: tuple[str, ...]

    @property
    def too_large(self) -> bool:
        """Whether its operator is to be asked first."""
        return self.out > MOST or self.out > SHARE * self.of

    def __str__(self) -> str:
        more = ", ..." if self.out > len(self.examples) else ""
        return f"{self.out:,} of {counted(self.of, 'URI')} that wait ({', '.join(self.examples)}{more})"


def loss(path: Path, scope: Scope, *, tell: Callable[[str], None]) -> Narrowing:
    """Return what `scope` disregards of the frontier at `path`, as of its last commit.

    O(URIs), about 6 us each. All are counted, no sample: a scope that is another crawl's and one that drops a single
    rare host look alike in the first thousand. `tell` hears of every million.
    """
    out = of = 0
    examples: list[str] = []
    with Reader(path) as reader, reader.view() as view:
        for of, uri in enumerate(view.waiting(), 1):
            if (rule := scope.objection(uri)) is not None:
                out += 1
                if out <= _EXAMPLES:
                    examples.append(f"{uri.url}: {rule}")
            if of % _TOLD_EVERY == 0:
                tell(f"the scope has changed: {out:,} of the first {of:,} URIs that wait are out of it")
    return Narrowing(out, of, tuple(examples))


def identity(settings: ScopeSettings, scope: Scope) -> bytes:
    """Return what tells one scope from another: its rules, the files that these name, and the places of its seeds."""
    digest = hashlib.sha256(msgspec.json.encode(settings))
    for text in (*settings.accept, *settings.reject, *(rule.rule for rule in settings.rules)):
        if text.startswith(_FILE):
            digest.update(hashlib.sha256(Path(text.removeprefix(_FILE).strip()).read_bytes()).digest())
    for kind, keys in sorted(scope.seed_keys.items()):
        digest.update(f"\n{kind}\n".encode())
        digest.update("\n".join(sorted(keys)).encode())
    return digest.digest()
