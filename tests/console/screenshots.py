"""Screenshots of all pages of a console: `python -m tests.console.screenshots ADDRESS FOLDER [PATH...]`."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from pathlib import Path

from budgetfrontier.console.pages.table import PAGES
from tests.console.browser import chromium, tab


async def take(devtools: str, address: str, folder: Path, paths: list[str]) -> None:
    """Save each page at 1280 and 390 pixels, light and dark."""
    async with tab(devtools) as page:
        for width in (1280, 390):
            for scheme in ("light", "dark"):
                await page.look(width=width, scheme=scheme)
                for path in paths:
                    await page.visit(address.rstrip("/") + path)
                    name = re.sub(r"\W+", "-", path).strip("-") or "overview"
                    await page.screenshot(folder / f"{name}-{width}-{scheme}.png")


def main() -> None:
    address, folder, *paths = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as room, chromium(Path(room)) as devtools:
        asyncio.run(take(devtools, address, Path(folder), paths or [page.path or "/" for page in PAGES if page.listed]))


if __name__ == "__main__":
    main()
