"""Durations of requests by the kernel's clock: how long the server took, whatever this process did meanwhile.

A busy event loop sends a request late, and takes its response late from the socket. By the loop's clock, a server that
answers at once may thus take a second, and the politeness delay is a multiple of that.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
from typing import Any

TICK = 0.01
"""Seconds of error of the kernel's times: it counts them in ticks, of 10 ms or less."""

_SIZE = 104
# struct tcp_info of linux/tcp.h: tcpi_last_data_sent and tcpi_last_data_recv, both in milliseconds before now, tcpi_rtt
# in microseconds, tcpi_total_retrans.
_INFO = struct.Struct("=44xI4xI12xI28xI")


def seconds_of_exchange(transport: Any, *, round_trips: int = 0) -> float | None:
    """Return the seconds from the last byte sent on a connection to the last one received, at most `TICK` too many.

    Its set-up is counted as that many round trips. None if that is not known: on other systems than Linux, and if
    anything had to be sent twice, because the set-up may have taken seconds then. About 2 us.
    """
    connection = transport.get_extra_info("socket") if transport is not None and sys.platform == "linux" else None
    if connection is None:
        return None
    with contextlib.suppress(OSError):
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _SIZE)
        return seconds_in(info, round_trips=round_trips)
    return None


def seconds_in(info: bytes, *, round_trips: int) -> float | None:
    """Return the seconds of round trips by the kernel's description of a connection."""
    if len(info) < _INFO.size:
        return None
    sent, received, round_trip, repeated = _INFO.unpack_from(info)
    if repeated or received > sent:
        return None
    return float((sent - received) / 1e3 + round_trips * round_trip / 1e6 + TICK)
