"""Patterns that match URIs and queues, in overrides, adjustments and scope rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import msgspec

from budgetfrontier.core import uris
from budgetfrontier.core.patterns import Pattern, required_text
from budgetfrontier.core.spelling import nearest
from budgetfrontier.errors import InvalidUrl, SettingsError
from budgetfrontier.settings.values import brief

KINDS = ("surt", "domain", "host", "queue", "queues", "label", "regex")
_GLOB = re.compile(r"(?=.*[*?])[\w.*?-]{2,253}")  # on hosts or queue keys
_SHEET_NAME = re.compile(r"[\w.-]{1,100}")
_BY_KEY = frozenset(("*", "queue", "queues"))
LONGEST = 100_000
"""The most characters of a pattern: compiled, it takes a thousand times as much memory."""
FORMS = '"*", ' + ", ".join(f'"{kind}:..."' for kind in KINDS)
GROUP = "group:"
_BOUND = ("sheet", "group")  # what they match depends on the settings


class Match(msgspec.Struct, frozen=True):
    """A pattern: `test(subject)` returns whether it matches a subject, which `subject_of` returns for a URI.

    `kind` is one of KINDS or "*". `by_authority`: the result depends only on scheme, host, port and queue. `exact` is
    the only matching host, or the domain, so that patterns can be found in a table by it; `keys` are those of the
    pattern, if it lists queue keys, as they are typed: `spellings` adds others. `prefixes` are possible prefixes of a
    SURT, compared with authorities once, before paths are. `needs` is a text that every matching subject contains.
    """

    kind: str
    text: str
    test: Callable[[str], Any]
    by_authority: bool = True
    exact: str | None = None
    prefixes: tuple[str, ...] = ()
    needs: str = ""
    keys: tuple[str, ...] = ()
    any_of: tuple[Match, ...] = ()
    """The patterns of which one has to match, of the kind "sheet"."""
    decide: Callable[[str, str, str | None], bool] | None = None
    """Of the kind "group": whether it matches a URI, by href, queue and label; None: settings do not matter here."""

    @property
    def by_key(self) -> bool:
        """Whether the key of a queue alone decides: all of its URIs match, or none."""
        return self.kind in _BY_KEY

    def matches(self, href: str, queue: str = "", label: str | None = None) -> bool:
        """Return whether the pattern matches the URI with this normalized href and label, in this queue."""
        if self.any_of:
            return any(each.matches(href, queue, label) for each in self.any_of)
        if self.decide is not None:
            return self.decide(href, queue, label)
        if self.exact is not None and self.exact not in href:  # nearly all URIs, at a tenth of the time
            return False
        return bool(self.test(subject_of(self.kind, href, queue, label)))


def subject_of(kind: str, href: str, queue: str, label: str | None) -> str:
    """Return the part of a URI that patterns of a kind are tested on."""
    if kind in ("queue", "queues"):
        return queue
    if kind == "label":
        return label or ""
    if kind == "surt":
        return uris.surt(href)
    return uris.host(href) if kind in ("domain", "host") else href


def parse_match(text: str) -> Match:
    """Return the pattern written as `text`. Raises SettingsError.

    - `*`: everything
    - `surt:(com,example,`: a prefix of the SURT form, http and https; `surt:http://(com,example,)/a` only http
    - `domain:example.org`: this host and all subdomains
    - `host:*.example.org`: a glob (`*`, `?`) on the host
    - `queue:example.*`: a glob on the queue key
    - `queues:example.org,example.com:8080`: these queue keys, without wildcards; keys that contain a comma are written
      as a JSON list, `queues:["org,example,", "com,example,"]`
    - `label:blogs`: the label of the seed that a URI was found from, its `source`, without wildcards
    - `group:NAME/VALUE`: the queues of a group, or with `group:NAME` of all of a definition; both parts may be globs
    - `regex:[?&]sid=`: a Python regular expression, searched for in the whole URI, in bounded time
    """
    if text == "*":
        return Match("*", text, _always)
    kind, _, pattern = str(text).partition(":")
    if kind == "sheet":
        if objection := sheet_name_objection(pattern):
            raise SettingsError(f'"{brief(str(text))}": {objection}')
        return any_of(text, ())
    if kind == "group" and pattern:
        return Match("group", text, _never)
    if len(pattern) > LONGEST:
        raise SettingsError(
            f'"{brief(str(text))}" is longer than {LONGEST:,} characters: write several matches instead'
        )
    if kind not in KINDS or not pattern:
        near = kind == text and len(text) < 254 and re.fullmatch(r"[\w.-]+\.\w+", text)
        hint = f'; did you mean "domain:{text}"?' if near else ""
        if kind == text and _GLOB.fullmatch(text):
            hint = f'; did you mean "queue:{text}"?'
        if near_kind := nearest(kind, KINDS) if pattern and kind not in KINDS else "":
            hint = f'; did you mean "{near_kind}:{brief(pattern)}"?'
        raise SettingsError(f'"{brief(str(text))}" is not a match: write one of {FORMS}{hint}')
    return _PARSERS[kind](text, pattern)


def _always(_: str) -> bool:
    return True


def _domain(text: str, pattern: str) -> Match:
    domain = _typed(text, uris.host_form, pattern.removeprefix("*.").removeprefix("."))
    below = "." + domain
    return Match("domain", text, lambda host: host == domain or host.endswith(below), exact=domain)


def _host(text: str, pattern: str) -> Match:
    if has_wildcards(pattern):
        return Match("host", text, glob(_typed(text, uris.glob_form, pattern)))
    host = _typed(text, uris.host_form, pattern)
    return Match("host", text, host.__eq__, exact=host)


def _queue(text: str, pattern: str) -> Match:
    if has_wildcards(pattern):
        return Match("queue", text, key_test(pattern))
    return Match("queue", text, key_test(pattern), keys=(pattern,))


def _queues(text: str, pattern: str) -> Match:
    try:
        names = msgspec.json.decode(pattern, type=list[str]) if pattern.startswith('["') else pattern.split(",")
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise SettingsError(f'"{brief(text)}" is not a list of queue keys: {error}') from None
    names = [name if pattern.startswith('["') else name.strip() for name in names]
    if not all(names):
        raise SettingsError(f'"{brief(text)}": a queue key is missing; write it like "queues:example.org,example.com"')
    return Match("queues", text, frozenset(spellings(names)).__contains__, keys=tuple(dict.fromkeys(names)))


def _label(text: str, pattern: str) -> Match:
    return Match("label", text, pattern.__eq__, by_authority=False)


def any_of(text: str, patterns: Iterable[Match]) -> Match:
    """Return the pattern that matches what any of some match, as of a sheet; of none: it matches nothing."""
    patterns = tuple(patterns)
    alike = all(each.by_authority for each in patterns)
    return Match("sheet", text, _never, by_authority=alike, any_of=patterns)


def sheet_name_objection(name: object) -> str | None:
    """Return why something is not the name of a sheet; None if it is."""
    if isinstance(name, str) and _SHEET_NAME.fullmatch(name):
        return None
    return "expected the name of a sheet, of ASCII letters, digits, _, . and -"


def _never(_: str) -> bool:
    return False


def disjoint(one: Match, other: Match) -> bool:
    """Return whether it is sure that no URI, in whatever queue, matches both patterns."""
    if one.kind == other.kind == "group" and not has_wildcards(one.text + other.text):
        shorter, longer = sorted((one.text, other.text), key=len)
        return longer != shorter and longer.partition("/")[0] != shorter
    if one.kind in _BOUND or other.kind in _BOUND:
        return False
    if "label" in (one.kind, other.kind):
        return one.kind == other.kind and one.text != other.text
    if one.keys or other.keys:
        if not one.keys:
            one, other = other, one
        return other.kind in ("queue", "queues") and not any(map(other.test, spellings(one.keys)))
    if one.exact is not None and other.exact is not None:
        return not one.test(other.exact) and not other.test(one.exact)
    if one.prefixes and other.prefixes:
        return not any(
            mine.startswith(each) or each.startswith(mine) for mine in one.prefixes for each in other.prefixes
        )
    if other.prefixes or other.exact is None:
        one, other = other, one
    if other.exact is None:
        return False
    if one.prefixes:  # of a SURT, other than the host or domain
        starts = [uris.surt(f"{each.partition(':')[0]}://{other.exact}/").partition(")")[0] for each in one.prefixes]
        pairs = zip(one.prefixes, starts, strict=True)
        return not any(prefix.startswith(start) or start.startswith(prefix) for prefix, start in pairs)
    return one.kind == other.kind == "host" and not one.test(other.exact)


def spellings(keys: Iterable[str]) -> tuple[str, ...]:
    """Return keys as typed, each followed by its form as the key of that host's queue, if that is another.

    >>> spellings(["Example.org:80"])
    ('Example.org:80', 'example.org')
    """
    forms = ((key, uris.key_form(key, any_scheme=True)) for key in keys)
    return tuple(dict.fromkeys(each for both in forms for each in both if each is not None))


def unknown_keys(match: Match, exists: Callable[[str], object]) -> list[str]:
    """Return the keys that a pattern lists and no queue has, in any spelling, as they were typed."""
    return [key for key in match.keys if all(exists(each) is None for each in spellings([key]))]


def has_wildcards(pattern: str) -> bool:
    """Return whether a glob may match other keys than that which it is itself."""
    return "*" in pattern or "?" in pattern


def has_brackets(match: str) -> bool:
    """Return whether a pattern of queues or hosts has brackets, which stand for themselves, unlike in other globs.

    >>> has_brackets("queue:w[12]*"), has_brackets("w[12]*"), has_brackets("regex:w[12]"), has_brackets("host:[::1]")
    (True, True, False, False)
    """
    kind, colon, pattern = match.partition(":")
    return "[" in match and (not colon or kind in ("queue", "host")) and not pattern.startswith("[")


def selects(pattern: str, key: str) -> bool:
    """Return whether a glob of a deletion, which may have sets, `[ab]`, matches a queue key, in any spelling."""
    if key == pattern or fnmatchcase(key, pattern):
        return True
    try:
        form = uris.glob_form(pattern) if may_select_several(pattern) else uris.key_form(pattern) or pattern
    except InvalidUrl:
        return False
    return form != pattern and fnmatchcase(key, form)


def may_select_several(pattern: str) -> bool:
    """Return whether a glob of a deletion may match other keys than that which it is itself."""
    return has_wildcards(pattern) or "[" in pattern


def key_test(pattern: str) -> Callable[[str], Any]:
    """Return a test of queue keys for a glob, or a key: as it is typed, and in the form of its host."""
    if not has_wildcards(pattern):
        return frozenset(spellings([pattern])).__contains__
    try:
        form = uris.glob_form(pattern)
    except InvalidUrl:  # it may match keys that are no hosts
        form = pattern
    return (
        glob(pattern)
        if form == pattern
        else re.compile(f"{_expression(pattern)}|{_expression(form)}", re.DOTALL).fullmatch
    )


def covers(wider: Match, match: Match) -> bool:
    """Return whether one pattern certainly matches whatever another one does; False where that is not known."""
    if wider.kind == "*" or wider.text == match.text:
        return True
    if match.keys:
        return wider.kind in ("queue", "queues") and all(wider.test(key) for key in match.keys)
    if match.kind in ("domain", "host") and match.exact is not None:
        return wider.kind in ("domain", "host")[: 2 if match.kind == "host" else 1] and bool(wider.test(match.exact))
    return False


def queues_match(names: Iterable[str]) -> str:
    """Return the pattern that matches the queues with these keys.

    >>> queues_match(["example.org", "example.com"])
    'queues:example.org,example.com'
    """
    names = list(names)
    if any("," in name or name != name.strip() or name.startswith('["') for name in names):
        return f"queues:{msgspec.json.encode(names).decode()}"
    return f"queues:{','.join(names)}"


def queue_match(key: str) -> str:
    """Return the pattern that one queue key alone matches, whatever signs are in it.

    >>> queue_match("example.org"), queue_match("*")
    ('queue:example.org', 'queues:*')
    """
    return queues_match([key]) if has_wildcards(key) else f"queue:{key}"


def _regex(text: str, pattern: str) -> Match:
    try:
        return Match("regex", text, Pattern(pattern).search, by_authority=False, needs=required_text(pattern))
    except ValueError as error:
        raise SettingsError(f'"{brief(text)}" is not a regular expression: {error}') from None


def _surt(text: str, pattern: str) -> Match:
    scheme, _, authority = pattern.rpartition("://") if pattern.find("://") < pattern.find("(") else ("", "", pattern)
    scheme = scheme.lower()
    if scheme not in ("", "http", "https") or not authority.startswith("("):
        raise SettingsError(
            f'"{brief(text)}" is not a SURT prefix: write it like "surt:(org,example," or "surt:http://(org,example,"'
        )
    authority_only = authority.partition(")")[2] in ("", "/")
    prefixes = tuple(
        f"{each}://{_typed(text, partial(uris.surt_form, scheme=each), authority)}"
        for each in ((scheme,) if scheme else ("http", "https"))
    )
    return Match("surt", text, lambda surt: surt.startswith(prefixes), authority_only, prefixes=prefixes)


def match_text(value: Any) -> Any:
    """Return a match of an override as text: a mapping, `{queues: [a, b]}`, lists queue keys. Raises SettingsError."""
    if not isinstance(value, Mapping):
        return value
    names = value.get("queues")
    if len(value) != 1 or not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise SettingsError("expected a match, such as domain:example.org, or {queues: [KEY, ...]}")
    return queues_match(names)


_PARSERS: dict[str, Callable[[str, str], Match]] = {
    "surt": _surt,
    "domain": _domain,
    "host": _host,
    "queue": _queue,
    "queues": _queues,
    "label": _label,
    "regex": _regex,
}


def glob(pattern: str) -> Callable[[str], Any]:
    """Return a test for a glob with `*` and `?`. Brackets are literal: they are part of IPv6 hosts.

    A part between two `*` matches at its first occurrence, without backtracking, which could not find more.
    """
    return re.compile(_expression(pattern), re.DOTALL).fullmatch


def _expression(pattern: str) -> str:
    first, *between = ["".join("." if c == "?" else re.escape(c) for c in part) for part in pattern.split("*")]
    rest = "".join(f"(?>.*?{part})" for part in between[:-1]) + ".*" + between[-1] if between else ""
    return first + rest


def _typed(text: str, form: Callable[[str], str], name: str) -> str:
    """Return the form of a name in a pattern. Raises SettingsError if it is no host."""
    try:
        return form(name)
    except InvalidUrl as error:
        raise SettingsError(f'"{brief(text)}": "{brief(name)}" is not a host name ({error})') from None


def with_kind(pattern: str) -> str:
    """Return the pattern of a command as overrides have it: one without a kind is a glob on queue keys.

    >>> [with_kind(text) for text in ("*.example.org", "example.com:8080", "host:a.test", "*")]
    ['queue:*.example.org', 'queue:example.com:8080', 'host:a.test', '*']
    """
    return pattern if pattern == "*" or pattern.partition(":")[0] in (*KINDS, *_BOUND) else f"queue:{pattern}"


def queue_test(pattern: str | None) -> Callable[[str, str, str | None], bool]:
    """Return the test of (URL, queue key, label) for a pattern of a command; one without a kind is a glob on keys."""
    if pattern is None or pattern == "*":
        return lambda url, queue, label: True
    match = parse_match(with_kind(pattern))
    if match.by_key:
        return lambda url, queue, label: match.matches("", queue)
    return lambda url, queue, label: bool(url) and match.matches(url, queue, label)
