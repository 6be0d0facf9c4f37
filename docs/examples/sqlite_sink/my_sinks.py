"""A sink that stores the HTML pages of a crawl in an SQLite database, `pages.db` in the current folder.

The crawl calls it with every page, calls `sync` before each commit of the frontier, and `close` at the end: every page
that the frontier has as finished is in the database, even after a kill. A page that is fetched again replaces its row.
"""

from __future__ import annotations

import re
import sqlite3
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from budgetfrontier.crawler.outputs.sinks import Page

TABLE = "create table if not exists pages (url text primary key, fetched real, title text, body text)"


class SqlitePages:
    """A sink with a database. The crawl makes one, without arguments; so does `check-config`, which stores nothing."""

    @cached_property
    def _database(self) -> sqlite3.Connection:
        database = sqlite3.connect("pages.db")
        database.execute(TABLE)
        return database

    def __call__(self, page: Page) -> None:
        """Store a page; answers with errors, pictures and the like are left out."""
        if page.status == 200 and page.mime == "text/html":
            text = page.text()
            title = re.search(r"<title>(.*?)</title>", text, re.DOTALL | re.IGNORECASE)
            row = (page.url, page.started, title[1].strip() if title else "", text)
            self._database.execute("insert or replace into pages values (?, ?, ?, ?)", row)

    def sync(self) -> None:
        """Make what was stored durable."""
        self._database.commit()

    def close(self) -> None:
        """Close the database."""
        self._database.commit()
        self._database.close()
