"""Fuzzed: stored records. Damage to one is a CorruptFrontier where it is met, or a frontier that works."""

from __future__ import annotations

import contextlib
import functools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import lmdb
import msgspec
from hypothesis import strategies as st

from budgetfrontier import CrawlUri, Frontier, Outcome, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import CorruptFrontier, FrontierError
from budgetfrontier.storage import keys, records, uri_values
from budgetfrontier.storage.lmdb_env import translate_error
from tests.fuzz.target import Target
from tests.fuzz.urls import SHARED_MEMORY
from tests.support import START, make_settings, pages

# -- one record

DECODERS: tuple[Callable[[bytes], object], ...] = (
    records.decode_queue,
    records.decode_counters,
    records.decode_lease,
    records.decode_future,
    records.decode_audit,
    records.decode_run,
    records.whole_queue,
    uri_values.tries,
    uri_values.short_url,
    lambda value: uri_values.decode_uri(value, "a.test"),
    lambda value: uri_values.with_tries(value, 1, 1),
    lambda value: uri_values.restore_uri(keys.rank.pack(3, 0, 1, 1), value, "a.test"),
    lambda value: uri_values.restore_uri(value[:17], value[17:], "a.test"),
    lambda value: records.dead_letter(1, records.decode_dead(value)),
    lambda value: records.restore_lease(1, records.decode_lease(value), "a.test", b"\xff/"),
)


def check_record(value: bytes) -> None:
    """It is decoded, or it is an error that the engine knows for damage."""
    for decode in DECODERS:
        try:
            decode(value)
        except Exception as error:
            assert isinstance(translate_error(error, Path("frontier")), CorruptFrontier), error


fields = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
)
records_of = st.builds(lambda head, value: head + msgspec.msgpack.encode(value), st.binary(max_size=4), fields)
record = Target(check_record, records_of | st.binary(max_size=60), bytes)

# -- one record of a frontier


IN_VALUE, IN_KEY, CUT, FIELD = range(4)


class Harm(NamedTuple):
    """What is done to one record: which table, which record of it, where in it, and what is put there.

    Bytes are put over as many bytes of the value or key, or (CUT) in place of all that follows. A FIELD is another
    value for one of a record's fields, in msgpack.
    """

    table: int
    record: int
    kind: int
    at: int
    put: bytes


@functools.cache
def template() -> bytes:
    """The data file of a frontier that has something in every table."""
    folder = Path(tempfile.mkdtemp(dir=SHARED_MEMORY, prefix="fuzz-"))
    settings = make_settings(polite=True, hold_queues=False, queue_total_budget=6, overrides=[OVERRIDE])
    clock = ManualClock(START)
    with Frontier.open(folder / "f", settings, clock=clock, keep_leases=True) as f:
        f.schedule_many([*pages("ABCDEFG", 4), "https://h.test/1?x", CrawlUri("https://h.test/2", meta={"a": [1]})])
        f.schedule(CrawlUri("https://h.test/3", not_before=START + 50, queue="forced"))
        for number, lease in enumerate(f.lease(5)):
            outcome = (Outcome.SUCCESS, Outcome.RETRY, Outcome.DEAD, Outcome.FAILURE, Outcome.DEFERRED)[number]
            f.finish(lease, outcome, discovered=[f"{lease.uri.url}/x"])
        f.adjust(match="queue:b.test", precedence=1)
        f.retire("g.test")
        f.lease(2)
    data = (folder / "f" / "data.mdb").read_bytes()
    shutil.rmtree(folder)
    return data


OVERRIDE = {"match": "host:e.test", "set": {"precedence": 5, "balance_replenish_amount": 1}}


def do_harm(folder: Path, harm: Harm) -> bool:
    """Damage one record of the frontier in `folder`; whether it is another record now."""
    with lmdb.open(str(folder), map_size=1 << 26, max_dbs=32, lib_version=0) as env:
        db = env.open_db(keys.TABLES[harm.table % len(keys.TABLES)].encode())
        with env.begin(write=True, db=db) as txn:
            rows = list(txn.cursor())
            key, value = rows[harm.record % len(rows)]
            old = key if harm.kind == IN_KEY else value
            new = _changed(old, harm)
            if new == old or (harm.kind == IN_KEY and not 0 < len(new) < 512):
                return False
            txn.delete(key)
            txn.put(new if harm.kind == IN_KEY else key, value if harm.kind == IN_KEY else new)
    return True


def _changed(old: bytes, harm: Harm) -> bytes:
    if harm.kind == FIELD:
        try:
            fields, value = msgspec.msgpack.decode(old), msgspec.msgpack.decode(harm.put)
        except (ValueError, RecursionError):
            return old
        if not isinstance(fields, list) or not fields:
            return old
        fields[harm.at % len(fields)] = value
        return msgspec.msgpack.encode(fields)
    at = harm.at % (len(old) + 1)
    return old[:at] + harm.put + (b"" if harm.kind == CUT else old[at + len(harm.put) :])


def check_harm(harm: Harm) -> None:
    """Work with a damaged frontier as with any: each call does its work, or raises a FrontierError."""
    folder = Path(tempfile.mkdtemp(dir=SHARED_MEMORY, prefix="fuzz-"))
    try:
        (folder / "data.mdb").write_bytes(template())
        if do_harm(folder, harm):
            for work in LIVES:
                with contextlib.suppress(FrontierError):
                    work(folder)
    finally:
        shutil.rmtree(folder)


def _look(folder: Path) -> None:
    with Reader(folder) as reader:
        for look in LOOKS:
            with contextlib.suppress(FrontierError):
                look(reader)


LOOKS: tuple[Callable[[Reader], object], ...] = (
    Reader.report,
    Reader.summary,
    Reader.check,
    Reader.leases,
    Reader.future,
    Reader.dead_letters,
    Reader.audit,
    Reader.process,
    Reader.runs,
    Reader.verdict,
    lambda reader: reader.settings,
    lambda reader: reader.find("https://a.test/1"),
    lambda reader: reader.pending("b.test"),
    lambda reader: reader.queue("c.test"),
)


def _crawl(folder: Path) -> None:
    clock = ManualClock(START + 1)
    with Frontier.open(folder, clock=clock) as f:
        f.schedule_many([*pages("ACZ", 6), CrawlUri("https://h.test/9", via="https://a.test/")])
        for _ in range(6):
            for lease in f.lease(4):
                f.finish(lease, Outcome.RETRY if lease.id % 3 else Outcome.SUCCESS, discovered=[f"{lease.uri.url}/y"])
            f.next_ready_in()
            clock.advance(20)
        f.commit()


def _steer(folder: Path) -> None:
    with Frontier.open(folder, clock=ManualClock(START + 1000), keep_leases=True) as f:
        f.adjust(queue_total_budget=50)
        for queue in "a.test", "g.test", "forced":
            f.unretire(queue)
            f.snooze(queue, until=START + 2000)
            f.wake(queue)
            f.retire(queue)
        f.replay()
        f.delete(pattern="/y$")
        f.resume()
        f.check()


LIVES = (_look, _crawl, _steer, _look)


def read_harm(raw: bytes) -> Harm:
    """A byte each for table, record, kind (2 bits) and where; the rest is put there."""
    table, row, at = raw.ljust(3, b"\0")[:3]
    return Harm(table, row, at >> 6, at & 0x3F, raw[3:])


tables = st.integers(0, len(keys.TABLES) - 1)
rows = st.integers(0, 40)
numbers = st.sampled_from(
    (0, 1, -1, 3, 2**16, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 1e308, float("nan"))
)
states = st.sampled_from(
    ("READY", "RETIRED", "SNOOZED", "IN_PROCESS", "INACTIVE", "EXHAUSTED", "PAUSED", "NEW", "FINISHED")
)
harms = st.one_of(
    st.builds(Harm, tables, rows, st.integers(0, 2), st.integers(0, 63), st.binary(max_size=9)),
    st.builds(Harm, tables, rows, st.just(CUT), st.just(0), fields.map(msgspec.msgpack.encode)),
    st.builds(
        Harm, tables, rows, st.just(FIELD), st.integers(0, 40), (numbers | states | fields).map(msgspec.msgpack.encode)
    ),
)
harm = Target(check_harm, harms, read_harm)
