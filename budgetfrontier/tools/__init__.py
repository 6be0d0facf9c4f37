"""The programs of operators: command line, console in a browser and in a terminal, and importers of other queues."""

from __future__ import annotations
