"""The crawls of a server: one job folder and one frontier for each crawlID."""

from __future__ import annotations

import logging
import shutil
import threading
from contextlib import suppress
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import quote, unquote

from msgspec.structs import replace

from budgetfrontier.clock import WallClock
from budgetfrontier.core.model import RunEnd
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import (
    CorruptFrontier,
    FrontierClosed,
    FrontierError,
    FrontierLocked,
    FrontierRemoved,
    SettingsError,
    StorageFull,
)
from budgetfrontier.reports.format import clean
from budgetfrontier.server import default_delay, node
from budgetfrontier.server.crawl_thread import CrawlThread
from budgetfrontier.server.tasks import CallbackStep, together
from budgetfrontier.settings import Settings
from budgetfrontier.storage.lock import SERVER_LOCK, WriterLock

DEFAULT = "DEFAULT"
"""The crawlID of calls that give none."""
FRONTIER = "frontier"
DELETED = ".deleted"
"""The name to which a frontier is moved before it is removed, so that a kill leaves no half of one."""
LONGEST = 200
"""Bytes of the name of a folder."""
LIST_EVERY = 1.0
"""Seconds between two looks whether other programs have created crawls."""


_OPENED_ANEW = (FrontierClosed, FrontierLocked, FrontierRemoved, StorageFull)
"""Errors after which a frontier is opened anew for its next use."""


_DAMAGED = (CorruptFrontier, SettingsError)
"""Errors after which a crawl may be deleted uncounted; with others, another process may use it."""

log = logging.getLogger("budgetfrontier.service")


class InvalidCrawlId(FrontierError):
    """The crawlID is no valid name of a crawl."""


def folder_name(crawl_id: str) -> str:
    """Return the name of the job folder of a crawlID: itself, with percent signs for impossible characters.

    Raises InvalidCrawlId if it is too long.
    """
    name = quote(crawl_id, safe=" !#$&'()+,;=@[]{}~")
    if name.startswith("."):
        name = "%2E" + name[1:]
    if len(name) > LONGEST:
        raise InvalidCrawlId(f"the crawlID {crawl_id[:50]!r}... is too long: its folder may have {LONGEST} bytes")
    return name


def _is_job(path: Path) -> bool:
    try:
        return folder_name(unquote(path.name)) == path.name and (path / FRONTIER / "data.mdb").is_file()
    except InvalidCrawlId:
        return False


class Crawls:
    """The crawls in a folder; each is opened when it is asked for, closed if it is not for `close_after` seconds.

    All methods may be called in any thread.
    """

    def __init__(self, folder: Path, settings: Settings, *, close_after: float = 0.0) -> None:
        """Take a folder, which no other server has. Raises FrontierError."""
        self.folder = folder.absolute()  # also after a policy has changed the working directory
        self._server_lock = _locked(folder)
        self._settings = settings
        self._close_after = close_after
        self._listed: tuple[float, list[str]] = (-inf, [])
        self._lock = threading.Lock()
        self._open: dict[str, CrawlThread] = {}
        self.node = node.read(folder)
        for left in folder.glob(f"*/{DELETED}"):
            shutil.rmtree(left, ignore_errors=True)
            _remove_if_empty(left.parent)
        self._is_lost = False
        """Whether the log says that the folder is not in its place any more."""
        self.stopping = threading.Event()
        """Set when the server is stopped: calls that wait are to end."""

    @property
    def active(self) -> bool:
        """Whether URLs are handed out."""
        return self.node.active

    def names(self) -> list[str]:
        """Return the crawlIDs that there are, in order."""
        try:
            return sorted(unquote(path.name) for path in self.folder.iterdir() if _is_job(path))
        except FileNotFoundError:  # as of `check_folder`
            return []

    def check_folder(self) -> None:
        """Raise FrontierRemoved if the folder is not in its place any more, or its lock, so that others may serve it.

        Nothing is created in its place: the crawls are where somebody has moved it to.
        """
        if not self._server_lock.is_lost():
            return
        error = FrontierRemoved(
            f"{self.folder}, or {SERVER_LOCK} in it, was removed, moved or replaced while it was served, and this "
            "server creates no other: end it, and start it on the folder where that is now"
        )
        if not self._is_lost:
            self._is_lost = True
            log.error("%s", error, extra={"event": "folder lost"})
        raise error

    def find(self, crawl_id: str) -> CrawlThread | None:
        """Return a crawl that exists, None if there is none. Raises InvalidCrawlId and FrontierRemoved."""
        crawl_id = crawl_id or DEFAULT
        crawl = self._open.get(crawl_id)
        if crawl is not None and not crawl.is_open and crawl.end_if_removed():
            self._forget(crawl)
            crawl = None
        if crawl is None:
            self.check_folder()
        if crawl is None and _is_job(self.folder / folder_name(crawl_id)):
            return self.get(crawl_id)
        return crawl

    def get(self, crawl_id: str) -> CrawlThread:
        """Return a crawl, created if need be. Raises InvalidCrawlId, FrontierRemoved and OSError."""
        crawl_id = crawl_id or DEFAULT
        crawl = self._open.get(crawl_id)
        if crawl is None:
            with self._lock:
                crawl = self._open.get(crawl_id) or self._start(crawl_id)
        return crawl

    def _start(self, crawl_id: str) -> CrawlThread:
        self.check_folder()
        job = self.folder / folder_name(crawl_id)
        job.mkdir(parents=True, exist_ok=True)
        settings = partial(self._settings_of_new, crawl_id)
        crawl = CrawlThread(
            crawl_id,
            job / FRONTIER,
            settings,
            close_after=self._close_after or inf,
            opened=lambda frontier: default_delay.take(frontier, job / FRONTIER, self.node, now=False),
            removed=self._forget,
        )
        self._open[crawl_id] = crawl
        return crawl

    def _forget(self, crawl: CrawlThread) -> None:
        """Forget a crawl that has ended, because its frontier was removed."""
        with self._lock:
            if self._open.get(crawl.name) is crawl:
                del self._open[crawl.name]

    @property
    def new_keep_urls(self) -> bool:
        """Whether crawls that are created now keep their URLs."""
        return self._settings.frontier.keep_urls

    def _settings_of_new(self, crawl_id: str) -> Settings:
        self.check_folder()  # a crawl that was closed as unused may have gone with it
        name = clean(crawl_id)
        name = name if name.strip() else repr(name)  # settings have no names of blanks alone
        settings, delay = replace(self._settings, crawl=name), self.node.delay
        if delay is None:
            return settings
        politeness = replace(settings.frontier.politeness, min_interval=delay)
        return replace(settings, frontier=replace(settings.frontier, politeness=politeness))

    def all(self) -> list[CrawlThread]:
        """Return all crawls, in the order of their crawlIDs; new ones of another program may be missing."""
        self.check_folder()
        listed, names = self._listed
        if monotonic() > listed + LIST_EVERY:
            names = self.names()
            self._listed = monotonic(), names
        found = (self.find(name) for name in sorted({*names, *self._open.copy()}))
        return [crawl for crawl in found if crawl is not None]

    def opened(self) -> list[CrawlThread]:
        """Return the crawls with open frontiers, in the order of their first uses."""
        return [crawl for crawl in self._open.copy().values() if crawl.is_open]

    async def delete(self, crawl_id: str) -> int:
        """Delete a crawl: its frontier, and the folder of its job if that holds nothing else.

        Return the number of its URLs, of waiting ones if it does not keep its URLs; 0 if none, or if it is damaged.
        """
        crawl = self.find(crawl_id)
        if crawl is None:
            return 0
        try:
            count = await crawl.run(_count_urls, changes=False)
        except _DAMAGED as e:
            count = 0
            log.warning(
                "crawl %r is deleted although it cannot be opened: %s", crawl.name, e, extra={"crawl": crawl.name}
            )
        await CallbackStep[None](lambda done: threading.Thread(target=self._remove, args=(crawl, done)).start())
        return count

    def _remove(self, crawl: CrawlThread, done: Any) -> None:
        """Close a crawl and remove its frontier, in a thread of its own."""
        try:
            crawl.close()  # until it is moved, calls find it closed
            deleted = crawl.folder.with_name(DELETED)
            with self._lock:
                if self._open.get(crawl.name) is crawl:  # otherwise another call has deleted it
                    shutil.rmtree(deleted, ignore_errors=True)
                    with suppress(FileNotFoundError):  # somebody else has removed it
                        crawl.folder.rename(deleted)
                    del self._open[crawl.name]
            shutil.rmtree(deleted, ignore_errors=True)
            with self._lock:
                if crawl.name not in self._open:
                    _remove_if_empty(deleted.parent)
        except BaseException as e:
            done(None, e)
        else:
            done(None, None)

    async def set_delay(self, delay: float) -> None:
        """Set the default delay of all crawls: open ones take it now, the others when they are opened.

        It is limited by the settings' maximum. Raises OSError if it cannot be stored, and the error of a crawl that
        stays open and does not take it.
        """
        self.set_node(delay=node.delay_in_bounds(delay), delay_set=WallClock().time())
        errors: list[Exception] = []  # of open crawls: one that cannot be opened now takes it at its next opening

        def take(frontier: Frontier, folder: Path) -> None:
            try:
                default_delay.take(frontier, folder, self.node, now=True)
            except Exception as e:
                errors.append(e)
                raise

        with suppress(Exception):  # it is among the errors, or concerns a crawl that could not be opened
            await together(crawl.run(partial(take, folder=crawl.folder), uses=False) for crawl in self.opened())
        for error in errors:
            if not isinstance(error, _OPENED_ANEW):
                raise error

    def set_node(self, **changes: Any) -> None:
        """Store fields of the state that holds for all crawls; they hold from then on. Raises OSError."""
        self.check_folder()
        changed = replace(self.node, **changes)
        node.write(self.folder, changed)
        self.node = changed

    def close(self, *, end: RunEnd = RunEnd.EXIT, reason: str = "") -> None:
        """Close all crawls; their leases stay. The history of runs gets `end` and `reason`."""
        with self._lock:
            crawls = list(self._open.values())
        for wait in (False, True):  # all at once
            for crawl in crawls:
                crawl.close(wait=wait, end=end, reason=reason)
        if not self._server_lock.is_lost():  # otherwise it may be that of another server
            (self.folder / SERVER_LOCK).unlink(missing_ok=True)
        self._server_lock.release()


def _locked(folder: Path) -> WriterLock:
    """Return the lock of a folder of jobs. Raises FrontierError if it is none, or if another server has it."""
    if (folder / "data.mdb").is_file():
        raise FrontierError(f"{folder} is a frontier: give the folder above that of its job")
    if (folder / FRONTIER / "data.mdb").is_file():
        raise FrontierError(f"{folder} is a job: give the folder in which it is, {folder.absolute().parent}")
    try:
        return WriterLock(folder / SERVER_LOCK)
    except FrontierLocked as e:
        raise FrontierError(f"{folder} is served already, by process {e.pid}: end that server first") from e


def _remove_if_empty(job: Path) -> None:
    """Remove the folder of a job, unless something else is in it, or it is a link."""
    with suppress(OSError):
        job.rmdir()


def _count_urls(frontier: Frontier) -> int:
    if not frontier.settings.frontier.keep_urls:
        total = frontier.summary()
        return total.queued + total.future
    totals = frontier.internals.kept_totals()
    return 0 if totals is None else totals.active + totals.completed
