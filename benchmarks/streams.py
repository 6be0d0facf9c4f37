"""The URLs that are scheduled, all seeded.

Those of `make bench` are written to a file once, and read by every process that measures: reading the lines of a file
makes the strings in the order in which they are consumed, as a parser of pages would. A shuffled list of older strings
measures the memory caches instead. Those of `make growth` are made page by page.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from itertools import accumulate
from mmap import mmap
from pathlib import Path

SEED = 1
HOSTS = 10_000


def discoveries(count: int) -> list[str]:
    """Yield the discoveries of a crawl: half duplicates, a fifth with a query, hosts by Zipf's law (exponent 1)."""
    rnd = random.Random(SEED)
    hosts = rnd.choices(range(HOSTS), cum_weights=list(accumulate(1 / (i + 1) for i in range(HOSTS))), k=count // 2)
    urls = []
    for i, host in enumerate(hosts):
        query = f"?id={i}&x=1" if i % 5 == 0 else ""
        urls.append(f"https://www.site{host}.example.com/section{i % 50}/page-{i}.html{query}")
    urls += rnd.choices(urls, k=count - len(urls))
    rnd.shuffle(urls)
    return urls


class Pages:
    """The links that a crawl finds, page by page, without end.

    Generated on demand; memory: an integer per host, in a file in memory, which does not count as anonymous memory.

    The site of a page is drawn at random, each as likely as any other: the worst case for a B-tree. A page has 50
    links. 40 stay on the site: 12 are the navigation that all of its pages share, 6 lead to pages found before, 22 to
    new ones. 10 lead to other sites, drawn alike: 4 to their home pages, 3 to pages of theirs found before, 3 to new
    ones. Home pages are known from the start, for they are the seeds; once every site has been met, so is half of all.
    """

    def __init__(self, hosts: int) -> None:
        self._rnd = random.Random(SEED)
        self._hosts = hosts
        file = os.memfd_create("found")
        os.truncate(file, 4 * hosts)
        self._found = memoryview(mmap(file, 0)).cast("I")  # how many pages of each site
        os.close(file)

    def seeds(self) -> Iterator[str]:
        """Return the home page of every site."""
        return (f"https://www.site{host}.example.com/" for host in range(self._hosts))

    def page(self) -> list[str]:
        """Return the links of the next page, shuffled."""
        draw = self._rnd.random  # several times as fast as randrange
        hosts = self._hosts
        own = int(draw() * hosts)
        site = f"https://www.site{own}.example.com/section"
        links = [f"{site}{i}/" for i in range(12)]
        links += [_page(own, int(draw() * self._found[own])) for _ in range(6)]
        links += [self._new(own) for _ in range(22)]
        for _ in range(4):
            links.append(f"https://www.site{int(draw() * hosts)}.example.com/")
        for _ in range(3):
            other = int(draw() * hosts)
            links.append(_page(other, int(draw() * self._found[other])))
            links.append(self._new(int(draw() * hosts)))
        self._rnd.shuffle(links)
        return links

    def _new(self, host: int) -> str:
        number = self._found[host]
        self._found[host] = number + 1
        return _page(host, number)


def _page(host: int, number: int) -> str:
    query = f"?id={number}&x=1" if number % 5 == 0 else ""
    return f"https://www.site{host}.example.com/section{number % 50}/page-{number}.html{query}"


def uniform(count: int) -> Iterator[str]:
    """Yield equally many URLs of each host, hosts in turn."""
    return (f"https://site{i % HOSTS}.example.com/p/{i}" for i in range(count))


def hosts(count: int) -> Iterator[str]:
    """Yield one URL of each of `count` hosts."""
    return (f"https://www.site{i}.example.com/" for i in range(count))


def write(path: Path, count: int) -> None:
    """Write `discoveries` to a file, one per line."""
    path.write_text("\n".join(discoveries(count)))


def read(path: Path) -> list[str]:
    """Return the URLs of a file, as new strings in its order."""
    return path.read_text().split("\n")
