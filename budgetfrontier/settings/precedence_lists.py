"""Files of precedences of URIs, one `URI value` per line, as Heritrix's PrecedenceLoader reads them; perhaps a gzip.

A URI without a scheme is one of http. What follows the value is ignored, as are empty lines and those that begin with
`#`. Files are read line by line: they may have millions.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from budgetfrontier.core import uris
from budgetfrontier.errors import InvalidUrl, SettingsError
from budgetfrontier.settings.values import show

HIGHEST = 127
"""The highest value that is kept, and its negative is the lowest: no sum with a `base` is another one beyond them."""
LONGEST_LINE = 1 << 16
"""Bytes of a line at the most."""
GZIP = b"\x1f\x8b"
_SCHEME = re.compile(rb"\w+:")
_VALUE = re.compile(rb"[+-]?[0-9]{1,100}")


def read(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the normalized URLs of a file, each with its value, from -127 to 127.

    Raises SettingsError with file:line for a line that is not understood, and OSError.
    """
    number = 0
    try:
        with path.open("rb") as raw:
            packed = raw.peek(2)[:2] == GZIP
            for number, line in enumerate(_lines(gzip.GzipFile(fileobj=raw) if packed else raw), 1):
                fields = (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).split(None, 2)
                if fields and not fields[0].startswith(b"#"):
                    yield _entry(line, fields)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SettingsError(f"{path}: breaks off after line {number:,} ({error})") from None
    except ValueError as error:
        raise SettingsError(f"{path}:{number}: {error}") from None


def _lines(file: Any) -> Iterator[bytes]:
    while line := file.readline(LONGEST_LINE + 1):
        yield line


def _entry(line: bytes, fields: list[bytes]) -> tuple[str, int]:
    """Return the URL and the value of a line. Raises ValueError."""
    if len(line) > LONGEST_LINE:
        raise ValueError(f"the line has more than {LONGEST_LINE:,} bytes")
    try:
        text = fields[0].decode()
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    if len(fields) < 2 or not _VALUE.fullmatch(fields[1]):
        wrong = f"{show(fields[1].decode(errors='replace'))} is no whole number" if len(fields) > 1 else "it has none"
        raise ValueError(f"expected a URI, a blank and its precedence, such as {text} 3; {wrong}"[:400])
    try:
        url = uris.parse(text if _SCHEME.match(fields[0]) else f"http://{text}")
    except InvalidUrl as error:
        raise ValueError(f"{show(text)} cannot be crawled: {error}") from None
    return url, min(max(int(fields[1]), -HIGHEST), HIGHEST)
