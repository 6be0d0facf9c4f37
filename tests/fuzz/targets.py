"""Every fuzz target by its name."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz import commands, configuration, damage, sources, urls
from tests.fuzz.target import Target

TARGETS: dict[str, Target] = {
    "urls": urls.urls,
    "batches": urls.batches,
    "mailbox": commands.mail,
    "yaml": configuration.yaml,
    "records": damage.record,
    "frontier": damage.harm,
    "sources": sources.sources,
}
CORPUS = Path(__file__).with_name("corpus")
"""A folder for each target, of inputs that once were a problem or nearly were."""


def corpus(name: str) -> list[Path]:
    """The inputs that are kept for a target."""
    return sorted((CORPUS / name).iterdir())
