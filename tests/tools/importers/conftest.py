"""What the crawlers themselves have written, unpacked once."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.tools import importers as formats
from budgetfrontier.tools.importers.import_items import BadRecord, Item, Record, SourceNote

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="session")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of Scrapy (scrapy/VERSION/QUEUE_CLASS) and qcrawl."""
    folder = tmp_path_factory.mktemp("peers")
    with tarfile.open(DATA / "peers.tar.xz") as samples:
        samples.extractall(folder, filter="data")
    return folder / "peers"


def read(source: object, kind: str | None = None) -> list[Item]:
    return list(formats.read(str(source), kind))


def uris(items: list[Item]) -> list[CrawlUri]:
    return [item.uri for item in items if isinstance(item, Record)]


def bad(items: list[Item]) -> list[BadRecord]:
    return [item for item in items if isinstance(item, BadRecord)]


def notes(items: list[Item]) -> list[str]:
    return [item.text for item in items if isinstance(item, SourceNote)]
