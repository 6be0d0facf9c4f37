"""Checks of single values: seeds, names of policies, sheets and topics, addresses, files."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from budgetfrontier.core import uris
from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.settings.values import brief, show

LONGEST_TOPIC: Final = 249 - len("-suffixes")
"""Characters of the name of a crawl in partitions: those of a topic of Kafka, without the suffix."""

_GZIP = b"\x1f\x8b"  # with which such files begin
BY_ADDRESS = (
    "the queue of a seed depends on the address of its host here, which is not known yet: give the seed a `queue`, or "
    "write an override for its host instead of its budget or sheet"
)


def is_named(url: str | None) -> bool:
    """Return whether the host of a URL, as written, has a name, so that its address is not known here."""
    try:
        return uris.own_address(uris.host(uris.parse(url or ""))) is None
    except InvalidUrl:  # it is refused elsewhere
        return False


def sheet_objection(name: str, sheets: Mapping[str, object]) -> str:
    """Return the problem of a sheet that does not exist."""
    hint = did_you_mean(name, list(sheets), quote='"')
    return f'there is no sheet "{brief(name)}"{hint}'


def topics_objection(crawl: str) -> str | None:
    """Return why a crawl of this name cannot have topics of Kafka; None if it can."""
    if re.fullmatch(r"[A-Za-z0-9._-]+", crawl) and len(crawl) <= LONGEST_TOPIC:
        return None
    return (
        f"{show(crawl)} cannot name the topics of a crawl in partitions (cluster.kafka): use ASCII letters, digits, ., "
        f"_ and -, {LONGEST_TOPIC} at the most"
    )


def policy_name(spec: Any) -> str | None:
    """Return the name in a policy's spec: "name", {"name": options} or {"policy": name, **options}; None if invalid."""
    if isinstance(spec, Mapping):
        spec = spec["policy"] if "policy" in spec else next(iter(spec)) if len(spec) == 1 else None
    return spec if isinstance(spec, str) and spec else None


def is_address(value: Any) -> bool:
    """Return whether a value is "ip:port", with brackets around an IPv6 address."""
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[0-9.]+):([1-9][0-9]{0,4})", value) if isinstance(value, str) else None
    if not match or int(match[2]) > 65535:
        return False
    try:
        ipaddress.ip_address(match[1].strip("[]"))
    except ValueError:
        return False
    return True


def objection_to_file(path: Path, *, gzip: bool = False) -> str | None:
    """Return why a path does not name a file of text lines; None if it does, or if it cannot be read now.

    `gzip`: such a file may be compressed.
    """
    name = f'"{brief(str(path), 1000)}"'
    try:
        if path.is_dir():
            return f"{name} is a folder; give a file"
        if not path.is_file():
            fault = "is a pipe or a device, which cannot be read more than once; give a file"
            return f"{name} {fault}" if path.exists() else f"there is no file {name}"
        with path.open("rb") as file:
            packed = not gzip and file.read(len(_GZIP)) == _GZIP
    except PermissionError:  # reading it will fail with an error
        return None
    except (OSError, ValueError):  # the name is too long, or contains a NUL
        return f"there is no file {name}"
    return f"{name} is compressed; decompress it with gunzip, and give the file of text" if packed else None
