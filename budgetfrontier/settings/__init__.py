"""Settings: typed and documented (schema), strict YAML (loader), values per host (overrides)."""

from __future__ import annotations

from budgetfrontier.settings.schema import Settings

__all__ = ["Settings"]
