"""The parts that pages need besides themselves: the style that is part of each, a script, and an icon."""

from __future__ import annotations

import base64
import hashlib
from functools import partial
from importlib.resources import files

from aiohttp import web
from markupsafe import Markup

from budgetfrontier.reports.charts import style_sheet

STYLE = Markup(style_sheet())
"""The style sheet. It is part of each page, so that a page that was saved or mailed looks as it did."""
STYLE_HASH = "sha256-" + base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
"""The source expression of a Content-Security-Policy that allows this style and no other."""

_FILES = {"console.js": "text/javascript", "icon.svg": "image/svg+xml"}


def add_routes(router: web.UrlDispatcher) -> None:
    """Serve the script and the icon."""
    folder = files("budgetfrontier.tools.console").joinpath("static")
    for name, kind in _FILES.items():
        router.add_get(f"/-/{name}", partial(_file, kind, folder.joinpath(name).read_bytes()))


async def _file(kind: str, body: bytes, request: web.Request) -> web.StreamResponse:
    return web.Response(body=body, content_type=kind, charset="utf-8", headers={"Cache-Control": "no-cache"})
