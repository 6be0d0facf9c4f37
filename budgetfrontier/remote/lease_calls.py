"""The methods of a remote frontier for leases that stay out, or are given back, without I/O; `calls` has the others."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import force_setattr

from budgetfrontier.core import protocol
from budgetfrontier.core.model import Lease
from budgetfrontier.engine import arguments
from budgetfrontier.errors import lease_ended
from budgetfrontier.remote.calls import Rpc, Steps, encoded


def renew(lease: Lease, ttl: float | None) -> Steps[None]:
    """Set another deadline. Raises LeaseExpired."""
    if (yield from renew_many([lease], ttl)):
        raise lease_ended(lease.id, lease.uri.url)


def renew_many(leases: Iterable[Lease], ttl: float | None) -> Steps[list[Lease]]:
    """Set another deadline for leases; return those that had ended."""
    arguments.several(leases, "leases")
    given = [arguments.lease(item, "renew") for item in leases]
    ttl = None if ttl is None else arguments.seconds(ttl, "ttl")
    late: list[Lease] = []
    for start in range(0, len(given), protocol.MOST_ITEMS):
        part = given[start : start + protocol.MOST_ITEMS]
        renewal = protocol.Renewal([lease.id for lease in part], ttl)
        renewed: protocol.Renewed = yield Rpc(protocol.RENEW, encoded(renewal))
        ended = set(renewed.late)
        for place, lease in enumerate(part):
            if place in ended:
                late.append(lease)
            else:
                force_setattr(lease, "expires", renewed.expires)
    return late


def give_back(leases: Iterable[Lease]) -> Steps[list[Lease]]:
    """Give leases back uncounted; return those that had ended."""
    arguments.several(leases, "leases")
    given = [arguments.lease(item, "give_back") for item in leases]
    late: list[Lease] = []
    for start in reversed(range(0, len(given), protocol.MOST_ITEMS)):  # the last come before the first in the ring
        part = given[start : start + protocol.MOST_ITEMS]
        places = yield Rpc(protocol.GIVE_BACK, encoded([lease.id for lease in part]))
        late = [part[place] for place in places] + late
    return late


def landed(lease: Lease, fetch_seconds: float | None, crawl_delay: float | None) -> Steps[None]:
    """Report that a download is over. Raises LeaseExpired."""
    if (yield from _landed([(lease, fetch_seconds, crawl_delay)])):
        raise lease_ended(lease.id, lease.uri.url)


def landed_many(downloads: Iterable[tuple[Lease, float | None]]) -> Steps[list[Lease]]:
    """Report that downloads are over, each with its seconds; return the leases that had ended."""
    arguments.several(downloads, "pairs of a lease and its seconds")
    return (yield from _landed([(lease, seconds, None) for lease, seconds in downloads]))


def _landed(downloads: list[tuple[Lease, float | None, float | None]]) -> Steps[list[Lease]]:
    landings = [
        protocol.Landing(arguments.lease(lease, "landed").id, *arguments.waits(fetch_seconds, crawl_delay)[:2])
        for lease, fetch_seconds, crawl_delay in downloads
    ]
    late: list[Lease] = []
    for start in range(0, len(landings), protocol.MOST_ITEMS):
        part = slice(start, start + protocol.MOST_ITEMS)
        ended = set((yield Rpc(protocol.LANDED, encoded(landings[part]))))
        for place, (lease, _, _) in enumerate(downloads[part]):
            if place in ended:
                late.append(lease)
            else:
                force_setattr(lease, "landed", True)
    return late
