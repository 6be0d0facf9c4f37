"""YAML files of settings, and the problems that settings are refused for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier.errors import SettingsError
from budgetfrontier.settings import Settings


class Files:
    """Writes YAML, reads it back as settings or as problems without the file's name."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "crawl.yaml"

    def settings(self, text: str | bytes) -> Settings:
        self.path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return Settings.from_yaml(self.path)

    def problems(self, text: str | bytes) -> list[str]:
        with pytest.raises(SettingsError) as caught:
            self.settings(text)
        assert all(problem.startswith(f"{self.path}:") for problem in caught.value.problems)
        return [problem.removeprefix(f"{self.path}:") for problem in caught.value.problems]


def problems(data: Any) -> list[str]:
    """What is wrong with settings as plain data."""
    with pytest.raises(SettingsError) as caught:
        Settings.from_dict(data)
    return caught.value.problems
