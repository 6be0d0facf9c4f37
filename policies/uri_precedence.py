"""Precedence policies of URIs: of the URIs of a queue with the same priority, lower precedences go first.

The precedence is fixed when the URI is scheduled: 0 to 127. None stands for the cost of the URI.
"""

from __future__ import annotations

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


BUILTIN: dict[str, type] = {"cost": UriCost, "base": UriBase, "hops": UriHops}
HERITRIX = {
    "CostUriPrecedencePolicy": "cost",
    "BaseUriPrecedencePolicy": "base",
    "HopsUriPrecedencePolicy": "hops",
}
HERITRIX_OPTIONS = {"basePrecedence": "base", "navlinksOnly": "navlinks_only"}
