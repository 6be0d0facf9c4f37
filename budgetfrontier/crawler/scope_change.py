"""Changes of the scope: which of the waiting URIs a changed scope would disregard."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from budgetfrontier.reports.format import counted
from budgetfrontier.rules.scope import Scope
from budgetfrontier.settings.schema import ScopeSettings
from budgetfrontier.storage.reader import Reader

MOST, SHARE = 100, 0.01
"""The most waiting URIs, and the largest share of them, that a changed scope may disregard without consent."""

_EXAMPLES = 3
_SAY_EVERY = 1_000_000  # URIs, which take a few seconds
_FILE = "surt-file:"


class ScopeLoss(NamedTuple):
    """The number of waiting URIs (queued or future) that are out of a scope, of how many, and the first of them."""

    out: int
    of: int
    examples: tuple[str, ...]

    @property
    def too_large(self) -> bool:
        """Whether the operator has to consent first."""
        return self.out > MOST or self.out > SHARE * self.of

    def __str__(self) -> str:
        more = ", ..." if self.out > len(self.examples) else ""
        return (
            f"{self.out:,} of {counted(self.of, 'URI that waits', 'URIs that wait')} ({', '.join(self.examples)}{more})"
        )


def count_loss(path: Path, scope: Scope, *, say: Callable[[str], None]) -> ScopeLoss:
    """Count the waiting URIs that `scope` disregards in the frontier at `path`, as of its last commit.

    O(URIs), about 6 us each. A sample would not do: in the first thousand URIs, the scope of another crawl may look
    like one that drops a single rare host. `say` is called with the progress after every million URIs.
    """
    out = of = 0
    examples: list[str] = []
    with Reader(path) as reader, reader.view() as view:
        for of, uri in enumerate(view.waiting(), 1):
            if (rule := scope.objection(uri)) is not None:
                out += 1
                if out <= _EXAMPLES:
                    examples.append(f"{uri.url}: {rule}")
            if of % _SAY_EVERY == 0:
                are = "is" if out == 1 else "are"
                say(f"the scope has changed: {out:,} of the first {counted(of, 'URI')} that wait {are} out of it")
    return ScopeLoss(out, of, tuple(examples))


def identity(settings: ScopeSettings, scope: Scope) -> bytes:
    """Return a SHA-256 that identifies a scope: rules, content of their files, its seeds' hosts or domains."""
    digest = hashlib.sha256(msgspec.json.encode(settings))
    for text in (*settings.accept, *settings.reject, *(rule.rule for rule in settings.rules)):
        if text.startswith(_FILE):
            digest.update(hashlib.sha256(Path(text.removeprefix(_FILE).strip()).read_bytes()).digest())
    for kind, keys in sorted(scope.seed_keys.items()):
        digest.update(f"\n{kind}\n".encode())
        digest.update("\n".join(sorted(keys)).encode())
    return digest.digest()
