"""A crawl of several partitions, whose logs are lists, and whose messages to each other are delivered on demand."""

from __future__ import annotations

from collections import defaultdict, deque
from pathlib import Path
from random import Random
from typing import Any

from budgetfrontier import Outcome, Settings
from budgetfrontier.cluster.log import entries
from budgetfrontier.cluster.log.entries import Message, SliceGranted, SliceWanted, Told
from budgetfrontier.cluster.partitions import quota_spending
from budgetfrontier.cluster.partitions.partition import Partition
from budgetfrontier.cluster.partitions.partition_progress import crawl_state, limit_reached, standing_of
from budgetfrontier.cluster.partitions.routing import partition_of_queue
from budgetfrontier.cluster.quotas import quota_grants
from budgetfrontier.cluster.quotas.quota_slices import NOTHING, Amounts
from budgetfrontier.core.model import CrawlState, CrawlUri, Lease
from budgetfrontier.core.protocol import Ended
from tests.cluster.log import CRAWL, PARTITIONS, Log, Owner, Sent, copied

FINAL = (Outcome.SUCCESS, Outcome.FAILURE, Outcome.DEAD)
COSTLIEST = 5
PENALTY = 20
HOSTS = [f"h{number}.test" for number in range(12)]
OF_PARTITION = [
    [host for host in HOSTS if partition_of_queue(host, PARTITIONS) == number] for number in range(PARTITIONS)
]


def crawl_settings(totals: Amounts) -> Settings:
    """Two kinds of hosts, of which one has penalties."""
    return Settings.from_dict(
        {
            "crawl": CRAWL,
            "frontier": {
                "queue_total_budget": 200,
                "balance_replenish_amount": 4,
                "politeness": {"min_delay": 1.0},
                "retry": {"delay": 20.0, "max_retries": 1000},
                "max_deliveries": 3,
            },
            "overrides": [{"match": f"host:{host}", "set": {"error_penalty_amount": PENALTY}} for host in HOSTS[::2]],
            "cluster": {"max_uris": totals.uris, "max_spend": totals.spend},
        }
    )


class Crawl:
    """Partitions with their logs; `check` asserts what holds at any time."""

    def __init__(self, room: Path, random: Random, totals: Amounts) -> None:
        self.random, self._room, self._folders = random, room, 0
        self.pages = [random.choice([3, 20, 500]) for _ in HOSTS]
        self.totals = totals
        self.highest = totals.uris or 1 << 60
        self.logs = [Log(crawl_settings(totals)) for _ in range(PARTITIONS)]
        self.owners: dict[int, Owner] = {}
        self.way: dict[tuple[int, int], deque[Told]] = defaultdict(deque)
        self.sent: dict[tuple[int, int], dict[tuple[int, int], Told]] = defaultdict(dict)
        self.out: list[tuple[int, Lease]] = []
        self.finished = 0
        for number in self.random.sample(range(PARTITIONS), PARTITIONS):
            self.open(number, anew=True)

    def close(self) -> None:
        for owner in self.owners.values():
            owner.close()

    # -- workers

    def open(self, number: int, *, anew: bool) -> None:
        """Kill the owner of a partition; another one goes on from its commit, or from nothing."""
        old = self.owners.get(number)
        folder = self._room / f"{number}-{self._folders}" if anew or old is None else old.partition.folder
        self._folders += 1
        if old is not None:
            old.close()
            for (source, _), way in self.way.items():
                if source == number:  # what the broker has not got is lost
                    for _ in range(self.random.randrange(len(way) + 1)):
                        way.pop()

        def tell(outgoing: Sent) -> bool:
            self._take(number, outgoing)
            return False

        self.owners[number] = Owner(folder, self.logs[number], number, tell)

    def commit(self, number: int) -> None:
        """Commit a partition, and let the others' logs have what it tells them."""
        while ways := [way for way in self.way if way[0] == number and self.way[way]]:
            self.deliver(*ways[0])
        self.owners[number].commit()

    def _take(self, number: int, outgoing: Sent) -> None:
        """Take what a partition tells. What it tells again is the same."""
        for there, data in outgoing:
            told = entries.decode(data, crawl=CRAWL)
            assert isinstance(told, Told)
            assert told == self.sent[number, there].setdefault(told.origin, told)
            self.way[number, there].append(told)

    def deliver(self, source: int, there: int) -> None:
        """Append what is first on a way to the log where it goes."""
        self.logs[there].append(self.way[source, there].popleft())
        if not any(way for (number, _), way in self.way.items() if number == source):
            self.owners[source].confirm()
        self.owners[there].apply()

    def deliver_all(self) -> None:
        for owner in self.owners.values():
            owner.apply()
        while ways := [way for way in self.way if self.way[way]]:
            self.deliver(*self.random.choice(ways))

    def set_totals(self, totals: Amounts, steps: int = 6) -> None:
        """Restart the workers, in any order, with other totals, and do something meanwhile."""
        self.highest = max(self.highest, totals.uris or 1 << 60)
        for number in self.random.sample(range(PARTITIONS), PARTITIONS):
            self.restart(number, totals)
            self.step(steps)
        self.deliver_all()
        self.check()
        self.highest = max(totals.uris or 1 << 60, self.used().uris + len(self.leased()))

    def restart(self, number: int, totals: Amounts) -> None:
        """Restart the worker of a partition with other totals."""
        self.totals = totals
        self.logs[number].settings = crawl_settings(totals)
        self.open(number, anew=False)

    # -- clients

    def step(self, times: int) -> None:
        for _ in range(times):
            self.do()
            self.check()

    def do(self) -> None:
        """Do something."""
        random = self.random
        number = random.randrange(PARTITIONS)
        owner = self.owners[number]
        match random.randrange(12):
            case 0 | 1:
                owner.schedule(*self.uris(number, random.randrange(1, 40)))
            case 2 | 3 | 4:
                self.out += [
                    (number, lease) for lease in owner.lease(random.randrange(1, 12), random.choice([9.0, 300.0]))
                ]
            case 5 | 6:
                self.finish(random.choice(list(Outcome)))
            case 7 | 8 if any(self.way.values()):
                self.deliver(*random.choice([way for way in self.way if self.way[way]]))
            case 9:
                self.commit(number)
            case 10:
                if random.random() < 0.3:
                    self.open(number, anew=random.random() < 0.3)
            case _:
                self.wait(random.choice([1.0, 1.0, 10.0, 400.0]))
                if random.random() < 0.2:
                    key = {"queue": random.choice(OF_PARTITION[number])}
                    self.steer(
                        number, *random.choice([("retire", key), ("retire", key), ("pause", {}), ("resume", {})])
                    )

    def wait(self, seconds: float) -> None:
        for log in self.logs:
            log.time += seconds

    def uris(self, number: int, count: int) -> list[Any]:
        """URIs of a partition; each has its own cost."""
        random = self.random
        hosts = random.choices(OF_PARTITION[number], k=count)
        return [
            CrawlUri(
                f"https://{host}/{random.randrange(self.pages[HOSTS.index(host)])}",
                cost=random.randrange(COSTLIEST + 1),
            )
            for host in hosts
        ]

    def finish(self, outcome: Outcome) -> None:
        """End a few leases, with links to anywhere."""
        count = self.random.choice([1, 3, 9])
        taken, self.out = self.out[:count], self.out[count:]
        for number, lease in taken:
            links = self.uris(self.random.randrange(PARTITIONS), self.random.randrange(3))
            late = self.owners[number].finish(Ended(lease.id, outcome, 0.1, None, links))
            self.finished += outcome in FINAL and not late

    def steer(self, number: int, op: str, args: dict[str, Any]) -> None:
        """Let an operator give a command to one partition."""
        self.logs[number].steer(self.random.randbytes(8), op, args)
        self.owners[number].apply()

    def drain(self, *, calm: bool = False) -> None:
        """Crawl until nothing more can be leased. Unless `calm`, clients die, and some partitions are paused."""
        random = self.random
        if not calm:
            del self.out[random.randrange(len(self.out) + 1) :]
            for number in range(PARTITIONS):
                self.steer(number, random.choice(["pause", "resume", "resume"]), {})
        idle = 0
        while idle < 4:
            self.deliver_all()
            self.wait(150.0)
            for number in random.sample(range(PARTITIONS), PARTITIONS):
                for count in (1, random.randrange(1, 4)):
                    self.out += [(number, lease) for lease in self.owners[number].lease(count)]
            idle = 0 if self.out else idle + 1
            while self.out:
                if calm:
                    self.finish(Outcome.SUCCESS)
                elif random.random() < 0.1:  # its client has died
                    self.out.pop()
                else:
                    self.finish(random.choice([Outcome.SUCCESS, Outcome.FAILURE, Outcome.DISREGARDED]))
            self.check()
        self.deliver_all()

    # -- what holds

    def check(self) -> None:
        """Assert what holds at any time."""
        partitions = {number: owner.partition for number, owner in self.owners.items()}
        money = partitions[quota_grants.TREASURER].spending.state.treasury
        assert money is not None
        assert sum(money.granted.values(), NOTHING) == money.out
        uris = 0
        for number, partition in partitions.items():
            part = partition.spending.state.slice
            used, out = quota_spending.use_of(partition.frontier, (True, True))
            uris += used.uris + out.uris
            if part.limited[0]:
                assert used.uris + out.uris <= part.granted.uris
            if part.limited[1]:
                assert used.spend <= part.granted.spend + COSTLIEST + PENALTY
            under_way = NOTHING
            for body in self.under_way(quota_grants.TREASURER, number):
                under_way += body.amounts if isinstance(body, SliceGranted) else NOTHING
            for body in self.under_way(number, quota_grants.TREASURER):
                under_way += body.returned if isinstance(body, SliceWanted) else NOTHING
            assert money.granted.get(number, NOTHING) == part.granted + under_way
        assert uris <= self.highest
        assert sum(done(partition) for partition in partitions.values()) == self.finished

    def under_way(self, source: int, there: int) -> list[Message]:
        """What was sent and not heard."""
        heard = self.owners[there].partition.heard(source)
        return [told.message for origin, told in self.sent[source, there].items() if origin > heard]

    def used(self) -> Amounts:
        """What all partitions have used."""
        return sum(
            (quota_spending.use_of(one.partition.frontier, (False, False)).used for one in self.owners.values()),
            NOTHING,
        )

    def leased(self) -> list[int]:
        """The ids of the leases that are out."""
        return [one for owner in self.owners.values() for one in owner.partition.frontier._tables.leases.out]

    def check_end(self) -> CrawlState:
        """Assert that all was spent, or that nothing is left to do, and that the state of the crawl says which."""
        standings = [standing_of("", owner.partition) for owner in self.owners.values()]
        state = crawl_state(standings)
        working = [one for one in standings if one.summary.state is CrawlState.RUNNING]
        if working:
            assert any(total and have >= total for total, have in zip(self.totals, self.used(), strict=True))
            assert limit_reached(standings) is not None
            assert state is CrawlState.PAUSED
        return state

    def check_copies(self) -> None:
        """Assert that whoever reads the logs has the same partitions."""
        for number, owner in self.owners.items():
            assert owner.contents() == copied(self._room / f"copy-{number}", self.logs[number], number)


def done(partition: Partition) -> int:
    """The URIs of a partition that were tried and are done with."""
    return quota_spending.use_of(partition.frontier, (False, False)).used.uris
