"""All errors that are raised to users, with one base class. The docstring of a class is its default message."""

from __future__ import annotations

import errno
import functools
import signal
from collections.abc import Mapping, Sequence
from types import CodeType
from typing import Any

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""The numbers of the system's errors that say that a disk is full, or a quota used up."""

NO_FILES = (errno.EMFILE, errno.ENFILE)
"""Error numbers of the system when no more files can be open, in this process or on this machine."""
MORE_FILES = "raise the limit of open files (`ulimit -n`)"
"""The remedy against them, for messages."""
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
"""Error numbers of file systems that have no locks, such as those of some networks."""


def in_words(error: OSError) -> str:
    """Return an error of the system for a message, with the file that it is about."""
    text = error.strerror or str(error)
    if isinstance(error, FileNotFoundError) and error.filename is None and "temporary directory" in text:
        return f"{text}: set the environment variable TMPDIR to a folder that can be written to"
    told = f"{error.filename}: {text}" if error.filename else text
    return f"{told}; {MORE_FILES}, and try again" if error.errno in NO_FILES else told


def pass_on_interruption(error: BaseException) -> None:
    """Raise an error again that a signal handler has raised, such as that of a time limit.

    It may come up anywhere: the policy or the hook in which it did has not failed.
    """
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    place = error.__traceback__
    while place is not None:
        if place.tb_frame.f_code in handlers:
            raise error
        place = place.tb_next


def _code_of(handler: Any) -> CodeType | None:
    """Return the code that a signal handler runs; None if it is not written in Python."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    function = getattr(handler, "__func__", handler)
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return code if isinstance(code, CodeType) else None


class FrontierError(Exception):
    """The frontier could not do what was asked."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or " ".join((self.__doc__ or "").split()))


class WrongType(FrontierError, TypeError):
    """A call was given a value of a type that it does not take; the message says what to write."""


class FrontierLocked(FrontierError):
    """Another process has this frontier open for writing; stop it first, or use the command line, which steers it."""

    def __init__(self, message: str | None = None, *, pid: int | None = None) -> None:
        super().__init__(message)
        self.pid = pid


class FrontierClosed(FrontierError):
    """This frontier is closed; open it again. What the last commit held is on disk."""


class WrongThread(FrontierError):
    """A frontier belongs to the thread and process that opened it; call it from there, or open another."""


class FrontierBusy(FrontierError):
    """A call of this frontier is in progress in this thread; wait until it has returned.

    A signal handler, `__del__` or a policy has called the frontier in the middle of it. Let a handler set a flag or
    raise an exception, and call the frontier once the call has returned.
    """


class LeaseExpired(FrontierError):
    """This lease has ended (expired, finished, or from an earlier run); its URI may be out with somebody else."""


def lease_ended(lease_id: int, url: str) -> LeaseExpired:
    """Return the error for a lease that has ended, which names it and its URI."""
    return LeaseExpired(f"lease {lease_id} of {url} has ended; drop the result, its URI is delivered again if need be")


class StorageFull(FrontierError):
    """The disk is full; free some space and open the frontier again: it is as of the last commit."""


def disk_full(path: object) -> StorageFull:
    """Return the error for a full disk, which names the file or folder that could not be written."""
    return StorageFull(f"the disk of {path} is full; free some space and try again: nothing that was committed is lost")


class FrontierRemoved(FrontierError):
    """The files of this frontier were removed or replaced while it was open; open it again, as it is there now."""


class OutputRemoved(FrontierError):
    """An output of the crawl was removed, replaced or truncated while it was written; run the same command again."""


class WrongAddress(FrontierError):
    """An address or a URL does not have the form that is needed here; the message shows it."""


class ConnectionLost(FrontierError):
    """The server of this frontier does not answer; all that it has acknowledged is on its disk. Check that it runs."""


class WrongCredentials(FrontierError):
    """The server and this client do not agree on a token, on certificates, or on TLS. Repeating it does not help.

    `option` is the option of the client that is to be changed, "token", "tls" or "address".
    """

    def __init__(self, why: str | None = None, remedy: str = "", *, option: str = "") -> None:
        self.option = option
        self._why, self._remedy = why, remedy
        super().__init__(self.naming(f"`{option}=`") if why else None)

    def naming(self, option: str) -> str:
        """Return the message for an interface that has another name for the option."""
        return f"{self._why}; {self._remedy.format(option=option)}" if self._why else str(self)

    def on_command_line(self, options: Mapping[str, str]) -> str:
        """Return the message for a command that has other names for the options, and `system` for True."""
        return self.naming(options.get(self.option, self.option)).replace("to True if", "to `system` if")


class NotAFrontier(FrontierError):
    """This folder is not a frontier; name a folder that is empty, or that a frontier was created in."""


class CorruptFrontier(FrontierError):
    """The frontier's files are damaged; nothing was written. Restore a backup, or see `budgetfrontier verify`."""


class NewerSchema(FrontierError):
    """This frontier has another schema than that of this budgetfrontier; open it with the version that wrote it."""


class NewerChanges(FrontierError):
    """A log has changes of rows that a newer release has made; read it with that release. Nothing was changed."""


class CommandInProgress(FrontierError):
    """The command is being applied, and takes long; `budgetfrontier audit JOB` lists it once it is done."""

    number = 0
    """Its number in the mailbox of a running frontier; 0 if it is not there."""


class SettingsError(FrontierError):
    """The settings are not valid.

    `problems` holds one line for each, as `file:line:column: what is wrong`; `warnings` likewise what is valid, but
    probably not what was meant.
    """

    def __init__(self, problems: str | list[str] | None = None, *, warnings: Sequence[str] = ()) -> None:
        self.problems: list[str] = [problems] if isinstance(problems, str) else list(problems or [])
        self.warnings = list(warnings)
        super().__init__("\n".join(self.problems) or None)


class WrongSettings(SettingsError, WrongType):
    """Settings are a Settings or a dict; Settings.from_yaml(path) reads a file."""


class ScopeChanged(FrontierError):
    """The scope has changed and would disregard much of what is queued; the crawl is paused, and nothing is lost."""


class NotOwner(FrontierError):
    """This partition of the crawl belongs to another worker; look up its owner, and repeat the call there."""


class PolicyError(SettingsError):
    """A policy is unknown, its options are not valid, or it failed on a URL: it raised, or returned an invalid value.

    When a policy fails on a URL, nothing has changed, and the frontier stays open: fix the policy and continue.
    `policy` is its name then, `url` the URL, and `value` what it returned, or the exception that it raised.
    """

    def __init__(
        self,
        problems: str | list[str] | None = None,
        *,
        policy: str | None = None,
        url: str | None = None,
        value: object = None,
    ) -> None:
        super().__init__(problems)
        self.policy, self.url, self.value = policy, url, value


class MissingExtra(FrontierError, ImportError):
    """A part that was left out at installation is needed; an ImportError too, for those who try an import."""

    def __init__(self, extra: str) -> None:
        super().__init__(f"this needs the extra \"{extra}\": pip install 'budgetfrontier[{extra}]'")


def check_extra(extra: str, *packages: str) -> None:
    """Raise MissingExtra unless the packages of an extra are installed. None is imported."""
    from importlib.util import find_spec

    if any(find_spec(package) is None for package in packages):
        raise MissingExtra(extra)


class InvalidUrl(ValueError):
    """Why a string is no URL that can be crawled; `reason` is a short slug for tallies. Never leaves the engine."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
