"""All settings of a crawl: the root of the sections in `schema`, with reading and writing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from budgetfrontier.errors import WrongSettings
from budgetfrontier.settings.field import Field
from budgetfrontier.settings.schema import (
    AlertSettings,
    Association,
    ClusterSettings,
    FetchSettings,
    FrontierSettings,
    GroupSettings,
    LimitSettings,
    LinkSettings,
    OutputSettings,
    Override,
    ReportSettings,
    ScopeSettings,
    Seed,
)
from budgetfrontier.settings.values import TEXT


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of a crawl, checked. `Settings()` holds the defaults."""

    crawl: Annotated[str, Field("the name of the crawl, in reports and logs", TEXT)] = "crawl"
    seeds: Annotated[
        tuple[Seed, ...],
        Field("where to start: URLs, {url, priority, label, queue, budget, sheet}, or {file}", "seeds"),
    ] = ()
    scope: ScopeSettings = ScopeSettings()
    frontier: FrontierSettings = FrontierSettings()
    sheets: Annotated[
        dict[str, dict[str, Any]],
        Field("named settings, {name: {setting: value}}, which apply where they are associated", "sheets"),
    ] = {}
    associations: Annotated[
        tuple[Association, ...],
        Field("what sheets apply to: {sheet, surt | domain | host | queue | label | regex, order}", "associations"),
    ] = ()
    overrides: Annotated[
        tuple[Override, ...],
        Field("settings for some hosts: {match, set}; all that match apply, later wins", "overrides"),
    ] = ()
    groups: Annotated[
        tuple[GroupSettings, ...],
        Field("groups of queues with shared limits: {name, match or by, ...}; the first that fits counts", "groups"),
    ] = ()
    fetch: FetchSettings = FetchSettings()
    links: LinkSettings = LinkSettings()
    output: OutputSettings = OutputSettings()
    limits: LimitSettings = LimitSettings()
    reports: ReportSettings = ReportSettings()
    alerts: AlertSettings = AlertSettings()
    cluster: ClusterSettings = ClusterSettings()
    hooks: Annotated[
        tuple[str, ...], Field("objects with on_... methods that the frontier calls, as module:name", "hooks")
    ] = ()

    @classmethod
    def from_yaml(cls, path: str | Path) -> Settings:
        """Read a YAML file. SettingsError lists every problem as `file:line:column: message`.

        Files named in it (seeds, suffix_list) are relative to its folder. Policies, hooks and sinks written
        `module:name` are imported to check that they exist.
        """
        from budgetfrontier.settings.loader import load

        if not isinstance(path, str | os.PathLike):
            raise WrongSettings(f"from_yaml takes the path of a file, not {type(path).__name__}; write from_dict")
        return load(Path(path), cls())[0]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Settings:
        """Check plain data of the same shape as the YAML. SettingsError lists every problem by its dotted name.

        `module:name` is not imported, so that the stored settings of a frontier can be read anywhere.
        """
        from budgetfrontier.settings.validation import read_settings

        if not isinstance(data, Mapping | None):
            raise WrongSettings(f"from_dict takes a dict, not {type(data).__name__}; write from_yaml for a file")
        return read_settings(data, cls())

    @classmethod
    def known_in(cls, data: dict[str, Any]) -> Settings:
        """Return what this release knows of the settings of another one; what it does not know is left out."""
        from budgetfrontier.settings.validation import Validator

        return Validator().settings(data, cls())

    def to_dict(self) -> dict[str, Any]:
        """Return all settings as plain data that JSON can represent; `from_dict` returns the same settings."""
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        plain["overrides"] = [
            {"match": one.match, "set": override["set"]}
            for one, override in zip(self.overrides, plain["overrides"], strict=True)
        ]  # without where they are written
        return plain


def as_settings(given: object) -> Settings | None:
    """Return settings that are given as Settings or as a dict. Raises SettingsError."""
    if given is None:
        return None
    if isinstance(given, dict):
        return Settings.from_dict(given)
    if not isinstance(given, Settings):
        remedy = "; write Settings.from_yaml(path)" if isinstance(given, str | os.PathLike) else ""
        raise WrongSettings(f"settings is a Settings or a dict, not {type(given).__name__}{remedy}")
    for name, default in _SECTIONS.items():
        kind, section = type(default), getattr(given, name)
        if not isinstance(section, kind):
            remedy = f'write Settings.from_dict({{"{name}": ...}})'
            raise WrongSettings(f"{name} is a {kind.__name__}, not {type(section).__name__}; {remedy}")
    return given


_SECTIONS = {
    field.name: field.default for field in msgspec.structs.fields(Settings) if isinstance(field.default, msgspec.Struct)
}
