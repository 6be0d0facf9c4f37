"""Settings: typed and documented (schema), checked (validation), from YAML (loader), per host (overrides)."""

from __future__ import annotations

from budgetfrontier.settings.settings import Settings

__all__ = ["Settings"]
