"""A message bus between spiders and workers, with the streams and messages of Frontera."""

from __future__ import annotations
