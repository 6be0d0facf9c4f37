"""Precedence policies of URIs: of the URIs of a queue with the same priority, lower precedences go first.

The precedence is fixed when the URI is scheduled: 0 to 127. None stands for the cost of the URI.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.errors import PolicyError

LINK = "L"
"""The character of a link in the path from the seed to a URI."""


class UriCost:
    """The cost of the URI: cheaper ones go first (Heritrix: CostUriPrecedencePolicy)."""

    def __call__(self, uri: CrawlUri) -> int | None:
        return None


class UriBase:
    """The same for every URI, `base`, whatever they cost (Heritrix: BaseUriPrecedencePolicy)."""

    def __init__(self, *, base: int = 1) -> None:
        if type(base) is not int or not 0 <= base <= 127:
            raise PolicyError(f"base is a whole number from 0 to 127, not {base!r:.100}")
        self._base = base

    def __call__(self, uri: CrawlUri) -> int | None:
        return self._base


class UriHops:
    """`base`, and one more for each link on the path from the seed (Heritrix: HopsUriPrecedencePolicy).

    Without `navlinks_only`, each step of the path counts: redirects and embedded files, too.
    """

    def __init__(self, *, base: int = 1, navlinks_only: bool = True) -> None:
        self._base = UriBase(base=base)
        if type(navlinks_only) is not bool:
            raise PolicyError(f"navlinks_only is true or false, not {navlinks_only!r:.100}")
        self._navlinks_only = navlinks_only

    def __call__(self, uri: CrawlUri) -> int | None:
        hops = uri.hops.count(LINK) if self._navlinks_only else len(uri.hops)
        return (self._base(uri) or 0) + hops


class UriPreloaded:
    """`base` and the value that the frontier has read for the URI from `file`, or what the policy `default` says if
    there is none (Heritrix: PreloadedUriPrecedencePolicy).
    """

    def __init__(self, *, file: str = "", base: int = 1, default: str | Mapping[str, Any] = "base") -> None:
        from budgetfrontier.settings import plugins  # it imports this module

        if not (type(file) is str and file):
            raise PolicyError(f"file is the path of a file with a URI and its precedence per line, not {file!r:.100}")
        others = [name for name in BUILTIN if name != "preloaded"]
        self.file = file
        UriBase(base=base)  # raises
        self._base = base
        found = plugins.resolve(KIND, default) if plugins.is_builtin(KIND, default) else self
        if isinstance(found, UriPreloaded):
            raise PolicyError(f"default is one of {', '.join(others)}, perhaps with options, not {default!r:.100}")
        self._default = found
        self._spec = {"file": file, "base": base, "default": default}
        self.value_of: Callable[[str, str], int | None] = _unread
        """Returns the value of a file for a normalized URL; an open frontier sets it."""

    def __call__(self, uri: CrawlUri) -> Any:
        value = self.value_of(self.file, uri.url)
        return self._default(uri) if value is None else max(self._base + value, 0)

    def spec_with(self, file: str) -> dict[str, Any]:
        """Return the spec of this policy with another path of its file."""
        return {"preloaded": self._spec | {"file": file}}


def _unread(file: str, url: str) -> int | None:
    """Return None: nothing has been read."""
    return None


KIND = "uri_precedence"
BUILTIN: dict[str, type] = {"cost": UriCost, "base": UriBase, "hops": UriHops, "preloaded": UriPreloaded}
HERITRIX = {
    "CostUriPrecedencePolicy": "cost",
    "BaseUriPrecedencePolicy": "base",
    "HopsUriPrecedencePolicy": "hops",
    "PreloadedUriPrecedencePolicy": "preloaded",
}
HERITRIX_OPTIONS = {
    "basePrecedence": "base",
    "navlinksOnly": "navlinks_only",
    "defaultUriPrecedencePolicy": "default",
}
