"""The examples of docs/howto/share.md run as they are, with a server of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_examples import ROOT, blocks
from tests.remote.served import Served
from tests.support import PATIENCE, make_settings

PAGE = ROOT / "docs/howto/share.md"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = [block for block in blocks(PAGE) if block.language == "python" and "127.0.0.1:7071" in block.text]
    assert len(programs) == 5
    with Served(tmp_path, make_settings(), monkeypatch) as served:
        for program in programs:
            text = program.text.replace("127.0.0.1:7071", served.address)
            assert text != program.text
            done = subprocess.run(
                [sys.executable, "-c", text],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            if program.file == "worker.py":
                assert done.stdout == "4\n"
