"""The scheduler of spiders that take their requests from a message bus."""

from __future__ import annotations
