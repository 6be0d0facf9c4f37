"""A model of the service, written from the semantics of URLFrontier with its traps mended: dictionaries, no queues."""

from __future__ import annotations

from dataclasses import dataclass, field

OK, SKIPPED = 0, 1


@dataclass
class Url:
    """A URL that is known: `due` is None once it is completed."""

    created: int
    due: float | None
    leased_until: float = 0.0


@dataclass
class Queue:
    """The URLs of a key, and what was set for it."""

    urls: dict[str, Url] = field(default_factory=dict)
    delay: float | None = None
    blocked: float = 0.0
    limit: int = 0
    served: float = float("-inf")
    rests_until: float = float("-inf")

    @property
    def active(self) -> int:
        return sum(url.due is not None for url in self.urls.values())

    @property
    def completed(self) -> int:
        return len(self.urls) - self.active

    def leased(self, now: float) -> int:
        """How many URLs are out."""
        return sum(url.leased_until > now for url in self.urls.values())

    def available(self, now: float) -> list[str]:
        """The URLs that may be handed out."""
        return [
            name
            for name, url in self.urls.items()
            if url.due is not None and url.due <= now and url.leased_until <= now
        ]


@dataclass
class Crawl:
    """The queues of a crawl."""

    queues: dict[str, Queue] = field(default_factory=dict)

    def place(self, url: str) -> tuple[str, Queue] | None:
        """The queue that has a URL."""
        return next(((key, queue) for key, queue in self.queues.items() if url in queue.urls), None)


@dataclass
class Model:
    """All crawls of a server."""

    crawls: dict[str, Crawl] = field(default_factory=dict)
    delay: float = 1.0
    active: bool = True

    def discover(self, crawl_id: str, url: str, key: str, now: float) -> int:
        """`discovered`: the status of the acknowledgement."""
        crawl = self.crawls.setdefault(crawl_id, Crawl())
        if crawl.place(url):
            return SKIPPED
        crawl.queues.setdefault(key, Queue()).urls[url] = Url(int(now), now)
        return OK

    def report(self, crawl_id: str, url: str, key: str, date: int, now: float) -> int:
        """`known`: the status of the acknowledgement."""
        crawl = self.crawls.setdefault(crawl_id, Crawl())
        found = crawl.place(url)
        queue = found[1] if found else crawl.queues.setdefault(key, Queue())
        row = queue.urls.setdefault(url, Url(int(now), None))
        row.due, row.leased_until = float(date) if date else None, 0.0
        return OK

    def eligible(self, crawl_id: str, most: int, now: float) -> dict[str, int]:
        """The queues that GetURLs may serve, with the number of URLs that each hands out."""
        found: dict[str, int] = {}
        if not self.active or crawl_id not in self.crawls:
            return found
        for key, queue in self.crawls[crawl_id].queues.items():
            room = (most or 1 << 30) - queue.leased(now)
            if queue.blocked > now or (queue.limit and queue.completed >= queue.limit):
                continue
            if queue.rests_until > now or room <= 0 or not queue.available(now):
                continue
            found[key] = min(room, len(queue.available(now)))
        return found

    def lease(self, crawl_id: str, key: str, urls: list[str], ttl: float, now: float) -> None:
        """GetURLs has handed URLs of a queue out."""
        queue = self.crawls[crawl_id].queues[key]
        queue.served = now
        queue.rests_until = now + (self.delay if queue.delay is None else queue.delay)
        for url in urls:
            queue.urls[url].leased_until = now + (ttl or 30)

    def known(self, crawl_id: str, key: str) -> Queue | None:
        """A queue for which something may be set: one that has URLs."""
        queue = self.crawls.get(crawl_id, Crawl()).queues.get(key)
        return queue if queue is not None and queue.urls else None

    def pace(self, crawl_id: str, key: str, delay: float) -> None:
        """SetDelay: without a key it holds from the next serve of each queue on."""
        queue = self.known(crawl_id, key)
        if not key:
            self.delay = delay
        elif queue is not None:
            queue.delay, queue.rests_until = delay, queue.served + delay

    def stats(self, crawl_id: str, key: str, now: float) -> tuple[int, int, int, int, int]:
        """GetStats: size, inProcess, numberOfQueues, completed, active_queues."""
        crawl = self.crawls.get(crawl_id, Crawl())
        queues = [queue for name, queue in crawl.queues.items() if queue.urls and key in ("", name)]
        return (
            sum(queue.active for queue in queues),
            sum(queue.leased(now) for queue in queues),
            len(queues),
            sum(queue.completed for queue in queues),
            sum(queue.active > 0 for queue in queues),
        )

    def forget(self, crawl_id: str, key: str, before: float) -> int:
        """DeleteQueue or PurgeURLs: the number of URLs that are forgotten."""
        count = 0
        for name, queue in self.crawls.get(crawl_id, Crawl()).queues.items():
            if key in ("", name):
                gone = [url for url, row in queue.urls.items() if row.created <= before]
                for url in gone:
                    del queue.urls[url]
                count += len(gone)
        return count

    def listed(self, crawl_id: str, key: str, text: str, *, ignore_case: bool) -> set[str]:
        """The URLs that ListURLs and CountURLs are about."""
        text = text.lower() if ignore_case else text
        return {
            url
            for name, queue in self.crawls.get(crawl_id, Crawl()).queues.items()
            for url in queue.urls
            if key in ("", name) and text in (url.lower() if ignore_case else url)
        }

    def keys(self, crawl_id: str, now: float, *, inactive: bool) -> set[str]:
        """The keys that ListQueues is about."""
        return {
            key
            for key, queue in self.crawls.get(crawl_id, Crawl()).queues.items()
            if queue.urls and (inactive or (queue.active and queue.blocked <= now))
        }
