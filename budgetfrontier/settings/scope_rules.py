"""The rules of a scope: a table of all kinds, with their syntax and their tests. `rules/scope.py` knows the seeds."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.core.spelling import nearest
from budgetfrontier.errors import SettingsError
from budgetfrontier.settings.matching import LONGEST, glob, parse_match
from budgetfrontier.settings.surts import SurtPrefixes
from budgetfrontier.settings.values import brief, read_size, show


class Header(NamedTuple):
    """The part of a response header that rules test: media type in lower case ("" if none), and length in bytes."""

    mime: str
    length: int | None


Test = Callable[[CrawlUri, Header | None], bool]


class Rule(NamedTuple):
    """A rule: `fits(uri, header)` returns whether it matches a URI, with a normalized href as its url.

    `settle(root)` gets only the beginning of a href, "https://example.org/": True if the rule matches all hrefs that
    begin so, False if none, None if the rest decides. `of_seeds`: "hosts" or "domains" for a rule about the seeds,
    which `rules/scope.py` applies instead. Without a header, rules that need one do not match.
    """

    fits: Test
    settle: Callable[[str], bool | None] | None = None
    of_seeds: str | None = None


class RuleKind(NamedTuple):
    """A kind of rules: an example, and a function that makes a rule from the text after the colon.

    `check` finds errors without reading files.
    """

    example: str
    make: Callable[[str], Rule]
    check: Callable[[str], object] | None = None


def parse_rule(text: str) -> Rule:
    """Return the rule written as `text`, after reading its file, if any. Raises SettingsError."""
    kind, argument = _split(text)
    return kind.make(argument)


def check_rule(text: str) -> None:
    """Raise SettingsError if `text` is not a rule. Files are not read."""
    kind, argument = _split(text)
    (kind.check or kind.make)(argument)


def _split(text: str) -> tuple[RuleKind, str]:
    name, colon, argument = text.partition(":")
    kind = KINDS.get(name)
    if kind is None:
        near = _SYNONYMS.get(name) or nearest(name, KINDS)
        hint = f'did you mean "{_with_argument(near, argument)}"?' if near else f"there are {FORMS}"
        raise SettingsError(f"{show(text)} is not a scope rule; {hint}")
    if len(text) > LONGEST:
        raise SettingsError(f'"{brief(text)}" is longer than {LONGEST:,} characters: write several rules instead')
    takes = ":" in kind.example
    if takes and not argument.strip():
        raise SettingsError(f'"{brief(text)}" lacks what comes behind the colon; write it like "{kind.example}"')
    if colon and not takes:
        raise SettingsError(f'"{brief(text)}": "{name}" stands alone')
    return kind, argument.strip() if name != "regex" else argument


def _with_argument(name: str, argument: str) -> str:
    """Return a rule as a suggestion: with the text behind the colon, or else a possible one."""
    example = KINDS[name].example
    return f"{name}:{brief(argument)}" if argument.strip() and ":" in example else example


# URI and seeds


def _all(_: str) -> Rule:
    return Rule(lambda uri, header: True, lambda root: True)


def _seeds(what: str) -> Callable[[str], Rule]:
    return lambda _: Rule(lambda uri, header: False, of_seeds=what)


def _pattern(kind: str) -> Callable[[str], Rule]:
    """Return a function that makes rules of a kind that has the syntax of matches in overrides."""

    def make(argument: str) -> Rule:
        match = parse_match(f"{kind}:{argument}")
        if kind == "regex":
            search = match.test
            return Rule(lambda uri, header: bool(search(uri.url)))
        if match.by_authority:
            return Rule(lambda uri, header: match.matches(uri.url), match.matches)
        return Rule(  # a SURT with a path: settled at once for all other hosts
            lambda uri, header: match.matches(uri.url),
            lambda root: None if any(each.startswith(uris.surt(root)) for each in match.prefixes) else False,
        )

    return make


def _surt_file(argument: str) -> Rule:
    prefixes = SurtPrefixes.read(Path(argument))
    return Rule(lambda uri, header: prefixes.hold(uri.url), prefixes.settle)


def _ext(argument: str) -> Rule:
    names = _listed(argument, r"\.?[\w%+~-]+(\.[\w%+~-]+)*", "extension", "ext:zip,exe")
    endings = tuple("." + name.removeprefix(".") for name in names)
    return Rule(lambda uri, header: _without_query(uri.url).lower().endswith(endings))


def _listed(argument: str, pattern: str, noun: str, example: str) -> list[str]:
    """Split "zip, exe" into its names; the pattern has to match each."""
    names = [name.strip().lower() for name in argument.split(",")]
    for name in names:
        if not re.fullmatch(pattern, name):
            raise SettingsError(f'"{brief(name)}" is not a valid {noun}; write it like "{example}"')
    return names


def _embeds(_: str) -> Rule:
    return Rule(lambda uri, header: _embedded(uri.hops))


_MOST_EMBEDS = 3


def _embedded(hops: str) -> bool:
    """Return whether a hop path ends with a few embeds, and perhaps redirects (Heritrix: TransclusionDecideRule)."""
    tail = hops[len(hops.rstrip("ER")) :].lstrip("R")  # redirects before the embeds led to the page
    return 0 < len(tail) <= _MOST_EMBEDS


# Numbers


def _without_query(href: str) -> str:
    end = href.find("?")
    return href if end < 0 else href[:end]


def _segments(href: str) -> list[str]:
    path = _without_query(href)[href.find("/", 8) + 1 :].removesuffix("/")
    return path.split("/")


def _depth(uri: CrawlUri) -> int:
    path = _without_query(uri.url)
    depth = path.count("/") - 2
    return depth - path.endswith("/")


def _repeats(uri: CrawlUri) -> int:
    segments = _segments(uri.url)
    if len(set(segments)) == len(segments):
        return 1
    return max(len(list(group)) for _, group in groupby(sorted(segments)))


def hops_from_seed(uri: CrawlUri) -> int:
    """Count the links between a seed and a URI; prerequisites do not count."""
    return len(uri.hops) - uri.hops.count("P")


_COMPARISONS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_COMPARED = re.compile(r"(>=|<=|>|<)\s*(.+)", re.DOTALL)


def _compared(argument: str, example: str) -> tuple[Callable[[int, int], bool], str]:
    """Split ">20" into its comparison and the rest."""
    found = _COMPARED.fullmatch(argument)
    if not found:
        raise SettingsError(f'"{brief(argument)}" is not a comparison; write it like "{example}", with >, >=, < or <=')
    return _COMPARISONS[found[1]], found[2]


def _number(example: str, measure: Callable[[CrawlUri], int]) -> RuleKind:
    """Return a kind of rules that compare a count with a number."""

    def make(argument: str) -> Rule:
        compare, text = _compared(argument, example)
        if not re.fullmatch(r"[0-9]{1,15}", text, re.ASCII):
            raise SettingsError(f'"{brief(text)}" is not a whole number; write it like "{example}"')
        number = int(text)
        return Rule(lambda uri, header: compare(measure(uri), number))

    return RuleKind(example, make)


# Rules that need a response


def _type(argument: str) -> Rule:
    names = _listed(argument, r"[^\s/;]+/[^\s/;]+", "media type", "type:image/*,video/*")
    tests = [glob(name) for name in names]
    # Without a media type, the rule does not match.
    return Rule(lambda uri, header: header is not None and any(test(header.mime) for test in tests))


def _size(argument: str) -> Rule:
    compare, text = _compared(argument, "size:>10MB")
    try:
        number = read_size(text)
    except ValueError as error:
        raise SettingsError(f"{error} is not a size; write it like 64KiB, 10MB, 50GiB") from None
    return Rule(lambda uri, header: header is not None and header.length is not None and compare(header.length, number))


KINDS: dict[str, RuleKind] = {
    "all": RuleKind("all", _all),
    "seed-hosts": RuleKind("seed-hosts", _seeds("hosts")),
    "seed-domains": RuleKind("seed-domains", _seeds("domains")),
    "domain": RuleKind("domain:example.org", _pattern("domain")),
    "host": RuleKind("host:*.example.org", _pattern("host")),
    "surt": RuleKind("surt:(org,example,)/docs/", _pattern("surt")),
    "surt-file": RuleKind("surt-file:scope.txt", _surt_file, lambda path: None),
    "regex": RuleKind("regex:[?&]sid=", _pattern("regex")),
    "hops": _number("hops:>20", hops_from_seed),
    "depth": _number("depth:>12", _depth),
    "repeats": _number("repeats:>2", _repeats),
    "length": _number("length:>2000", lambda uri: len(uri.url)),
    "ext": RuleKind("ext:zip,exe", _ext),
    "type": RuleKind("type:image/*,video/*", _type),
    "size": RuleKind("size:>10MB", _size),
    "embeds": RuleKind("embeds", _embeds),
}
"""Every kind of rule, by the word before its colon."""

_SYNONYMS = {"seed": "seed-hosts", "seeds": "seed-hosts"}

OF_ANSWER = frozenset({"type", "size"})
"""The kinds that need the header of a response."""

FORMS = ", ".join(kind.example for kind in KINDS.values())
