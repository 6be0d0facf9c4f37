"""Commands of an operator, run in this process."""

from __future__ import annotations

from collections.abc import Callable

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
