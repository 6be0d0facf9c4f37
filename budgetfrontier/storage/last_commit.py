"""The last commit of a frontier, readable from any process without a lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from budgetfrontier.errors import FrontierClosed, FrontierError, NotAFrontier, WrongType
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.environment import Environment, opened_here
from budgetfrontier.storage.lmdb_env import check_files, translate_error
from budgetfrontier.storage.read_environment import ReadEnvironment
from budgetfrontier.storage.view import View


class LastCommit:
    """The last commit of a frontier, read through the engine's environment if it is in this process, else a shared one.

    All methods raise NotAFrontier, NewerSchema or CorruptFrontier, and never an error of LMDB.
    """

    def __init__(self, path: str | os.PathLike[str], now: Callable[[], float] | None = None) -> None:
        if not isinstance(path, str | os.PathLike):
            raise WrongType(f"a path is a str or a Path, not {type(path).__name__}")
        self.path, self._now = Path(path), now
        if not check_files(self.path):
            raise NotAFrontier(f"there is no frontier at {self.path}; name the folder of a job")
        self._engine = opened_here(self.path)
        self._shared = ReadEnvironment.join(self.path) if self._engine is None else None

    @property
    def env(self) -> lmdb.Environment:
        return self._source().env

    @contextmanager
    def view(self) -> Iterator[View]:
        """Hold a view of the last commit. Errors in the block that are caused by damage are translated too."""
        with self.translated(), self.begin() as view:
            yield view

    @contextmanager
    def begin(self) -> Iterator[View]:
        """Hold a view of the last commit. Errors in the block are not translated."""
        source = self._source()
        with source.env.begin() if isinstance(source, Environment) else source.begin() as txn:
            yield View(txn, source.db, self.path, self._now)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Translate the errors of LMDB, and of records that cannot be read, into a FrontierError."""
        try:
            yield
        except (lmdb.Error, Damage) as e:
            self._source()
            if "closed/deleted/dropped" in str(e):  # LMDB's message for objects that were open when its map was resized
                raise FrontierError(f"{self.path} outgrew its map while it was read here; read it again") from e
            raise translate_error(e, self.path) from e

    @property
    def is_closed(self) -> bool:
        """Whether reading has ended: this object was closed, or the engine of this process was."""
        return self._shared is None and (self._engine is None or opened_here(self.path) is not self._engine)

    def close(self) -> None:
        """Close the files. A second time does nothing."""
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.leave()

    def _source(self) -> ReadEnvironment | Environment:
        """Return the engine's environment in this process, or the one shared by readers. Raises FrontierClosed."""
        if self._shared is not None:
            return self._shared
        if self._engine is None or self.is_closed:
            raise FrontierClosed("the frontier that this looked into was closed; make another Reader")
        return self._engine
