"""Histories of a frontier: steps of all kinds, which a seed determines. `swap` has each of two players open what the
other one wrote."""

from __future__ import annotations

from random import Random
from typing import Any

from budgetfrontier import CrawlUri, Directive, Outcome, QueueState
from tests.engine.native.drawn_settings import MATCHES, PER_URI, Kind, values_of
from tests.engine.native.player import Step
from tests.fuzz.urls import ARGUMENTS, AUTHORITIES, SEGMENTS, TWISTED
from tests.support import START

HOSTS = ("a.test", "a.test", "b.test", "c.test", "www.c.test", "d.co.uk")
KEYS = ("a.test", "b.test", "c.test", "forced", "(test,a,", "group0")
QUERIES = (
    "?a=1",
    "?b=2&a=1",
    "?utm_source=x",
    f"?sid={'a1' * 16}",
    f"?x={'1' * 250}",
    f"?x={'1' * 400}",
    "/.x",
    "/x.y",
)
ADDRESSES = ("", "", "192.0.2.1", "2001:db8::1")

OPS = {
    "schedule": 6, "schedule_many": 10, "schedule_each": 3, "mark_seen": 2, "has_room": 1, "find_url": 1,
    "lease": 26, "lease_queues": 3, "finish": 10, "finish_many": 18, "landed": 5, "renew": 3, "give_back": 3,
    "advance": 16, "commit": 6, "reopen": 1, "crash": 1, "swap": 3, "look": 2, "atomic": 3,
    "adjust": 2, "withdraw": 1, "retire": 1, "unretire": 2, "snooze": 2, "wake": 1, "set_queue": 1, "regulate": 3,
    "reset_queue": 1, "pause": 1, "resume": 2, "delete": 1, "replay": 2, "drop_dead_letters": 1,
    "undo": 3, "discard": 1, "bulk": 2, "admit": 2, "fetched": 2, "forget": 1, "know_address": 1, "kept_totals": 1,
}  # fmt: skip
"""The kinds of steps, and how often each is drawn."""
TURNS = "schedule_many", "lease", "finish", "finish_many", "landed", "give_back", "advance", "commit", "swap"


class Draw(Random):
    """Draws the arguments of steps; `plain`: what the kernel takes by itself mostly."""

    plain = False

    def rarely(self, share: float = 0.1) -> bool:
        """Return True for a share of the calls."""
        return self.random() < (share / 8 if self.plain else share)

    def url(self) -> str:
        """Return a URL, plain ones mostly."""
        if self.rarely(0.06):
            parts = [f"/{self.choice(SEGMENTS)}" for _ in range(self.randrange(3))]
            query = f"?{self.choice(ARGUMENTS)}&{self.choice(ARGUMENTS)}" if self.rarely(0.5) else ""
            return self.choice(AUTHORITIES + TWISTED) + "".join(parts) + query
        query = self.choice(QUERIES) if self.random() < 0.4 else ""
        return f"{self.choice(('https', 'http'))}://{self.choice(HOSTS)}/{self.randrange(25)}{query}"

    def uri(self, odd: float = 0.3) -> str | CrawlUri:
        """Return a URL, or a URI with a few other fields."""
        url = self.url()
        if self.random() >= odd:
            return url
        if self.plain:
            found: dict[str, Any] = {"via": self.choice((None, self.url())), "hops": self.choice(("", "L", "LR"))}
            carried = {"payload": self.choice((None, b"", b"\0\xff")), "priority": self.choice((0, 4095, -2, 1 << 40))}
            posted = {"method": "POST", "headers": {"X-A": "1"}, "body": b"body", "payload": b"1", "priority": 4095}
            return CrawlUri(url, **self.choice((found, found, {"cost": self.choice((0, 1, 2, 5))}, carried, posted)))
        fields: dict[str, Any] = {
            "via": self.url(), "hops": self.choice(("L", "LE", "R")), "source": self.choice(("one", "two")),
            "method": "POST", "headers": {"X-A": "1"}, "body": b"body", "meta": {"a": [1, None]}, "payload": b"\0\xff",
            "force": True, "queue": "forced", "directive": self.choice(list(Directive)),
            "priority": self.choice((1, 5, -2)), "cost": self.choice((0, 1, 2, 9, 2000)),
            "not_before": START + self.choice((-1.0, 5.0, 300.0)), "precedence": self.choice((0, 2, 100)),
        }  # fmt: skip
        return CrawlUri(url, **{name: fields[name] for name in self.sample(sorted(fields), self.choice((1, 1, 2, 4)))})

    def uris(self, most: int = 14) -> list[str | CrawlUri]:
        """Return some URIs; all plain URLs half of the times."""
        odd = self.choice((0.0, 0.0, 0.2, 1.0))
        return [self.uri(odd) for _ in range(self.randrange(most))]

    def details(self, plain: bool) -> tuple[Outcome, dict[str, Any]]:
        """Return how a lease ended: with what the kernel takes, or with anything."""
        options: dict[str, Any] = {
            "fetch_seconds": self.choice((None, 0.0, 0.5, 10.0)),
            "size": self.choice((0, 0, 70, 5000)),
            "status": self.choice((0, 200, 200, 304)),
        }
        if plain:
            options |= {"address": self.choice(ADDRESSES)} | ({"discovered": self.uris(8)} if self.rarely(2.0) else {})
            return Outcome.RETRY if self.rarely(0.8) else Outcome.SUCCESS, options
        rare: dict[str, Any] = {
            "crawl_delay": self.choice((4.0, 45.0, 900.0)), "delay": self.choice((0.0, 30.0)), "retire_queue": True,
            "discovered": self.uris(8), "reason": self.choice(("robots", "no answer")), "novel": self.rarely(0.5),
            "status": self.choice((404, 429, 500, 503)), "address": self.choice(ADDRESSES),
            "digest": self.choice((b"one", b"two")), "size": -1 if self.rarely(0.02) else 40,
        }  # fmt: skip
        outcome = self.choice([Outcome.SUCCESS] * 4 + list(Outcome))
        return outcome, options | {name: rare[name] for name in self.sample(sorted(rare), self.randrange(4))}

    def number(self) -> int:
        """Return which lease: one in hand, unless it is below zero."""
        return -self.randrange(1, 9) if self.rarely(0.08) else self.randrange(60)

    def selection(self) -> dict[str, Any]:
        """Return which queues a command changes."""
        states = self.sample(list(map(str, QueueState)), 2) if self.rarely(0.3) else None
        return {"match": self.choice(MATCHES)} | ({"states": states} if states else {})


def step(op: str, number: int, *, plain: bool = False) -> Step:
    """Return a step of a kind, the same for the same number."""
    draw = Draw(number)
    draw.plain = plain
    key = draw.choice(KEYS)
    match op:
        case "schedule" | "has_room":
            return Step(op, (draw.uri(),))
        case "schedule_many" | "schedule_each" | "mark_seen":
            return Step(op, (draw.uris(),), {"charge": True} if op == "mark_seen" and draw.rarely(0.5) else {})
        case "find_url":
            return Step(op, (draw.url(),))
        case "lease":
            count = draw.choice((0, -1, 1 << 64)) if draw.rarely(0.05) else draw.choice((1, 1, 2, 5, 9))
            return Step(op, (count,), {"ttl": draw.choice((None, None, 2.0, 30.0))})
        case "lease_queues":
            queue = key if draw.rarely(0.3) else None
            return Step(
                op, (draw.randrange(1, 4), draw.randrange(3)), {"queue": queue, "ttl": draw.choice((None, 5.0))}
            )
        case "finish":
            return Step(op, (draw.number(), *draw.details(plain or draw.rarely(0.3))))
        case "finish_many":
            kind, given = draw.choice((0, 0, 1, 3) if plain else (0, 1, 2, 3)), list[tuple[int, Outcome | None, Any]]()
            for each in draw.sample(range(12), draw.randrange(9)) + [draw.number()] * draw.rarely():
                bare = kind == 0 or (kind == 3 and draw.rarely(0.4))
                given.append((each, None, {}) if bare else (each, *draw.details(plain or kind == 1)))
            return Step(op, (given,))
        case "landed":
            waits = {"fetch_seconds": draw.choice((None, 1.0, 9.0)), "crawl_delay": draw.choice((None, None, 60.0))}
            return Step(op, (draw.number(), waits))
        case "renew":
            return Step(op, (draw.number(), draw.choice((None, 0.5, 50.0))))
        case "give_back":
            return Step(op, (sorted({draw.number() for _ in range(draw.randrange(5))}),))
        case "advance":
            return Step(op, (draw.choice((0.0, 0.25, 1.0, 3.0, 10.0, 40.0, 400.0, 4000.0)),))
        case "atomic":
            ops = ("schedule", "schedule_many", "lease", "finish", "finish_many", "landed", "renew", "snooze", "adjust")
            steps = [step(draw.choice(ops), draw.randrange(1 << 30), plain=plain) for _ in range(draw.randrange(6))]
            return Step(op, (draw.choice((None, b"note")), steps, draw.rarely(0.2)))
        case "adjust":
            names = draw.sample(sorted(PER_URI), draw.choice((1, 1, 2)))
            changes = {name: draw.choice(values_of(PER_URI[name])) for name in names}
            match = draw.choice((*MATCHES, "group:*", "group:group0*"))
            return Step("command", ("adjust", {"match": match, "set": changes}))
        case "pause" if draw.rarely(0.04):
            return Step("terminate")
        case "retire" | "unretire" | "wake" | "reset_queue":
            return Step(op, (key,))
        case "snooze":
            return Step(op, (key,), {"until": START + draw.choice((2.0, 60.0, 5000.0, 20000.0))})
        case "set_queue":
            return Step(
                op, (key,), {"interval": draw.choice((None, 0.0, 20.0)), "max_completed": draw.choice((None, 3))}
            )
        case "regulate":
            asked = {
                "interval": 4.0,
                "max_completed": 2,
                "total_budget": draw.choice((-1, 3, 9)),
                "blocked_until": START,
            }
            names = draw.sample(sorted(asked), draw.randrange(1, 3))
            return Step(op, (key,), {name: asked[name] for name in names})
        case "delete":
            chosen = draw.choice(({"queue": "*.test"}, {"queue": key}, {"pattern": "[13]$"}))
            return Step(op, (), chosen | {"for_good": draw.rarely(0.2), "dry_run": draw.rarely(0.2)})
        case "replay" | "drop_dead_letters":
            return Step(op, (), {"queue": draw.choice((None, key))})
        case "undo":
            return Step(op, (draw.choice((0, 0, 1, 2)), draw.rarely(0.4)))
        case "discard" | "withdraw":
            return Step(op, (draw.choice((0, 1, 2)),))
        case "bulk":
            command = draw.choice(("retire", "unretire", "snooze", "wake", "set_queue", "delete", "replay", "forget"))
            args: dict[str, Any] = draw.selection() if command != "replay" else {"match": draw.choice(MATCHES)}
            if command == "snooze":
                args["until"] = START + draw.choice((60.0, 9000.0))
            elif command == "set_queue":
                args["interval"] = 5.0
            elif command == "forget":
                args.pop("states", None)
            return Step("command", (command, args))
        case "admit":
            command = draw.choice(("schedule", "mark_seen", "bury"))
            uris: list[Any] = [uri if isinstance(uri, str) else {"url": uri.url, "force": True} for uri in draw.uris(6)]
            return Step("command", (command, {"uris": uris}))
        case "fetched":
            urls = [f"https://a.test/{draw.randrange(25)}" for _ in range(draw.randrange(3))]
            numbers = [draw.number() for _ in range(draw.randrange(3))]
            return Step(op, (numbers, urls, draw.choice((None, None, START + 700.0))))
        case "forget":
            return Step(op, (draw.randrange(40),))
        case "know_address":
            return Step(op, (draw.choice(HOSTS), draw.choice(ADDRESSES)))
    return Step(op)


BEGINNING = [Step("schedule_many", ([f"https://{host}/{page}" for page in range(30, 36)],)) for host in HOSTS[1:4]]


def history(kind: Kind, seed: int, length: int) -> list[Step]:
    """Return a history; a shorter one with the same seed is the beginning of it."""
    draw = Random(seed)
    kinds = TURNS if kind is Kind.GROUPED else tuple(OPS)
    ops = draw.choices(kinds, [OPS[op] for op in kinds], k=length)
    return [*BEGINNING, *(step(op, draw.randrange(1 << 30), plain=kind is not Kind.ANY) for op in ops)]
