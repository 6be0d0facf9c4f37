"""The workers at the ends of the message bus: database workers, which own frontiers, and strategy workers."""

from __future__ import annotations
