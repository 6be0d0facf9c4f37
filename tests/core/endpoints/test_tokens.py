"""Files with a token: which are refused, and when they are read again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from budgetfrontier.core.endpoints import tokens
from budgetfrontier.core.endpoints.tokens import TokenFile
from budgetfrontier.errors import FrontierError
from budgetfrontier.tools.cli import main
from tests.support import logged, token_file

LONG = "x" * 40


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ("short", 0o600, "at least 16"),
        ("", 0o600, "is empty"),
        ("\x00" * 40, 0o600, "cannot be sent"),
        (LONG * 200, 0o600, "4,096"),
        (LONG, 0o644, "chmod o="),
        (LONG, 0o602, "chmod o="),
    ],
)
def test_what_is_refused(text: str, mode: int, said: str, tmp_path: Path) -> None:
    file = token_file(tmp_path, text)
    file.chmod(mode)
    with pytest.raises(FrontierError, match=said) as refused:
        tokens.read(file)
    assert str(file) in str(refused.value)


def test_what_is_read(tmp_path: Path) -> None:
    file = token_file(tmp_path, f"  {LONG}")
    file.chmod(0o640)
    assert tokens.read(file) == LONG
    with pytest.raises(FrontierError, match="No such file"):
        tokens.read(tmp_path / "none")


def test_another_token_counts_at_once(tmp_path: Path) -> None:
    token = TokenFile(token_file(tmp_path, LONG))
    assert token.accepts(LONG) and token.accepts(LONG.encode()) and not token.accepts("") and token.changes == 0
    other = token_file(tmp_path / "..", "y" * 40)
    other.rename(token.path)
    assert token.accepts("y" * 40) and not token.accepts(LONG) and token.changes == 1


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.chmod(0o644), lambda path: path.write_text("short")])
def test_a_file_that_becomes_unusable_leaves_the_token_and_says_so_once(
    spoil: Callable[[Path], object], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = TokenFile(token_file(tmp_path, LONG))
    spoil(token.path)
    assert all(token.accepts(LONG) for _ in range(3))
    [line] = logged(caplog, "budgetfrontier.endpoints", level=logging.WARNING)
    assert str(token.path) in line and "The token that it had before" in line
    token_file(tmp_path, "y" * 40)
    assert token.accepts("y" * 40)


def test_every_command_with_a_token_has_the_same_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = token_file(tmp_path, LONG)
    file.chmod(0o644)
    config = tmp_path / "crawl.yaml"
    config.write_text("crawl: x\nfetch: {user_agent: 'x (+http://x.test/)'}\ncluster: {kafka: nowhere:1}\n")
    (tmp_path / "job" / "frontier").mkdir(parents=True)
    (tmp_path / "job" / "frontier" / "data.mdb").touch()
    for line in (
        ["serve", "jobs"],
        ["worker", "--config", config, "--folder", tmp_path / "worker"],
        ["console", tmp_path / "job"],
        ["crawl", config, "--frontier", "127.0.0.1:1"],
        ["report", "kafka://nowhere:1/x"],
    ):
        assert main([*map(str, line), "--token-file", str(file)]) == 1, line
        assert "everybody may read this token" in capsys.readouterr().err, line
