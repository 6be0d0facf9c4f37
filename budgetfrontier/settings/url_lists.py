"""Handwritten lists, of URLs or of other entries: the meaning of a line, and the lines that are refused.

Seed files, the lists that `import` reads and files of SURT prefixes are read by this one reader. Faults that browsers
forgive in a link are errors here, because they are more likely mistakes: a blank in a URL, "http:/a", a backslash.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from budgetfrontier.core import uris
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.settings.field import Field, fields
from budgetfrontier.settings.values import OR_NULL, Type, brief, plain, show

if TYPE_CHECKING:
    from budgetfrontier.settings.schema import Seed

RESERVED = frozenset(("digest", "redirects", "revisit", "seed"))
"""Names that metadata cannot have: a crawl stores its own data under them."""

_COMMENT = re.compile(r"(?:^|\s)#.*", re.DOTALL)
_UNDECODED = re.compile("[\ud800-\udfff]")
_ABSOLUTE = re.compile(r"https?://[^/\\]", re.IGNORECASE)
_FORGIVEN = re.compile(r"[\x00-\x20\x7f]|^[^?#]*(\\)")
_MOST_NAMED = 5  # names of metadata in a message
_NAMES_SCHEME = re.compile(r"[A-Za-z][\w+.-]*:(?![0-9])")  # "localhost:80" begins with a host

Metadata = dict[str, str | list[str]]


class SeedSetting(NamedTuple):
    """The value of a setting of a seed, and the column of it in its line."""

    value: Any
    column: int


class ListedUrl(NamedTuple):
    """An entry of a list: its text, the column of that, its metadata, and of a seed its settings; None if it has none.

    The settings are by the names of the fields of `Seed`.
    """

    text: str
    column: int
    meta: Metadata | None
    given: dict[str, SeedSetting] | None = None


class BadLine(ValueError):
    """A refused line, with the column, a slug for counting such lines, and its URL if it has one."""

    def __init__(self, message: str, *, column: int, reason: str = "syntax", url: str = "") -> None:
        super().__init__(message)
        self.column, self.reason, self.url = column, reason, url


def parse_line(line: str, *, of_seeds: bool = False) -> ListedUrl | None:
    """Return the entry of a line; None for an empty line and a comment. Raises BadLine.

    `#` begins a comment at the start of a line or after a blank. Metadata, NAME=VALUE, may follow after tabs, as in the
    seed lists of Nutch and StormCrawler; a name that is repeated has a list of values. In a list `of_seeds`, the names
    of the settings of seeds are no metadata.

    >>> parse_line("http://example.org/#top\\tscore=2 # the front page")
    ListedUrl(text='http://example.org/#top', column=1, meta={'score': '2'}, given=None)
    """
    written = _COMMENT.sub("", line).rstrip()
    text = written.lstrip()
    if not text:
        return None
    column = len(written) - len(text) + 1
    if not text.isascii() and (bad := _UNDECODED.search(text)):
        raise BadLine("not UTF-8", column=column + bad.start(), reason="encoding")
    first, *fields = text.split("\t")
    word, *more = first.split(None, 1)
    if more:
        raise BadLine(_of_blanks(more[0]), column=column + len(first) - len(more[0]))
    meta: Metadata = {}
    given: dict[str, SeedSetting] = {}
    at = column + len(first) + 1
    for field in fields:
        if field.strip():
            start, name = at + len(field) - len(field.lstrip()), field.strip().partition("=")[0]
            if of_seeds and name in _seed_fields():
                _give(given, field.strip(), column=start)
            else:
                _add(meta, field.strip(), column=start)
        at += len(field) + 1
    return ListedUrl(word, column, meta or None, given or None)


def _of_blanks(rest: str) -> str:
    if "://" in rest:
        return "more than one entry on a line; write each on a line of its own"
    if "=" in rest:
        return f"{show(rest)} follows a blank; metadata, NAME=VALUE, follows a tab"
    return f"{show(rest)} follows a blank; write a blank in a URL as %20, and # before a comment"


def _add(meta: Metadata, field: str, *, column: int) -> None:
    name, equals, value = field.partition("=")
    if "://" in name:
        raise BadLine("more than one entry on a line; write each on a line of its own", column=column)
    if not equals or not name:
        raise BadLine(f"{show(field)} follows a tab and is no metadata, NAME=VALUE", column=column)
    if name in RESERVED:
        raise BadLine(f'metadata cannot be named "{name}": the crawl itself stores something there', column=column)
    known = meta.get(name)
    if known is None:
        meta[name] = value
    else:
        meta[name] = [*known, value] if isinstance(known, list) else [known, value]


@cache
def _seed_fields() -> dict[str, tuple[str, Type]]:
    """Return the settings of a line of a list of seeds by their names: the field of `Seed`, and its type."""
    from budgetfrontier.settings.schema import Seed

    found: dict[str, tuple[str, Type]] = {}
    for name, field in fields(Seed).items():
        if name not in ("url", "file") and isinstance(field, Field) and isinstance(field.type, Type):
            found |= dict.fromkeys((name, *field.aliases), (name, field.type))
    return found


def _give(given: dict[str, SeedSetting], written: str, *, column: int) -> None:
    """Add a setting of a seed, NAME=VALUE. Raises BadLine."""
    word, equals, text = written.partition("=")
    name, of = _seed_fields()[word]
    before = given.get(name)
    if before is not None and not isinstance(before.value, tuple):
        raise BadLine(f"this sets {word} a second time", column=column, reason="setting")
    if not equals or not text:
        raise BadLine(f"{word} has no value; write {word}=VALUE", column=column, reason="setting")
    try:
        value = of.read(text)
    except ValueError:
        try:
            value = of.read(plain(text))
        except ValueError as error:
            raise BadLine(
                f"{word}: expected {of.text.removesuffix(OR_NULL)}, got {error}", column=column, reason="setting"
            ) from None
    given[name] = SeedSetting(value if before is None else before.value + value, column)


def seed_of(entry: ListedUrl, seed: Seed) -> Seed:
    """Return the seed of an entry: with its own settings, and otherwise those of the settings' entry, `seed`."""
    own = {name: given.value for name, given in (entry.given or {}).items()}
    return msgspec.structs.replace(seed, url=entry.text, file=None, **own)


def check_url(text: str) -> None:
    """Raise InvalidUrl for a text that is no URL, or is one only because browsers forgive much."""
    uris.parse(text)
    if not _ABSOLUTE.match(text):
        raise InvalidUrl("syntax", "two slashes and a host follow the scheme")
    if found := _FORGIVEN.search(text):
        raise InvalidUrl("syntax", 'it has a backslash; write "/"' if found[1] else "it has a blank; write %20")


def objection(text: str) -> str | None:
    """Return why a URL that somebody has listed cannot be crawled, with a suggestion; None if it can."""
    try:
        check_url(text)
    except InvalidUrl as error:
        reason = str(error).rstrip(":")
    else:
        return None
    if not _NAMES_SCHEME.match(text):
        with contextlib.suppress(InvalidUrl):
            check_url(f"https://{text}")
            return f'{show(text)} has no scheme; did you mean "https://{brief(text)}"?'
    return f"{show(text)} cannot be crawled: {reason}"


def metadata_note(names: Iterable[str]) -> str:
    """Return the sentence on the metadata in a list, with some of its names."""
    named = [*islice(names, _MOST_NAMED + 1)]
    shown = ", ".join(named[:_MOST_NAMED]) + ", ..." * (len(named) > _MOST_NAMED)
    return f"the metadata behind URLs ({shown}) is stored with them, as their meta, and changes nothing in the crawl"


def seed_settings_note(names: Iterable[str]) -> str:
    """Return the sentence on metadata in a list that would be settings of seeds; "" if there is none."""
    settings = [name for name in names if name in _seed_fields()]
    return f"; with --seeds, {', '.join(settings)} would be settings of seeds" if settings else ""


def read(path: Path, *, of_seeds: bool = False) -> Iterator[tuple[int, ListedUrl | BadLine]]:
    """Yield the entries of a file and the lines that are not understood, each with the number of its line, from 1.

    Raises OSError, and ValueError for a path that cannot be that of a file.
    """
    with path.open(encoding="utf-8-sig", errors="surrogateescape") as file:
        for number, line in enumerate(file, 1):
            try:
                entry = parse_line(line, of_seeds=of_seeds)
            except BadLine as error:
                yield number, error
            else:
                if entry is not None:
                    yield number, entry


def entries(seed: Seed) -> Iterator[tuple[int, ListedUrl | BadLine]]:
    """Yield the URL of an entry of the settings' seeds, or the entries of its file, with their URLs checked."""
    if seed.url:
        return iter([(0, ListedUrl(seed.url, 1, None))])
    return ((number, _checked(entry)) for number, entry in read(Path(seed.file or ""), of_seeds=True))


def _checked(entry: ListedUrl | BadLine) -> ListedUrl | BadLine:
    """Return an entry of a file of seeds, as a BadLine if its URL cannot be crawled."""
    if isinstance(entry, ListedUrl) and (fault := objection(entry.text)):
        return BadLine(fault, column=entry.column, url=entry.text)
    return entry


def seed_urls(seed: Seed) -> Iterator[str]:
    """Yield the URLs of an entry of the settings' seeds, as written: its own, or those of its file.

    Lines of the file without a URL that can be crawled are left out. Raises OSError if it cannot be read.
    """
    return (entry.text for _, entry in entries(seed) if isinstance(entry, ListedUrl))
