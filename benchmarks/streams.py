"""The URLs that are scheduled: seeded, written to a file once, and read by every process that measures.

Reading the lines of a file makes the strings in the order in which they are consumed, as a parser of pages would. A
shuffled list of older strings measures the memory caches instead.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

SEED = 1
HOSTS = 10_000


def discoveries(count: int) -> list[str]:
    """What a crawl finds: half duplicates, a fifth with a query, hosts by Zipf's law (exponent 1)."""
    rnd = random.Random(SEED)
    hosts = rnd.choices(range(HOSTS), cum_weights=list(accumulate(1 / (i + 1) for i in range(HOSTS))), k=count // 2)
    urls = []
    for i, host in enumerate(hosts):
        query = f"?id={i}&x=1" if i % 5 == 0 else ""
        urls.append(f"https://www.site{host}.example.com/section{i % 50}/page-{i}.html{query}")
    urls += rnd.choices(urls, k=count - len(urls))
    rnd.shuffle(urls)
    return urls


def uniform(count: int) -> Iterator[str]:
    """As many URLs on every host, the hosts in turn."""
    return (f"https://site{i % HOSTS}.example.com/p/{i}" for i in range(count))


def hosts(count: int) -> Iterator[str]:
    """One URL on each of `count` hosts."""
    return (f"https://www.site{i}.example.com/" for i in range(count))


def write(path: Path, count: int) -> None:
    """Write `discoveries` to a file, a line each."""
    path.write_text("\n".join(discoveries(count)))


def read(path: Path) -> list[str]:
    """The URLs of a file, as new strings in its order."""
    return path.read_text().split("\n")
