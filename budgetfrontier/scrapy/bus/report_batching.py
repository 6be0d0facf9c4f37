"""Batching of the reports of a spider: links by page and partition, then the results of requests.

Links come first, so that a page counts as fetched only when its links are on the bus.
"""

from __future__ import annotations

from collections.abc import Iterator

from budgetfrontier.bus.codecs.codec import Codec
from budgetfrontier.bus.messages import (
    AddSeeds,
    BadMessage,
    LinksExtracted,
    Message,
    PageCrawled,
    Request,
    RequestError,
)
from budgetfrontier.bus.outbox import Item
from budgetfrontier.bus.partitioning import by_host
from budgetfrontier.bus.shortening import encoded_short

MOST_LINKS = 500
"""Links, or seeds, in one message."""
MOST_BYTES = 1 << 19
"""Bytes of URLs and payloads in one message of links: half of what a topic of Kafka takes by default."""


class Reports:
    """The reports of a spider since they were taken last."""

    def __init__(self, codec: Codec, partitions: int) -> None:
        self._codec, self._partitions = codec, partitions
        self._seeds: dict[int, list[Request]] = {}
        self._links: dict[tuple[int, int], tuple[Request, list[Request]]] = {}
        self._results: list[PageCrawled | RequestError] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add_seed(self, seed: Request) -> None:
        """Report a seed."""
        self._count += 1
        self._seeds.setdefault(self._partition(seed), []).append(seed)

    def add_link(self, page: Request, link: Request) -> None:
        """Report a link that was found on the page of a request, an object that stays the same for all its links."""
        self._count += 1
        self._links.setdefault((id(page), self._partition(link)), (page, []))[1].append(link)

    def add_result(self, result: PageCrawled | RequestError) -> None:
        """Report how a request has ended."""
        self._count += 1
        self._results.append(result)

    def taken(self) -> tuple[list[Item], list[str]]:
        """Return the messages for the spider log, and the faults of those that cannot be sent; begin anew.

        A result is sent without what makes it too long, so that its lease ends.
        """
        items: list[Item] = []
        errors: list[str] = []
        for partition, message in self._messages():
            try:
                items.append((partition, self._codec.encode(message)))
            except BadMessage as error:
                errors.append(str(error))
                if (short := encoded_short(message, self._codec)) is not None:
                    items.append((partition, short))
        self._seeds, self._links, self._results, self._count = {}, {}, [], 0
        return items, errors

    def _messages(self) -> Iterator[tuple[int, Message]]:
        for partition, seeds in self._seeds.items():
            for part in _parts(seeds):
                yield partition, AddSeeds(part)
        for (_, partition), (page, links) in self._links.items():
            for part in _parts(links):
                yield partition, LinksExtracted(page, part)
        for result in self._results:
            source = result.response.request if isinstance(result, PageCrawled) else result.request
            assert source is not None
            yield self._partition(source), result

    def _partition(self, request: Request) -> int:
        return by_host(request.url, self._partitions)


def _parts(requests: list[Request]) -> Iterator[list[Request]]:
    """Yield the requests in lists that fit a message."""
    part: list[Request] = []
    size = 0
    for request in requests:
        size += len(request.url) + sum(len(value) for value in request.meta.values() if isinstance(value, bytes))
        if part and (len(part) == MOST_LINKS or size > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(request)
    yield part
