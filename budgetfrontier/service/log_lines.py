"""The log of a server on stderr: a line for each event, for people or as JSON."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
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


def begin(*, as_json: bool) -> None:
    """Log to stderr for the rest of the process: records of the level INFO and above.

    gRPC's own messages, which have another form, are left out, unless the environment has a GRPC_VERBOSITY: call this
    before gRPC is imported.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else TextLines())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
    logging.raiseExceptions = False  # on a full disk, say
    threading.excepthook = _log_failed_thread


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _log_failed_thread(failed: threading.ExceptHookArgs) -> None:
    """Log the exception that has ended a thread."""
    error = failed.exc_value or failed.exc_type()
    name = failed.thread.name if failed.thread else "a thread"
    logging.getLogger("budgetfrontier.service").critical("thread %s failed", name, exc_info=error)
