"""The log of a server on stderr: a line for each event, for people or as JSON."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from budgetfrontier.reports.format import clean

_OF_ALL_RECORDS = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


class TextLines(logging.Formatter):
    """Formats a record as its time in UTC, its level and its message, and a traceback below."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time(record)} {record.levelname.lower()}: {clean(record.getMessage())}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonLines(logging.Formatter):
    """Formats a record as an object of JSON on one line, with the fields that are given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in _OF_ALL_RECORDS}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


@contextmanager
def on_stderr(*, as_json: bool) -> Iterator[None]:
    """Log to stderr within a `with` block: records of the level INFO and above.

    gRPC's own messages, which have another form, are left out, unless the environment has a GRPC_VERBOSITY: enter the
    block before gRPC is imported. At the end logging, warnings and threads are as they were before.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else TextLines())
    root = logging.getLogger()
    before = root.level, logging.raiseExceptions, threading.excepthook, warnings.showwarning
    is_ours = "GRPC_VERBOSITY" not in os.environ
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
    logging.raiseExceptions = False  # on a full disk, say
    threading.excepthook = _log_failed_thread
    try:
        yield
    finally:
        level, logging.raiseExceptions, threading.excepthook, showwarning = before
        if warnings.showwarning is not showwarning:  # otherwise they were captured before
            logging.captureWarnings(False)
        root.setLevel(level)
        root.removeHandler(handler)
        if is_ours:
            del os.environ["GRPC_VERBOSITY"]


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _log_failed_thread(failed: threading.ExceptHookArgs) -> None:
    """Log the exception that has ended a thread."""
    error = failed.exc_value or failed.exc_type()
    name = failed.thread.name if failed.thread else "a thread"
    logging.getLogger("budgetfrontier.service").critical("thread %s failed", name, exc_info=error)
