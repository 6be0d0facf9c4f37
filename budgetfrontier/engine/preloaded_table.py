"""The owner of the table `preloaded`: the precedences of URIs that were read from files, for the policy `preloaded`.

A file is read when a frontier is opened with settings that name it, and read again once its size or time has changed.
It is looked through first, so that a line that is not understood changes nothing; then it is stored batch by batch.
Until all of it is, its row says so, and a frontier whose process was killed meanwhile reads it again when it is opened.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from budgetfrontier.core import uris
from budgetfrontier.errors import FrontierError, SettingsError
from budgetfrontier.settings import policy_factory, precedence_lists
from budgetfrontier.settings.schema import FrontierSettings
from budgetfrontier.storage import keys, meta
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.records import PreloadedRow

BATCH = 10_000
"""Lines of a file that are in memory at the most, and records between two commits."""
log = logging.getLogger(__name__)


class PreloadedTable:
    """The values of URIs in files. One look-up for each URI, if its policy asks for it."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._db = env.db[keys.PRELOADED]
        self._rows = meta.read_preloaded(env.txn, env.db[keys.META])
        self._canonical: Callable[[str], str] = str
        self._outdated: list[PreloadedRow] = []
        """The files whose records are to be removed, and stored anew if the settings still name them."""

    # -- look-ups

    def value_of(self, path: str, url: str) -> int | None:
        """Return the value of a normalized URL in a file; None if it has none. Raises FrontierError."""
        row = self._row(path)
        if row is None or not row.whole:
            raise FrontierError(
                f"{path} was not read: restore the file and open the frontier again, or name it nowhere"
            )
        value = self._env.txn.get(self._key(row, url), db=self._db)
        return None if value is None else int(keys.value.unpack(value)[0])

    def check(self, spec: Any) -> None:
        """Raise FrontierError if a policy that an operator sets in mid-crawl needs a file that was not read."""
        path = None if spec is None else policy_factory.preloaded_file(spec)
        if path is not None and path not in (read := [row.path for row in self._rows if row.whole]):
            raise FrontierError(
                f"{path} was not read; there is {', '.join(read) or 'no file of precedences'}. Such files are read "
                "when a frontier is opened: name it in the settings, for all URIs, in an override or in a sheet"
            )

    # -- reading

    def prepare(self, files: Sequence[str], adjusted: Sequence[str], frontier: FrontierSettings) -> list[str]:
        """Look through the files that are new or have changed; store nothing of them yet.

        Return a sentence about each that was read before: a change that nobody else has noted.
        `files` are those that the settings in force name, `adjusted` those that only adjustments name: one of these may
        be missing, for an adjustment can be withdrawn only once the frontier is open. Raises SettingsError.
        """
        if files:
            self._canonical = policy_factory.canonicalization(frontier)
        self._outdated = [row for row in self._rows if row.path not in files]
        changed = []
        for path in files:
            row, stamp = self._row(path), _stamp(path)
            if row is not None and row.whole and stamp is None:
                log.warning("%s is missing: the precedences that were read from it stay in force", path)
            elif row is None and stamp is None and path in adjusted:
                log.warning("%s is missing: withdraw the adjustment that names it, or restore it and open again", path)
            elif row is None or not row.whole or stamp != (row.size, row.changed):
                lines = sum(1 for _ in _lines(path))
                log.info("%s: reads %s, %s lines", self._env.path, path, f"{lines:,}")
                if row is not None and row.whole:
                    changed.append(
                        f"{path} was read again, {lines:,} lines; URIs already queued keep their precedences"
                    )
                row = row or self._added(path)
                row.size, row.changed = stamp or (0, 0)
                self._outdated.append(row)
        for row in self._outdated:
            row.whole = False
        if self._outdated:
            self._write_rows()
        return changed

    def read(self, files: Sequence[str], *, commit: Callable[[], None]) -> None:
        """Store what `prepare` has looked through, with a `commit` after each batch; remove files not named any more.

        Raises SettingsError if a file has changed meanwhile and cannot be read.
        """
        for row in self._outdated:
            self._remove(row.number, commit)
            if row.path in files:
                self._store(row, commit)
                row.whole = True
            else:
                self._rows.remove(row)
            self._write_rows()
            commit()
        self._outdated = []

    def _row(self, path: str) -> PreloadedRow | None:
        return next((row for row in self._rows if row.path == path), None)

    def _key(self, row: PreloadedRow, url: str) -> bytes:
        return keys.preloaded.pack(row.number, uris.fingerprint(self._canonical(url)))

    def _added(self, path: str) -> PreloadedRow:
        free = {*range(1, len(self._rows) + 2)} - {row.number for row in self._rows}
        row = PreloadedRow(min(free), path)
        self._rows.append(row)
        return row

    def _write_rows(self) -> None:
        meta.write_preloaded(self._env.txn, self._env.db[keys.META], self._rows)

    def _remove(self, number: int, commit: Callable[[], None]) -> None:
        start = keys.preloaded.pack(number, b"")
        while True:
            cursor, removed = self._env.txn.cursor(self._db), 0
            while removed < BATCH and cursor.set_range(start) and keys.preloaded.unpack(cursor.key())[0] == number:
                removed += cursor.delete()
            cursor.close()
            if removed < BATCH:
                return  # the next commit has them
            commit()

    def _store(self, row: PreloadedRow, commit: Callable[[], None]) -> None:
        row.uris, lines = 0, _lines(row.path)
        while batch := list(islice(lines, BATCH)):
            values = {self._key(row, url): keys.value.pack(value) for url, value in batch}
            cursor = self._env.txn.cursor(self._db)
            row.uris += sum(not cursor.set_key(key) for key in values)
            cursor.putmulti(sorted(values.items()))
            cursor.close()
            commit()


def _stamp(path: str) -> tuple[int, int] | None:
    """Return the size of a file and when it was changed; None if there is none. Raises SettingsError."""
    try:
        status = Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    return status.st_size, status.st_mtime_ns


def _lines(path: str) -> Iterator[tuple[str, int]]:
    try:
        yield from precedence_lists.read(Path(path))
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: Exception) -> SettingsError:
    reason = getattr(error, "strerror", None) or error
    return SettingsError(f"{path}, a file of precedences of URIs, cannot be read: {reason}; correct its name or mode")
