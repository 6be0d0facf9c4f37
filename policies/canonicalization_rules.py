"""Heritrix's canonicalization rules, in a list whose order is that of the settings: the policy `rules`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from budgetfrontier.core.patterns import Pattern
from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.errors import PolicyError

Rule = Callable[[str], str]

DEFAULT = ("lowercase", "strip-userinfo", "strip-www-n", "strip-session-ids", "strip-session-cfids", "fix-query")
HERITRIX = {
    "LowercaseRule": "lowercase",
    "StripUserinfoRule": "strip-userinfo",
    "StripWWWRule": "strip-www",
    "StripWWWNRule": "strip-www-n",
    "StripSessionIDs": "strip-session-ids",
    "StripSessionCFIDs": "strip-session-cfids",
    "FixupQueryString": "fix-query",
    "StripExtraSlashes": "strip-extra-slashes",
    "RegexRule": "regex",
}
"""The names of the rules, by those of Heritrix's classes."""

_FORMAT = re.compile(r"\\(.)|\$(?:(\d+)|\{(\w+)\})|([$\\])", re.DOTALL)


class HeritrixRules:
    """Heritrix's rules, each applied to the result of the one before (Heritrix: RulesCanonicalizationPolicy).

    `rules` is a list of names, ours or those of Heritrix's classes, and of mappings `{regex: ..., format: ...}`. The
    default is Heritrix's: lowercase, strip-userinfo, strip-www-n, strip-session-ids, strip-session-cfids, fix-query.

    - `lowercase`: the whole URL in lower case, path and query included.
    - `strip-userinfo`: "user:password@" is dropped.
    - `strip-www`, `strip-www-n`: "www." ("www2." and so on, too) is dropped if a character follows the first slash of
      the path: bare roots keep it.
    - `strip-session-ids`: "jsessionid=" or "phpsessid=" and 32 letters and digits, then "sid=" and 32, then an
      ASPSESSIONID; of each kind the last, with the "&" behind it.
    - `strip-session-cfids`: "cfid=...&cftoken=...", with the "&" behind it.
    - `fix-query`: "?" or "?&" at the end, else the "&" after the "?", else "&" at the end.
    - `strip-extra-slashes`: "//" and longer runs become "/", in the query too.
    - `{regex, format}`: a URL that matches the regular expression as a whole is replaced by the format, in which "$1"
      is the first group, "${name}" one with a name, and "\\$" a dollar. `format` is "$1" unless given. Here "${1}" is
      the first group, too; Heritrix 3.13 refuses it.

    Raises PolicyError with one problem for each rule that is not valid.
    """

    VERSION: Final = 1
    """Version of the rules, increased with every change: stored fingerprints do not match those of another version."""

    def __init__(self, *, rules: Sequence[str | Mapping[str, Any]] = DEFAULT) -> None:
        if isinstance(rules, (str, bytes, Mapping)) or not isinstance(rules, Sequence):
            raise PolicyError("rules: rules is a list, such as [lowercase, strip-www, fix-query]")
        problems: list[str] = []
        stamp: list[object] = []
        self._rules: list[Rule] = []
        for number, given in enumerate(rules, 1):
            try:
                written, rule = _compile(given)
            except ValueError as error:
                problems.append(f"rules: rule {number}: {error}")
            else:
                stamp.append(written)
                self._rules.append(rule)
        if problems:
            raise PolicyError(problems)
        self.id: Final = f"rules-{self.VERSION}-{hashlib.sha256(json.dumps(stamp).encode()).hexdigest()[:16]}"

    def __call__(self, href: str) -> str:
        """Return the canonical form of a normalized URL."""
        for rule in self._rules:
            href = rule(href)
        # Only a regex gives anything but a URL with a path. Fingerprints need one; "text:" is no scheme of a URL here.
        return href if href.find("/", 8) >= 0 else f"text://-/{href}"


def _compile(given: object) -> tuple[object, Rule]:
    """Return a rule as it goes into the identifier, and as a function. Raises ValueError."""
    if isinstance(given, Mapping):
        return _regex_rule({str(name): value for name, value in given.items()})
    if not isinstance(given, str):
        raise ValueError(f"{given!r:.100} is neither the name of a rule nor {{regex: ..., format: ...}}")
    name = HERITRIX.get(given.rpartition(".")[2], given.replace("_", "-"))
    if name == "regex":
        raise ValueError("a regex is written {regex: ..., format: ...}")
    if name not in _RULES:
        raise ValueError(f"there is no rule {given!r}; there are {', '.join(_RULES)}{did_you_mean(name, _RULES)}")
    return name, _RULES[name]()


def _regex_rule(options: dict[str, Any]) -> tuple[object, Rule]:
    if unknown := sorted(options.keys() - {"regex", "format"}):
        raise ValueError(f"a regex takes regex and format, not {', '.join(unknown)}")
    text, shape = options.get("regex"), options.get("format", "$1")
    if not isinstance(text, str) or not isinstance(shape, str):
        raise ValueError("give {regex: ..., format: ...}, both as text")
    try:
        pattern = Pattern(text)
    except ValueError as error:
        raise ValueError(f"regex: {text!r:.200}: {error}") from None
    parts = _parts(shape, re.compile(text))

    def rule(url: str) -> str:
        found = pattern.fullmatch(url)
        if found is None:
            return url
        return "".join(part if isinstance(part, str) else found[part[0]] or "" for part in parts)

    return [text, shape], rule


def _parts(shape: str, pattern: re.Pattern[str]) -> list[str | tuple[int | str]]:
    """Return the texts and groups of a format, in order. Raises ValueError if it names a group that there is not."""
    parts: list[str | tuple[int | str]] = []
    end = 0
    for found in _FORMAT.finditer(shape):
        parts.append(shape[end : found.start()])
        end = found.end()
        escaped, number, name, stray = found.groups()
        if stray is not None:
            raise ValueError(f"format: {shape!r:.200}: {stray} stands alone; write \\{stray} for the character itself")
        if escaped is not None:
            parts.append(escaped)
        elif name is not None and name.isdecimal():  # no name of a group begins with a digit
            if int(name) > pattern.groups:
                raise ValueError(f"format: {shape!r:.200}: the regex has no group {name}")
            parts.append((int(name),))
        elif name is not None:
            if name not in pattern.groupindex:
                raise ValueError(f"format: {shape!r:.200}: the regex has no group {name}")
            parts.append((name,))
        else:  # as many digits as make the number of a group, and at least one
            digits = len(number)
            while digits > 1 and int(number[:digits]) > pattern.groups:
                digits -= 1
            if int(number[:digits]) > pattern.groups:
                raise ValueError(f"format: {shape!r:.200}: the regex has no group {number[:digits]}")
            parts += [(int(number[:digits]),), number[digits:]]
    return [part for part in [*parts, shape[end:]] if part]


def _without(pattern: str) -> Callable[[], Rule]:
    """Return a rule's maker: a URL that matches is replaced by the two groups of the pattern, one after the other."""

    def make() -> Rule:
        match = re.compile(pattern, re.IGNORECASE | re.ASCII).fullmatch

        def rule(url: str) -> str:
            found = match(url)
            return url if found is None else found[1] + (found[2] or "")

        return rule

    return make


def _strip_session_ids() -> Rule:
    kinds = ("(?:jsessionid|phpsessid)=[0-9a-z]{32}", "sid=[0-9a-z]{32}", "aspsessionid[a-z]{8}=[a-z]{24}")
    strip = [_without(f"(.+){kind}(?:&(.*))?")() for kind in kinds]

    def rule(url: str) -> str:
        if "=" in url:
            for one in strip:
                url = one(url)
        return url

    return rule


def _strip_session_cfids(url: str) -> str:
    """Strip the last "cfid=...&cftoken=...", each with a value, and the "&" behind it. One pass over the arguments.

    Heritrix's regular expression does the same; on a URL with "cfid=" many times its steps are their number squared.
    """
    lower = url.lower()
    if "&cftoken=" not in lower:
        return url
    whole, small = url.split("&"), lower.split("&")
    for place in range(len(small) - 2, -1, -1):
        start = small[place].rfind("cfid=", 0, len(small[place]) - 1)
        after = small[place + 1]
        if start >= 0 and (place or start) and after.startswith("cftoken=") and len(after) > len("cftoken="):
            before = "&".join([*whole[:place], whole[place][:start]])
            return before + "&".join(whole[place + 2 :])
    return url


def _fix_query(url: str) -> str:
    mark = url.rfind("?")
    if mark <= 0:
        return url
    if url.endswith(("?", "?&")):
        return url[:mark]
    if url[mark + 1] == "&":
        return url[: mark + 1] + url[mark + 2 :]
    return url.removesuffix("&")


def _strip_extra_slashes() -> Rule:
    start, runs = re.compile("https?://"), re.compile("//+")

    def rule(url: str) -> str:
        found = start.match(url)
        return url if found is None else found[0] + runs.sub("/", url[found.end() :])

    return rule


_RULES: dict[str, Callable[[], Rule]] = {
    "lowercase": lambda: str.lower,
    "strip-userinfo": _without("((?:https?|ftps?)://)[^/]+@(.*)"),
    "strip-www": _without(r"(https?://)www\.([^/]*/.+)"),
    "strip-www-n": _without(r"(https?://)www[0-9]*\.([^/]*/.+)"),
    "strip-session-ids": _strip_session_ids,
    "strip-session-cfids": lambda: _strip_session_cfids,
    "fix-query": lambda: _fix_query,
    "strip-extra-slashes": _strip_extra_slashes,
}
