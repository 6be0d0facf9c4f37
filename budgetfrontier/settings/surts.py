"""Sets of up to millions of SURT prefixes, read from a file; plain URLs become prefixes as in Heritrix."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from budgetfrontier.core import uris
from budgetfrontier.errors import InvalidUrl, SettingsError
from budgetfrontier.settings import url_lists
from budgetfrontier.settings.url_lists import BadLine, ListedUrl
from budgetfrontier.settings.values import brief

_MOST_PROBLEMS = 10
_WEB = re.compile(r"https?:(?![0-9])", re.IGNORECASE)
_SURT = re.compile(r"\+?(?:(https?)://)?(\(.*)", re.DOTALL | re.IGNORECASE)


class SurtPrefixes:
    """SURT prefixes without scheme, such as "(org,example,", for http and https alike, as in Heritrix's sets.

    A lookup is a binary search. A million prefixes of 20 characters take 100 MB, and a lookup about 4 us.
    """

    def __init__(self, prefixes: Iterable[str]) -> None:
        # Prefixes covered by shorter ones are dropped. Then only the last prefix that is not after a text can match it.
        self._sorted: list[str] = []
        for prefix in sorted(prefixes):
            if not (self._sorted and prefix.startswith(self._sorted[-1])):
                self._sorted.append(prefix)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file with one entry per line; # starts a comment. Raises SettingsError. About 3 s for a million."""
        prefixes, problems = [], []
        try:
            for number, entry in url_lists.read(path):
                try:
                    prefixes.append(_only_prefix(entry))
                except (SettingsError, BadLine) as error:
                    problems.append(f"{path}:{number}:{entry.column}: {error}")
                    if len(problems) == _MOST_PROBLEMS:
                        break
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            raise SettingsError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from None
        if problems:
            raise SettingsError(problems)
        return cls(prefixes)

    def __len__(self) -> int:
        return len(self._sorted)

    def hold(self, href: str) -> bool:
        return self._begins(_surt(href))

    def settle(self, root: str) -> bool | None:
        """Return the result of `hold` for all hrefs that begin with "https://example.org/"; None if it varies."""
        surt = _surt(root)
        if self._begins(surt):
            return True
        at = bisect_left(self._sorted, surt)
        return None if at < len(self._sorted) and self._sorted[at].startswith(surt) else False

    def _begins(self, surt: str) -> bool:
        at = bisect_right(self._sorted, surt)
        return at > 0 and surt.startswith(self._sorted[at - 1])


def _surt(href: str) -> str:
    return uris.surt(href).partition("://")[2]


def _only_prefix(entry: ListedUrl | BadLine) -> str:
    if isinstance(entry, BadLine):
        raise entry
    if entry.meta is not None:
        raise SettingsError("metadata follows it, which a SURT prefix cannot have")
    return surt_prefix(entry.text)


def surt_prefix(entry: str) -> str:
    """Return the SURT prefix, without scheme, for an entry: a SURT prefix, a URL or a host. Raises SettingsError.

    As in Heritrix (SurtPrefixSet), `example.org` means the host and its subdomains, `example.org/` the host alone,
    `https://example.org/a/b.html` everything in its folder, `/a/`.
    """
    try:
        if found := _SURT.fullmatch(entry):
            return uris.surt_form(found[2], scheme=(found[1] or "http").lower())
        return _prefix_of_url(entry)
    except InvalidUrl as error:
        raise SettingsError(f'"{brief(entry)}" is not a SURT prefix, URL or host ({error})') from None


def _prefix_of_url(entry: str) -> str:
    plain = entry.removeprefix("+").partition("#")[0].partition("?")[0]
    url = plain if "://" in plain else f"http://{plain}"
    url_lists.check_url(entry if _WEB.match(entry) else url)
    surt = _surt(uris.parse(url))
    folder = surt[: surt.rindex("/") + 1]
    # Ports and addresses have no subdomains, and "(10.0.0.1" is a prefix of "(10.0.0.11)".
    whole = "/" in url.partition("://")[2] or not folder.endswith(",)/")
    return folder if whole else folder.removesuffix(")/")
