"""Cost policies: the charge of an attempt at a URI to its queue's budget.

The cost is fixed when the URI is scheduled. Within a queue, cheaper URIs come before more expensive ones.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.core.patterns import Pattern
from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.errors import PolicyError


class ZeroCost:
    """Every URI costs 0: budgets never deplete, only penalties are spent (Heritrix: ZeroCostAssignmentPolicy)."""

    constant: Final = 0

    def __call__(self, uri: CrawlUri) -> int:
        return 0


class UnitCost:
    """Every URI costs 1: budgets count attempts (Heritrix: UnitCostAssignmentPolicy)."""

    constant: Final = 1

    def __call__(self, uri: CrawlUri) -> int:
        return 1


class WagCost:
    """A rough guess at how likely the URI is a crawler trap (Heritrix: WagCostAssignmentPolicy).

    1; 2 if the URI has a query string; 3 if, in addition, the page that links to it begins with the same URL up to the
    "?", so that the page seems to link to itself with other arguments.
    """

    constant: Final = None

    def __call__(self, uri: CrawlUri) -> int:
        page, _, query = uri.url.partition("?")
        if not query:
            return 1
        return 3 if uri.via is not None and uri.via.startswith(page) else 2


class AntiCalendarCost:
    """1, or 2 if the URI looks like a page of a calendar (Heritrix: AntiCalendarCostAssignmentPolicy).

    It does if it contains one of Heritrix's words, in any case, or a year from 1900 to 2099 between two non-digits.
    """

    constant: Final = None
    _words = ("calendar", "year", "month", "day", "date", "viewcal", "event", "yr=", "calendrier", "jour")
    _year = re.compile(r"(?:19|20)\d\d(?<=\D\d{4})\D", re.ASCII)  # a leading \D would take three times as long

    def __call__(self, uri: CrawlUri) -> int:
        url = uri.url.lower()
        for word in self._words:
            if word in url:
                return 2
        return 2 if self._year.search(url) else 1


class AdditiveCost:
    """1, plus the weights of all rules that match. A rule is a mapping, written as one line of YAML:

        cost_policy:
          additive:
            rules:
              - {when: depth, over: 3, add: 1}
              - {when: query-args, over: 2, add: 2}
              - {when: repeated-segments, over: 2, add-each: 5}
              - {when: hops, over: 10, add: 1}
              - {when: regex, pattern: '/calendar/\\d{4}', add: 3}
              - {when: extension, in: [pdf, zip], add: 2}

    `when` names the property that the rule tests:

    - `depth`: path segments that are not empty; "/a/b.html" has 2.
    - `query-args`: arguments of the query string that are not empty; "?a=1&b" has 2.
    - `repeated-segments`: occurrences of the most frequent path segment; "/a/b/a/b/a" has 3, "/" has 0.
    - `hops`: links followed from the seed.
    - `regex`: `pattern` matches anywhere in the normalized URI; case-sensitive unless it begins with "(?i)".
    - `extension`: the last path segment ends in one of `in`, in any case.

    The four that are counts match if the count is greater than `over` (default 0). `add` is added once; `add-each` is
    added once for each unit above `over`, so that the cost grows with the depth of a trap. Weights are integers above
    0.

    Raises PolicyError with one problem for each rule that is not valid.
    """

    constant: Final = None

    def __init__(self, *, rules: Sequence[Mapping[str, Any]] = ()) -> None:
        problems: list[str] = []
        self._weights: list[_Weight] = []
        if isinstance(rules, (str, bytes, Mapping)) or not isinstance(rules, Sequence):
            raise PolicyError("additive: rules is a list, such as [{when: depth, over: 3, add: 1}]")
        for number, rule in enumerate(rules, 1):
            try:
                self._weights.append(_compile(rule))
            except ValueError as error:
                problems.append(f"additive: rule {number}: {error}")
        if problems:
            raise PolicyError(problems)

    def __call__(self, uri: CrawlUri) -> int:
        cost = 1
        for weight in self._weights:
            cost += weight(uri)
        return cost


_Weight = Callable[[CrawlUri], int]


def _segments(uri: CrawlUri) -> list[str]:
    return [segment for segment in uris.split(uri.url)[1].split("/") if segment]


def _query_args(uri: CrawlUri) -> int:
    return sum(1 for argument in uri.url.partition("?")[2].split("&") if argument)


def _repeated_segments(uri: CrawlUri) -> int:
    return max(Counter(_segments(uri)).values(), default=0)


_COUNTS: dict[str, Callable[[CrawlUri], int]] = {
    "depth": lambda uri: len(_segments(uri)),
    "query-args": _query_args,
    "repeated-segments": _repeated_segments,
    "hops": lambda uri: len(uri.hops),
}
_OPTIONS = {
    **{when: {"over", "add", "add-each"} for when in _COUNTS},
    "regex": {"pattern", "add"},
    "extension": {"in", "add"},
}


def _compile(rule: object) -> _Weight:
    """Return a rule as a function of the URI. Raises ValueError if the rule is not valid."""
    if not isinstance(rule, Mapping):
        raise ValueError(f"{rule!r} is not a mapping such as {{when: depth, over: 3, add: 1}}")
    options = {str(name).replace("_", "-"): value for name, value in rule.items()}
    when = str(options.pop("when", "")).replace("_", "-")
    if when not in _OPTIONS:
        meant = did_you_mean(when, _OPTIONS)
        raise ValueError(f"when: {when or '(missing)'} is not one of {', '.join(_OPTIONS)}{meant}")
    if unknown := sorted(options.keys() - _OPTIONS[when]):
        takes = f"{', '.join(sorted(_OPTIONS[when]))}{did_you_mean(unknown[0], _OPTIONS[when])}"
        raise ValueError(f"{when} does not take {', '.join(unknown)}, but {takes}")
    if not options.keys() & {"add", "add-each"}:
        raise ValueError(f"{when} says no weight: give add")
    for name in {"over", "add", "add-each"} & options.keys():
        least = 0 if name == "over" else 1
        if type(options[name]) is not int or options[name] < least:
            raise ValueError(f"{name}: {options[name]!r} is not a whole number >= {least}")
    if when == "regex":
        return _regex(options.get("pattern"), options["add"])
    if when == "extension":
        return _extension(options.get("in"), options["add"])
    return _count(_COUNTS[when], options.get("over", 0), options.get("add", 0), options.get("add-each", 0))


def _count(measure: Callable[[CrawlUri], int], over: int, add: int, add_each: int) -> _Weight:
    def weight(uri: CrawlUri) -> int:
        excess = measure(uri) - over
        return add + add_each * excess if excess > 0 else 0

    return weight


def _regex(pattern: object, add: int) -> _Weight:
    if not isinstance(pattern, str):
        raise ValueError("regex needs pattern: a regular expression")
    try:
        search = Pattern(pattern).search
    except ValueError as error:
        raise ValueError(f"pattern: {pattern!r:.200}: {error}") from None
    return lambda uri: add if search(uri.url) else 0


def _extension(extensions: object, add: int) -> _Weight:
    if isinstance(extensions, str):
        extensions = [extensions]
    if not (isinstance(extensions, list | tuple) and extensions and all(isinstance(one, str) for one in extensions)):
        raise ValueError("extension needs in: a list such as [pdf, zip]")
    endings = tuple("." + one.lower().removeprefix(".") for one in extensions)

    def weight(uri: CrawlUri) -> int:
        last = uris.split(uri.url)[1].rpartition("/")[2]
        return add if last.lower().endswith(endings) else 0

    return weight


BUILTIN: dict[str, type] = {
    "zero": ZeroCost,
    "unit": UnitCost,
    "wag": WagCost,
    "anti-calendar": AntiCalendarCost,
    "additive": AdditiveCost,
}
HERITRIX = {
    "ZeroCostAssignmentPolicy": "zero",
    "UnitCostAssignmentPolicy": "unit",
    "WagCostAssignmentPolicy": "wag",
    "AntiCalendarCostAssignmentPolicy": "anti-calendar",
}
