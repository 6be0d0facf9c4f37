"""A headless Chromium, driven through its DevTools protocol, and a console in a process of its own for it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.support import PATIENCE, until

CHROMIUM = shutil.which("chromium")


@contextmanager
def served(*jobs: Path, options: tuple[str, ...] = (), listen: str = "127.0.0.1:0") -> Iterator[str]:
    """Run `budgetfrontier console`; the address of its pages."""
    command = [sys.executable, "-m", "budgetfrontier", "console", *map(str, jobs), "--listen", listen, *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        try:
            assert "listens on http" in said, said + process.stderr.read()
            yield said.partition("listens on ")[2].partition("/;")[0]
        finally:
            process.terminate()
            rest = process.stderr.read()
            assert process.wait(timeout=PATIENCE) == 0 and not rest, rest


@contextmanager
def chromium(folder: Path) -> Iterator[str]:
    """Run a browser; the address of its DevTools."""
    assert CHROMIUM is not None
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    command = [
        CHROMIUM, "--headless", "--remote-debugging-port=0", f"--user-data-dir={folder}", "--disable-gpu", *sandbox,
        "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
        "--hide-scrollbars", "about:blank",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            port = folder / "DevToolsActivePort"
            until(lambda: port.exists() and "\n" in port.read_text(), process)
            number, path = port.read_text().split()
            yield f"ws://127.0.0.1:{number}{path}"
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE)


class Tab:
    """A tab of the browser. `events` has what it reported since the last navigation, by method."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._session = ""
        self._number = 0
        self.events: list[tuple[str, dict[str, Any]]] = []

    async def open(self) -> None:
        """Open the tab."""
        target = await self._do("Target.createTarget", url="about:blank")
        attached = await self._do("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self._do(f"{domain}.enable")

    async def _do(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        order: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        await self._socket.send_json(order | ({"sessionId": self._session} if self._session else {}))
        while True:
            answer = await self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])

    async def _next(self) -> dict[str, Any]:
        answer = json.loads(await self._socket.receive_str(timeout=PATIENCE))
        if "method" in answer:
            self.events.append((answer["method"], answer.get("params", {})))
        return dict(answer)

    async def look(self, *, width: int, height: int = 900, scheme: str = "light", scripts: bool = True) -> None:
        """Set the size of the window, the color scheme, and whether scripts run."""
        mobile = width < 600
        await self._do(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self._do("Emulation.setEmulatedMedia", media="", features=features)
        await self._do("Emulation.setScriptExecutionDisabled", value=not scripts)

    async def visit(self, url: str) -> None:
        """Go to a page, and wait until it is loaded."""
        self.events.clear()
        await self._do("Page.navigate", url=url)
        while not any(method == "Page.loadEventFired" for method, _ in self.events):
            await self._next()

    async def value(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        result = await self._do("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until an expression is true in the page."""
        deadline = time.monotonic() + PATIENCE
        while not await self.value(expression):
            assert time.monotonic() < deadline, await self.value("document.body?.innerText")
            await asyncio.sleep(0.05)

    async def press(self, key: str) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if len(key) == 1 and kind == "keyDown" else {}
            await self._do("Input.dispatchKeyEvent", type=kind, key=key, **text)

    async def screenshot(self, path: Path) -> None:
        """Save what the whole page looks like."""
        picture = await self._do("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))

    def status(self) -> int:
        """The HTTP status of the page."""
        answers = (event for method, event in self.events if method == "Network.responseReceived")
        return next(int(event["response"]["status"]) for event in answers if event["type"] == "Document")

    def requested(self) -> list[str]:
        """The addresses that the page asked for."""
        return [event["request"]["url"] for method, event in self.events if method == "Network.requestWillBeSent"]

    def complaints(self) -> list[str]:
        """Errors of scripts, and what the browser has refused."""
        entries = [event["entry"] for method, event in self.events if method == "Log.entryAdded"]
        errors = [entry["text"] for entry in entries if entry["level"] != "verbose"]
        return errors + [str(event) for method, event in self.events if method == "Runtime.exceptionThrown"]


@asynccontextmanager
async def tab(devtools: str) -> AsyncIterator[Tab]:
    """Open a tab."""
    async with aiohttp.ClientSession() as session, session.ws_connect(devtools, max_msg_size=0) as socket:
        made = Tab(socket)
        await made.open()
        yield made
