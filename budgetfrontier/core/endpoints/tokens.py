"""Tokens: the valid ones, their files, and their comparison."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import stat
import threading
from pathlib import Path
from typing import Final

from budgetfrontier.errors import FrontierError

SHORTEST: Final = 16
"""Characters that a token in a file has at least."""
LONGEST: Final = 4096
"""Characters that a token has at most: an RPC has room for 8 KiB of metadata."""

log = logging.getLogger("budgetfrontier.endpoints")


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
    return _read(path)[0]


def is_same(one: str | bytes, other: str | bytes) -> bool:
    """Compare two texts; how long that takes does not depend on how much of them is the same."""
    return hmac.compare_digest(_digest(one), _digest(other))


class TokenFile:
    """A token in a file, which is read again once the file has changed. May be used in any thread."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises FrontierError."""
        self.path = path
        self.changes = 0
        """The number of times that another token was read."""
        self._token, self._seen = _read(path)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<TokenFile {self.path}>"

    def accepts(self, given: str | bytes) -> bool:
        """Return whether a text is the token."""
        self.look()
        return is_same(given, self._token)

    def look(self) -> None:
        """Read the file if it has changed. A token that cannot be read leaves the one before; a warning says so."""
        with self._lock:
            now = _signature_at(self.path)
            if now == self._seen:
                return
            self._seen = now
            try:
                token, self._seen = _read(self.path)
            except FrontierError as error:
                log.warning("%s. The token that it had before is still the one that counts", error)
                return
            if token != self._token:
                self._token = token
                self.changes += 1
                log.info("%s has another token, which counts from now on", self.path)


_Signature = tuple[int, ...] | None


def _signature_at(path: Path) -> _Signature:
    try:
        return _signature(os.stat(path))
    except OSError:
        return None


def _signature(found: os.stat_result) -> _Signature:
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_mode


def _read(path: Path) -> tuple[str, _Signature]:
    """Return the token in a file, and a signature that changes with the file."""
    try:
        with path.open("rb") as file:
            found, content = os.fstat(file.fileno()), file.read(2 * LONGEST)
    except OSError as e:
        raise FrontierError(f"{path}: the token cannot be read ({e.strerror})") from None
    if found.st_mode & (stat.S_IROTH | stat.S_IWOTH):
        raise FrontierError(f"{path}: everybody may read this token; `chmod o= {path}`")
    try:
        token = checked(content.decode("utf-8", errors="replace"))  # which is no ASCII
        if len(token) < SHORTEST:
            raise ValueError(f"is short: it has at least {SHORTEST} characters")
    except ValueError as why:
        example = "such as the output of `openssl rand -hex 20`"
        raise FrontierError(f"{path}: the token {why}; write one into it, {example}") from None
    return token, _signature(found)


def _digest(text: str | bytes) -> bytes:
    return hashlib.sha256(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")).digest()
