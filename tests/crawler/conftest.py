"""Commands of an operator, run in this process."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest

from budgetfrontier.tools.cli import common, main
from tests.support import PATIENCE

Asked = Callable[..., tuple[int, str]]


@pytest.fixture
def asked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Run a command in this process: its exit code, and what it said on stderr."""
    monkeypatch.setattr(common, "ANSWER_TIMEOUT", PATIENCE)

    def ask(*arguments: object) -> tuple[int, str]:
        capsys.readouterr()
        return main([str(argument) for argument in arguments]), capsys.readouterr().err

    return ask


class FullDisk:
    """A disk that takes `room` more bytes, a part of what is written if that is more."""

    def __init__(self, room: int) -> None:
        self.room, self._write = room, os.write

    def write(self, fd: int, data: Any) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = self._write(fd, bytes(data[: self.room]))
        self.room -= taken
        return taken
