"""A YAML file for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.settings.files import Files


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)
