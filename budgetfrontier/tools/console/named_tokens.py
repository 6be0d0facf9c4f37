"""Tokens with names and roles, in a file that has only their digests."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from budgetfrontier.core.endpoints.tokens import SecretFile
from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.errors import FrontierError
from budgetfrontier.settings.values import show
from budgetfrontier.storage.whole_files import atomic_file

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_HEAD = "# Tokens of the console: NAME ROLE SHA256, made by `budgetfrontier token`.\n"


class Role(IntEnum):
    """The role of a token. Each may do what those before it may."""

    READ = 1  # look at jobs
    STEER = 2  # give commands
    ADMIN = 3  # give those that cannot be taken back


class TokenHolder(NamedTuple):
    """The one to whom a token was given: the name for the audit, and what the token allows."""

    name: str
    role: Role


class NamedTokens:
    """The tokens in a file, which is read again once it has changed. May be used in any thread."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises FrontierError."""
        self._file = SecretFile(path, _tokens_in)

    @property
    def changes(self) -> int:
        """The number of times that other tokens were read."""
        return self._file.changes

    def holder(self, given: str) -> TokenHolder | None:
        """Return the holder of a token; None if it is none of these."""
        return self._file.look().get(_digest(given))


def read(path: Path) -> list[TokenHolder]:
    """Return the holders of the tokens in a file. Raises FrontierError."""
    return [*SecretFile(path, _tokens_in).look().values()]


def add(path: Path, name: str, role: Role) -> str:
    """Add a token to a file, which is made if there is none; return it. It is kept nowhere. Raises FrontierError."""
    if not _NAME.fullmatch(name):
        raise FrontierError(
            f"{show(name)} is no name: the letters a to z, digits and ._@- make one, at most 64 of them"
        )
    there = path.exists()
    if there and any(one.name == name for one in read(path)):
        raise FrontierError(f"{path} has a token of {name} already; `token {path} remove {name}` removes it")
    token = secrets.token_hex(20)
    before = path.read_text(encoding="utf-8") if there else _HEAD
    _write(path, f"{before.rstrip()}\n{name} {role.name.lower()} {_digest(token)}\n")
    return token


def remove(path: Path, name: str) -> None:
    """Remove the token of a name from a file. Raises FrontierError if there is none."""
    names = [one.name for one in read(path)]
    if name not in names:
        raise FrontierError(f"{path} has no token of {name[:80]!r}{did_you_mean(name, names)}")
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    _write(path, "".join(line for line in lines if line.split()[:1] != [name]))


def _write(path: Path, text: str) -> None:
    """Write the file with its owner's rights alone; a console that runs reads it again."""
    with atomic_file(path, opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text.encode())


def _tokens_in(text: str) -> dict[str, TokenHolder]:
    """Return the holders by the digests of their tokens. Raises ValueError for a line that is none."""
    found: dict[str, TokenHolder] = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, *rest = line.split() or ["#"]
        if name.startswith("#"):
            continue
        role = Role.__members__.get(rest[0].upper()) if len(rest) == 2 else None
        if role is None or not _NAME.fullmatch(name) or not _DIGEST.fullmatch(rest[1]):
            raise ValueError(f"line {number} is not NAME ROLE SHA256; `budgetfrontier token` writes such lines")
        found[rest[1]] = TokenHolder(name, role)
    return found


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
