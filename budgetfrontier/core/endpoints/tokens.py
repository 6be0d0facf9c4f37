"""Tokens: the valid ones, their files, and their comparison."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

from budgetfrontier.errors import FrontierError

SHORTEST: Final = 16
"""Characters that a token in a file has at least."""
LONGEST: Final = 4096
"""Characters that a token has at most: an RPC has room for 8 KiB of metadata."""

_LARGEST = 1 << 20  # bytes of a file
log = logging.getLogger("budgetfrontier.endpoints")
_T = TypeVar("_T")


def checked(text: str) -> str:
    """Return a token without the spaces and line breaks around it. Raises ValueError for an invalid one."""
    token = text.strip()
    if not token:
        raise ValueError("is empty")
    if not token.isascii() or not token.isprintable():
        raise ValueError("has characters that cannot be sent: a token is one line of ASCII")
    if len(token) > LONGEST:
        raise ValueError(f"has more than {LONGEST:,} characters, which cannot be sent")
    return token


def read(path: Path) -> str:
    """Return the token in a file. Raises FrontierError if others may read the file, or if the token is none."""
    return _read(path, _token_in)[0]


def is_same(one: str | bytes, other: str | bytes) -> bool:
    """Compare two texts; how long that takes does not depend on how much of them is the same."""
    return hmac.compare_digest(_digest(one), _digest(other))


class SecretFile(Generic[_T]):
    """Tokens in a file, which is read again once the file has changed. May be used in any thread."""

    def __init__(self, path: Path, parse: Callable[[str], _T]) -> None:
        """Read the file. `parse` raises ValueError for a text that it cannot read. Raises FrontierError."""
        self.path = path
        self._parse, self._changes = parse, 0
        self._value, self._seen = _read(path, parse)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    @property
    def changes(self) -> int:
        """The number of times that something else was read."""
        self.look()
        return self._changes

    def look(self) -> _T:
        """Return the content of the file, read again if the file has changed.

        If it cannot be read, what it had before still counts; a warning says so.
        """
        with self._lock:
            now = _signature_at(self.path)
            if now == self._seen:
                return self._value
            self._seen = now
            try:
                value, self._seen = _read(self.path, self._parse)
            except FrontierError as error:
                log.warning("%s. The token that it had before is still the one that counts", error)
                return self._value
            if value != self._value:
                self._value = value
                self._changes += 1
                log.info("%s has another token, which counts from now on", self.path)
            return value


class TokenFile(SecretFile[str]):
    """A token in a file, which is read again once the file has changed. May be used in any thread."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises FrontierError."""
        super().__init__(path, _token_in)

    def accepts(self, given: str | bytes) -> bool:
        """Return whether a text is the token."""
        return is_same(given, self.look())


_Signature = tuple[int, ...] | None


def _signature_at(path: Path) -> _Signature:
    try:
        return _signature(os.stat(path))
    except OSError:
        return None


def _signature(found: os.stat_result) -> _Signature:
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_mode


def _read(path: Path, parse: Callable[[str], _T]) -> tuple[_T, _Signature]:
    """Return the parsed content of a file, and a signature that changes whenever the file does."""
    try:
        with path.open("rb") as file:
            found, content = os.fstat(file.fileno()), file.read(_LARGEST)
    except OSError as e:
        raise FrontierError(f"{path}: the token cannot be read ({e.strerror})") from None
    if found.st_mode & (stat.S_IROTH | stat.S_IWOTH):
        raise FrontierError(f"{path}: everybody may read this token; `chmod o= {path}`")
    try:
        return parse(content.decode("utf-8", errors="replace")), _signature(found)
    except ValueError as why:
        raise FrontierError(f"{path}: {why}") from None


def _token_in(text: str) -> str:
    """Return the token in a text. Raises ValueError for an invalid one."""
    try:
        token = checked(text)  # a character that is no UTF-8 is no ASCII
        if len(token) < SHORTEST:
            raise ValueError(f"is short: it has at least {SHORTEST} characters")
    except ValueError as why:
        example = "such as the output of `openssl rand -hex 20`"
        raise ValueError(f"the token {why}; write one into it, {example}") from None
    return token


def _digest(text: str | bytes) -> bytes:
    return hashlib.sha256(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")).digest()
