"""Scrapy's settings for a shared frontier."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from budgetfrontier import connections
from budgetfrontier.errors import FrontierError, MissingExtra, SettingsError
from budgetfrontier.scrapy.order import SCOPE, RequestOrder
from budgetfrontier.scrapy.remote.request_seals import NoKey, SharedKey
from budgetfrontier.settings import Settings, plugins
from budgetfrontier.settings.policies.assignment import Single

URL = "BUDGETFRONTIER_URL"
LEASE_TTL = 60.0
IDLE_BEFORE_CLOSE = 300.0
MIN_KEY = 16  # characters


class SharedOptions(NamedTuple):
    """The options of one process that shares a frontier."""

    address: str
    crawl: str
    token: str | None
    tls: bool | str
    seal: SharedKey | NoKey
    lease_ttl: float
    """Seconds after which the leases of a process that has died are handed out again."""
    prefetch: int
    """Leases that may wait in this process for the downloader."""
    idle_before_close: float
    """Seconds without a request after which the spider closes, though others have some."""

    @property
    def is_cluster(self) -> bool:
        """Whether the crawl is in partitions, which workers have."""
        return connections.is_cluster(self.address)

    @property
    def server(self) -> str:
        """The name of the other side in messages, after "the"."""
        return f"{'crawl in partitions' if self.is_cluster else 'server'} at {connections.shown(self.address)}"

    def job(self, folder: Path) -> str:
        """Return how commands name the crawl, whose frontier is in a folder of the server."""
        return f"--cluster {connections.shown(self.address)}" if self.is_cluster else str(folder.parent)


def shared_options(scrapy: Any, spider: Any) -> SharedOptions:
    """Return the options in the settings of Scrapy. Raises SettingsError."""
    if scrapy.get("BUDGETFRONTIER_SETTINGS"):
        raise SettingsError(
            "BUDGETFRONTIER_SETTINGS has no effect with BUDGETFRONTIER_URL: the frontier is the server's; give its "
            "settings to `budgetfrontier serve --config`, or change them with `budgetfrontier adjust` on its folder"
        )
    address = text_of(scrapy, URL) or ""
    return SharedOptions(
        address=address,
        crawl=_crawl_at(address, text_of(scrapy, "BUDGETFRONTIER_CRAWL"), spider.name),
        token=text_of(scrapy, "BUDGETFRONTIER_TOKEN"),
        tls=_tls(given(scrapy, "BUDGETFRONTIER_TLS")),
        seal=seal_of(text_of(scrapy, "BUDGETFRONTIER_KEY"), spider.name),
        lease_ttl=seconds_of(scrapy, "BUDGETFRONTIER_LEASE_TTL", LEASE_TTL, least=1.0),
        prefetch=prefetch_of(scrapy),
        idle_before_close=seconds_of(scrapy, "BUDGETFRONTIER_IDLE_BEFORE_CLOSE", IDLE_BEFORE_CLOSE, least=0.0),
    )


def has_one_queue(settings: Settings) -> bool:
    """Return whether all requests are in a single queue; a policy that this machine does not have makes several."""
    with suppress(SettingsError):
        return isinstance(plugins.resolve("assignment", settings.frontier.queue_assignment_policy), Single)
    return False


def check_order(order: RequestOrder, settings: Settings, *, one_queue: bool) -> None:
    """Raise SettingsError if the spider wants priorities across hosts, and the server has a queue for each."""
    if order.across_hosts and not one_queue:
        raise SettingsError(
            f'{SCOPE} is "crawl", and the frontier of the server has a queue for each host '
            f"(queue_assignment_policy: {settings.frontier.queue_assignment_policy}): set it to `single` in the file "
            "of `budgetfrontier serve --config`, or of the workers, before the crawl is created"
        )


def _crawl_at(address: str, name: str | None, spider: str) -> str:
    """Return the name of the crawl: a setting, or that of a crawl in partitions, or that of the spider."""
    try:
        found = connections.crawl_at(address, connections.UNNAMED)
    except MissingExtra:
        raise
    except FrontierError:
        raise SettingsError(
            f'{URL} is "HOST:PORT", "unix:PATH" or "kafka://HOST:PORT/CRAWL", not {connections.shown(address)!r}'
        ) from None
    if not connections.is_cluster(address):
        return name or spider
    if name not in (None, found):
        raise SettingsError(f"BUDGETFRONTIER_CRAWL is {name!r}, and the crawl of {URL} {found!r}: leave it out")
    return found


def given(scrapy: Any, name: str) -> Any:
    """Return a setting, None if it is not set. Raises SettingsError for an empty one, which may have been meant."""
    value = scrapy.get(name)
    if isinstance(value, str) and not value.strip():
        raise SettingsError(
            f"{name} is empty: give it a value, or leave it out (None) for {_WITHOUT.get(name, 'the default')}"
        )
    return value


_WITHOUT = {
    URL: "a frontier of the spider's own",
    "BUDGETFRONTIER_CRAWL": "the spider's name",
    "BUDGETFRONTIER_TOKEN": "a server without a token",
    "BUDGETFRONTIER_TLS": "a server without TLS",
    "BUDGETFRONTIER_KEY": "requests that are not signed",
    "BUDGETFRONTIER_LEASE_TTL": f"{LEASE_TTL:g} s",
    "BUDGETFRONTIER_PREFETCH": "half of CONCURRENT_REQUESTS",
    "BUDGETFRONTIER_IDLE_BEFORE_CLOSE": f"{IDLE_BEFORE_CLOSE:g} s",
}
"""By setting: what holds if it is not set."""


def text_of(scrapy: Any, name: str) -> str | None:
    """Return a setting that is text; None if it is not set. Raises SettingsError."""
    value = given(scrapy, name)
    if not isinstance(value, str | None):
        raise SettingsError(f"{name} is text, not {type(value).__name__}")
    return value


def _tls(value: object) -> bool | str:
    if value in (None, False, "0", "False", "false"):
        return False
    if value in (True, "1", "True", "true"):
        return True
    path = os.fspath(value)  # type: ignore[call-overload]
    if not os.path.isfile(path):
        raise SettingsError(f"BUDGETFRONTIER_TLS is True or a file of certificates, and there is no file {path}")
    return str(path)


def seal_of(secret: str | None, spider: str) -> SharedKey | NoKey:
    """Return the seal on the requests of a spider. Raises SettingsError for a short secret."""
    if secret is None:
        return NoKey()
    if len(secret) < MIN_KEY:
        raise SettingsError(
            f"BUDGETFRONTIER_KEY has {len(secret)} characters, and needs {MIN_KEY}: make one with "
            '`python -c "import secrets; print(secrets.token_hex())"`, and give it to all processes'
        )
    return SharedKey(secret, spider)


def seconds_of(scrapy: Any, name: str, default: float, *, least: float) -> float:
    """Return a setting that is a number of seconds. Raises SettingsError."""
    value = given(scrapy, name)
    if value is None:
        return default
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not seconds >= least:
        raise SettingsError(f"{name} is a number of seconds, {least:g} or more, not {value!r}")
    return seconds


def prefetch_of(scrapy: Any) -> int:
    """Return the number of requests that may wait in this process for the downloader. Raises SettingsError."""
    return number_of(scrapy, "BUDGETFRONTIER_PREFETCH", max(1, (int(scrapy["CONCURRENT_REQUESTS"]) + 1) // 2), least=1)


def number_of(scrapy: Any, name: str, default: int, *, least: int) -> int:
    """Return a setting that is a whole number. Raises SettingsError."""
    value = given(scrapy, name)
    if value is None:
        return default
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = least - 1
    if number < least:
        raise SettingsError(f"{name} is a whole number, {least} or more, not {value!r}")
    return number
