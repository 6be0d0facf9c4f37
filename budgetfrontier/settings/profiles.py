"""Profiles: sets of settings that come with the package, `config/NAME.yaml`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.errors import SettingsError
from budgetfrontier.settings.document import Document


def profiles() -> list[str]:
    """Return the names of all profiles."""
    folder = files("budgetfrontier.settings").joinpath("config")
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))


@cache
def profile_data(name: str) -> Any:
    """Return the settings of a profile as plain data. Raises SettingsError if there is no such profile."""
    if name not in profiles():
        hint = did_you_mean(name, profiles(), quote='"')
        raise SettingsError(f'there is no profile "{name}"{hint or "; there are " + ", ".join(profiles())}')
    return Document(files("budgetfrontier.settings").joinpath("config", f"{name}.yaml").read_bytes()).data
