"""Settings: their schema, validation, loading from YAML, and overrides per host."""

from __future__ import annotations

from budgetfrontier.settings.settings import Settings, as_settings

__all__ = ["Settings", "as_settings"]
