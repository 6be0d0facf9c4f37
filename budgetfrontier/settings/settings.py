"""All settings of a crawl: the root of the sections in `schema`, with reading and writing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec

from budgetfrontier.settings.field import Field
from budgetfrontier.settings.schema import (
    ClusterSettings,
    FetchSettings,
    FrontierSettings,
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
        tuple[Seed, ...], Field("where to start: URLs, {url, priority, source, queue}, or {file}", "seeds")
    ] = ()
    scope: ScopeSettings = ScopeSettings()
    frontier: FrontierSettings = FrontierSettings()
    overrides: Annotated[
        tuple[Override, ...],
        Field("settings for some hosts: {match, set}; all that match apply, later wins", "overrides"),
    ] = ()
    fetch: FetchSettings = FetchSettings()
    links: LinkSettings = LinkSettings()
    output: OutputSettings = OutputSettings()
    limits: LimitSettings = LimitSettings()
    reports: ReportSettings = ReportSettings()
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

        return load(Path(path), cls())[0]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Settings:
        """Check plain data of the same shape as the YAML. SettingsError lists every problem by its dotted name.

        `module:name` is not imported, so that the stored settings of a frontier can be read anywhere.
        """
        from budgetfrontier.settings.validation import read_settings

        return read_settings(data, cls())

    def to_dict(self) -> dict[str, Any]:
        """Return all settings as plain data that JSON can represent; `from_dict` returns the same settings."""
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        plain["overrides"] = [
            {"match": one.match, "set": override["set"]}
            for one, override in zip(self.overrides, plain["overrides"], strict=True)
        ]  # without where they are written
        return plain
