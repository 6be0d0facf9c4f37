"""The limit of open files, which is raised and never lowered."""

from __future__ import annotations

import resource

from budgetfrontier.core.endpoints.open_files import limit_raised, raise_limit


def soft() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_it_is_raised_within_a_block_as_far_as_the_system_permits() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, before[1]))
    try:
        with limit_raised(400):
            assert soft() == 400
            raise_limit(100)
            assert soft() == 400, "it is never lowered"
        assert soft() == 300
        if before[1] != resource.RLIM_INFINITY:
            with limit_raised(before[1] + 1):
                assert soft() == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
