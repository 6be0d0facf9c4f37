"""Partitions: an owner is ahead of its log, all others have what is in it, and nothing counts that is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier import Frontier, Outcome, Settings
from budgetfrontier.cluster.log import entries, state
from budgetfrontier.cluster.log.entries import VERSION, Changes, Found, OtherVersion, SliceGranted, SliceWanted
from budgetfrontier.cluster.log.log_reading import LogGap
from budgetfrontier.cluster.partitions import partition
from budgetfrontier.cluster.partitions.partition import Overtaken, WaitingCall
from budgetfrontier.cluster.partitions.partition_copy import PartitionCopy
from budgetfrontier.cluster.partitions.partition_progress import crawl_summary, standing_of
from budgetfrontier.cluster.partitions.routing import partition_of_queue
from budgetfrontier.cluster.quotas.quota_slices import Amounts, Want
from budgetfrontier.core import protocol
from budgetfrontier.core.model import CrawlState, CrawlUri, Directive
from budgetfrontier.core.protocol import Ended, Uris
from budgetfrontier.engine import changelog, disk_guard
from budgetfrontier.engine.commands import runner
from budgetfrontier.errors import CorruptFrontier, FrontierError, NotOwner, SettingsError
from budgetfrontier.rules import crawl_windows
from budgetfrontier.storage import keys, meta
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.verify import verify
from tests.cluster.log import CRAWL, PARTITIONS, Log, Owner, Sent, copied
from tests.examples import few

OWN = [host for host in (f"h{number}.test" for number in range(60)) if not partition_of_queue(host, PARTITIONS)]
OTHER = [host for host in (f"h{number}.test" for number in range(60)) if partition_of_queue(host, PARTITIONS) == 1]


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    with closing(Owner(tmp_path / "one", Log())) as owner:
        yield owner


def random_log(owner: Owner, random: Random, steps: int) -> None:
    """Let clients, other partitions and operators do something."""
    out: list[Any] = []

    def url() -> str:
        return f"https://{random.choice(OWN[:8] + OTHER[:3])}/{random.randrange(40)}{random.choice(['', '?q'])}"

    for step in range(steps):
        owner.log.time += random.choice([0.0, 0.1, 2.0, 40.0])
        match random.randrange(10):
            case 9:
                seeds: list[protocol.Uri] = [CrawlUri(url(), directive=Directive.MEDIUM) for _ in range(3)]
                owner.call(protocol.SCHEDULE_MANY, protocol.Uris(seeds))
            case 0:
                owner.schedule(*(f"https://{random.choice(OWN)}/{random.randrange(50)}" for _ in range(5)))
            case 1 | 2:
                out += owner.lease(random.randrange(1, 6), ttl=random.choice([5.0, 300.0]))
            case 3 | 4:
                ended = [
                    Ended(lease.id, random.choice(list(Outcome)), 0.3, None, [url(), url()], "reason")
                    for lease in out[:3]
                ]
                del out[:3]
                owner.finish(*ended)
            case 5:
                owner.log.find(step, url(), url(), source=random.randrange(1, PARTITIONS))
            case 6:
                what: Any = random.choice(
                    [
                        ("adjust", {"match": "*", "set": {"queue_total_budget": random.randrange(1, 9)}}),
                        ("retire", {"queue": random.choice(OWN)}),
                        ("pause", {}),
                        ("resume", {}),
                    ]
                )
                owner.log.steer(step.to_bytes(4, "big"), *what)
            case 7:
                what = random.choice(
                    [
                        ("delete", {"pattern": random.choice([r"\?q", "/1", "(a+)+"])}),
                        ("delete", {"queue": "*", "for_good": True}),
                        ("forget", {"uris": [f"https://{random.choice(OWN)}/1"]}),
                        ("snooze", {"match": "*", "until": 1e9}),
                        ("discard", {"id": random.randrange(step + 1).to_bytes(4, "big")}),
                        ("replay", {"ids": None}),
                        ("drop", {"ids": None}),
                        ("undo", {"id": random.randrange(step + 1).to_bytes(4, "big"), "force": True}),
                        ("retire", {"queue": random.choice(OWN)}),
                    ]
                )
                owner.log.steer(step.to_bytes(4, "big"), *what)
            case 8 if random.random() < 0.5:
                owner.commit()
    owner.apply()


FRONTIER = {
    "balance_replenish_amount": 3,
    "queue_total_budget": 12,
    "politeness": {"jitter": 3.0, "min_delay": 1.0},
    "retry": {"delay": 20.0, "max_retries": 2},
    "max_deliveries": 3,
}


@few(12)
@given(random=st.randoms(use_true_random=False), cost=st.sampled_from(["wag", "unit"]))
def test_copies_are_equal_however_often_they_were_killed(random: Random, cost: str) -> None:
    log = Log(Settings.from_dict({"crawl": CRAWL, "frontier": FRONTIER | {"cost_policy": cost}}))
    with (
        pytest.MonkeyPatch.context() as patch,
        TemporaryDirectory() as room,
        closing(Owner(Path(room, "owner"), log)) as owner,
    ):
        patch.setattr(runner, "STEP", 5)  # so that deletions take several
        random_log(owner, random, 80)
        expected = owner.contents()
        owner.partition.frontier.check()
        for _ in range(random.randrange(1, 9)):
            with closing(PartitionCopy(Path(room, "killed"), CRAWL, 0, PARTITIONS)) as killed:
                first = killed.reading.position
                killed.apply(log.entries[first : first + random.randrange(1, 30)])
                if random.random() < 0.7:
                    killed.commit()
        assert copied(Path(room, "killed"), log) == expected


@few(12)
@given(random=st.randoms(use_true_random=False))
def test_what_was_answered_is_kept_and_nothing_else_counts(random: Random) -> None:
    """Owners come and go: killed, or overtaken while they still believe that the partition is theirs."""
    log = Log(Settings.from_dict({"crawl": CRAWL, "frontier": FRONTIER}))
    with TemporaryDirectory() as room, pytest.MonkeyPatch.context() as patch, ExitStack() as opened:
        patch.setattr(partition, "PLACE_EVERY", random.choice([1, 5, 64]))
        owners = [opened.enter_context(closing(Owner(Path(room, "0"), log)))]
        folders = 1
        answered, leases = set[str](), set[int]()
        for step in range(60):
            log.time += random.choice([0.0, 1.0, 30.0])
            owner = owners[-1]
            match random.randrange(6):
                case 0:
                    urls = [f"https://{random.choice(OWN[:8])}/{step}-{page}" for page in range(3)]
                    owner.schedule(*urls)
                    answered.update(urls)
                case 1 | 2:
                    given = [lease.id for lease in owner.lease(3, ttl=40.0)]
                    assert leases.isdisjoint(given)
                    leases.update(given)
                    owner.finish(*given[:2])
                case 3:
                    log.find(step, f"https://{random.choice(OWN[:8])}/found-{step}", source=random.randrange(1, 4))
                case 4 if random.random() < 0.4:  # it is killed, or goes on for a while
                    if random.random() < 0.5:
                        for one in owners:
                            one.close()
                        owners.clear()
                    again = random.random() < 0.5 and not owners
                    folder = Path(room, str(folders - 1 if again else folders))
                    folders += not again
                    owners.append(opened.enter_context(closing(Owner(folder, log))))
                case 5:
                    for zombie in owners[:-1]:
                        url = f"https://{OWN[0]}/zombie-{step}"
                        refused = asked(zombie, Uris([url]))
                        for data in zombie.partition.step():
                            log.append_data(data)
                        with pytest.raises(Overtaken):
                            zombie.apply()
                        zombie.partition.drop("another has it")
                        assert isinstance(refused[0][1], NotOwner)
                        assert not zombie.partition.folder.joinpath("frontier.damaged-1").exists()
                    del owners[:-1]
        owner = owners[-1]
        expected = owner.contents()
        owner.partition.frontier.check()
        for one in owners:
            one.close()
        with Frontier.open(owner.partition.folder / "frontier", partition=0) as frontier:
            known = frontier.schedule_many(answered)
            assert known.added == 0
            zombies = [f"https://{OWN[0]}/zombie-{step}" for step in range(60)]
            assert frontier.schedule_many(zombies).duplicate == 0
        for number in range(folders):
            assert copied(Path(room, str(number)), log) == expected
        assert copied(Path(room, "new"), log) == expected


def asked(owner: Owner, arguments: Uris) -> list[tuple[Any, BaseException | None]]:
    """Let an owner be called; return a list that gets the answer."""
    answers: list[tuple[Any, BaseException | None]] = []
    data = protocol.encode(arguments)
    owner.partition.add(
        WaitingCall(
            lambda one: one.call(protocol.SCHEDULE_MANY.name, data), lambda *answer: answers.append(answer), len(data)
        )
    )
    return answers


def test_a_call_is_answered_once_its_effect_is_in_the_log_and_counts(owner: Owner, tmp_path: Path) -> None:
    answers = asked(owner, Uris([f"https://{OWN[0]}/"]))
    changed = owner.partition.step()
    assert (len(changed), answers, owner.partition.step()) == (1, [], [])
    owner.log.append_data(changed[0])
    assert answers == []
    owner.apply()
    assert [error for _, error in answers] == [None]
    assert owner.contents() == copied(tmp_path / "two", owner.log)


def test_calls_are_applied_ahead_of_the_log_and_thrown_away_with_a_claim(owner: Owner, tmp_path: Path) -> None:
    owner.schedule(f"https://{OWN[0]}/")
    before = owner.contents()
    answers = list[Any]()
    for number in range(4):
        answers.append(asked(owner, Uris([f"https://{OWN[1]}/{number}"])))
        for data in owner.partition.step():
            owner.log.append_data(data)
    assert owner.partition.frontier.summary().queued == 1 + partition.MOST_AHEAD  # the others wait
    assert answers == [[]] * 4
    owner.log.entries = owner.log.entries[: -partition.MOST_AHEAD] + [
        entry._replace(offset=entry.offset + 1) for entry in owner.log.entries[-partition.MOST_AHEAD :]
    ]
    claim = Log()
    claim.claim("two")
    owner.log.entries.insert(-partition.MOST_AHEAD, claim.entries[0]._replace(offset=len(owner.log.entries) - 2))
    with pytest.raises(Overtaken):
        owner.apply()
    owner.partition.drop("it is lost")
    assert [type(error) for ((_, error),) in answers] == [NotOwner] * 4
    assert copied(tmp_path / "one", owner.log) == copied(tmp_path / "other", owner.log) == before


def test_leases_outlive_their_owner(owner: Owner, tmp_path: Path) -> None:
    owner.schedule(f"https://{OWN[0]}/1", f"https://{OWN[0]}/2")
    (lease,) = owner.lease(5)
    with closing(Owner(tmp_path / "two", owner.log)) as second:
        assert second.lease(5) == []  # its host is out
        assert second.finish(lease.id) == []
        assert second.finish(lease.id) == [0]
        assert second.lease(5) == []  # and rests
        owner.log.time += 100
        assert [one.uri.url for one in second.lease(5)] == [f"https://{OWN[0]}/2"]
        assert second.partition.frontier.summary().expenditure == 1


def test_an_overloaded_host_rests_longer_each_time_whoever_owns_its_partition(owner: Owner, tmp_path: Path) -> None:
    owner.schedule(f"https://{OWN[0]}/1", f"https://{OWN[0]}/2")
    rests: list[float] = []
    for name, status, quiet in (("two", 503, 0.0), ("three", 429, 0.0), ("three", 503, 1800.0)):
        owner.log.time += quiet
        with closing(Owner(tmp_path / name, owner.log)) as one:
            (lease,) = one.lease()
            one.finish(Ended(lease.id, Outcome.RETRY, status=status))
            queue = one.partition.frontier.queue(OWN[0])
            assert queue is not None and one.lease(2) == []
            rests.append(queue.wake_time - one.log.time)
            one.log.time = queue.wake_time
    assert rests == [60.0, 120.0, 60.0]


def test_a_lease_expires_by_itself_and_nothing_is_written_while_nothing_happens(owner: Owner) -> None:
    owner.schedule(f"https://{OWN[0]}/1")
    owner.lease(1, ttl=30.0)
    owner.commit()
    length = len(owner.log.entries)
    env = owner.partition.frontier._tables.env.env
    written = env.info()["last_txnid"]
    for _ in range(5):
        owner.log.time += 5.0
        owner.commit()
        owner.partition.frontier.check()
    assert (len(owner.log.entries), env.info()["last_txnid"]) == (length, written)
    owner.log.time += 6.0
    owner.commit()
    assert len(owner.log.entries) == length + 1
    assert owner.partition.frontier.summary().in_process == 0


def test_an_entry_of_messages_alone_changes_no_copy(owner: Owner, tmp_path: Path) -> None:
    message = msgspec.Raw(entries.encode_message(Found([f"https://{OTHER[0]}/"])))
    before, told = owner.contents(), Changes(None, [(1, message)])
    for data in entries.encode_changes(told, epoch=owner.partition.epoch, number=1000, crawl=CRAWL):
        owner.log.append_data(data)
    assert copied(tmp_path / "two", owner.log) == before


def test_what_is_found_for_other_partitions_is_sent_once(owner: Owner) -> None:
    owner.schedule(*(f"https://{OWN[0]}/{page}" for page in range(3)))
    found = [f"https://{OTHER[0]}/a", f"https://{OTHER[0]}/b", f"https://{OWN[1]}/c", "nonsense"]
    (lease,) = owner.lease()
    owner.finish(Ended(lease.id, discovered=list(found)))
    ((number, sent),) = owner.take_outgoing()
    assert (number, sent.source) == (1, 0)
    assert isinstance(sent.message, Found)
    wanted = [CrawlUri(url, via=f"https://{OWN[0]}/0", hops="L") for url in found[:2]]
    assert list(sent.message.uris) == wanted
    assert owner.partition.frontier.summary().invalid == 1
    owner.log.time += 100
    (lease,) = owner.lease()
    owner.finish(Ended(lease.id, discovered=list(found)))
    assert owner.take_outgoing() == []  # sent shortly before
    assert owner.finish(Ended(lease.id, discovered=[f"https://{OTHER[0]}/d"])) == [0]  # it had ended: nothing counts
    assert owner.take_outgoing() == []


def test_what_is_found_for_other_partitions_has_the_label_of_its_page(owner: Owner) -> None:
    owner.schedule(CrawlUri(f"https://{OWN[0]}/", source="museums"))
    (lease,) = owner.lease()
    own = CrawlUri(f"https://{OTHER[0]}/b", source="other")
    owner.finish(Ended(lease.id, discovered=[f"https://{OTHER[0]}/a", CrawlUri(f"https://{OTHER[0]}/c"), own]))
    ((_, sent),) = owner.take_outgoing()
    assert isinstance(sent.message, Found)
    assert [uri.source for uri in sent.message.uris if isinstance(uri, CrawlUri)] == ["museums", "museums", "other"]


def test_many_uris_for_another_partition_are_several_entries(owner: Owner) -> None:
    owner.schedule(f"https://{OWN[0]}/")
    (lease,) = owner.lease()
    owner.finish(Ended(lease.id, discovered=[f"https://{OTHER[0]}/{number}" for number in range(1200)]))
    sent = [told for _, told in owner.take_outgoing()]
    assert [len(told.message.uris) for told in sent if isinstance(told.message, Found)] == [500, 500, 200]
    assert [told.origin[1] for told in sent] == [0, 1, 2]
    assert owner.partition.told(1) == sent[-1].origin


def test_uris_that_come_twice_count_once(owner: Owner) -> None:
    for _ in range(2):
        owner.log.tell((7, 0), Found([CrawlUri(f"https://{OWN[0]}/", force=True)]))
    owner.log.tell((7, 1), Found([f"https://{OWN[0]}/1"]))
    owner.log.tell((3, 0), Found([f"https://{OWN[0]}/2"]), source=2)
    owner.apply()
    assert owner.partition.frontier.summary().queued == 3


def test_links_of_pages_elsewhere_are_found_and_imports_are_not(owner: Owner) -> None:
    """Whether this partition has leased anything or not."""
    summary = owner.partition.frontier.summary
    owner.log.tell((7, 0), Found([f"https://{OWN[0]}/1", f"https://{OWN[0]}/2", None]))
    owner.apply()
    assert (summary().found, summary().scheduled, summary().invalid) == (2, 2, 1)
    owner.lease()
    owner.call(protocol.SCHEDULE_MANY, Uris([f"https://{OWN[1]}/{page}" for page in range(4)], brought=True))
    assert (summary().found, summary().scheduled) == (2, 6)
    owner.schedule(f"https://{OWN[2]}/")  # a program that gives the links of a page after its end
    assert (summary().found, summary().scheduled) == (3, 7)


def test_commands_count_once_and_refused_ones_change_nothing(owner: Owner) -> None:
    owner.schedule(f"https://{OWN[0]}/")
    for command in (b"1", b"1", b"2"):
        owner.log.steer(command, "adjust", {"match": "*", "set": {"queue_total_budget": 5}})
    owner.log.steer(b"3", "adjust", {"no_such_argument": 5})
    owner.log.steer(b"4", "no_such_command", {})
    owner.apply()
    entries = [(entry.args, bool(entry.error)) for entry in owner.partition.frontier.audit()]
    adjusted = {"match": "*", "set": {"queue_total_budget": 5}}
    assert entries == [(adjusted, False), (adjusted, False), ({"no_such_argument": 5}, True), ({}, True)]


def test_what_is_told_is_told_again_until_it_is_in_the_others_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order, and with the same origins, so that each counts once."""
    monkeypatch.setattr(partition, "PLACE_EVERY", 1)
    log, sent = Log(), list[tuple[int, bytes]]()

    def keep(outgoing: Sent) -> bool:
        sent.extend(outgoing)
        return False

    with closing(Owner(tmp_path / "one", log, on_outgoing=keep)) as one:
        one.schedule(*(f"https://{OWN[number]}/" for number in range(3)))
        for lease in one.lease(3):
            one.finish(Ended(lease.id, discovered=[f"https://{OTHER[0]}/{lease.id}"]))
        first = [*sent]
        assert len(first) == 3
    for folder in "one", "two":
        sent.clear()
        with closing(Owner(tmp_path / folder, log, on_outgoing=keep)) as one:
            assert sent == first
    with closing(Owner(tmp_path / "one", log)) as one:
        assert len(one.take_outgoing()) == 3
        one.schedule(f"https://{OWN[4]}/")  # which stores the place
    sent.clear()
    with closing(Owner(tmp_path / "four", log, on_outgoing=keep)) as one:
        assert sent == []
        assert one.partition.told(1) == entries.decode(first[-1][1], crawl=CRAWL).origin  # type: ignore[union-attr]


def test_entries_before_the_first_claim_wait_for_its_settings(tmp_path: Path) -> None:
    log = Log(Settings.from_dict({"crawl": CRAWL, "frontier": {"cost_policy": "wag"}}))
    log.find(1, f"https://{OWN[0]}/?q")
    with closing(Owner(tmp_path / "one", log)) as owner:
        (lease,) = owner.lease()
        assert (lease.uri.url, lease.cost) == (f"https://{OWN[0]}/?q", 2)


def test_however_many_entries_may_come_before_the_first_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are applied in steps, as all others, although the changes of those are behind all that are left."""
    monkeypatch.setattr(changelog, "MOST_OPERATIONS", 200)
    monkeypatch.setattr(partition, "MOST_WAITING", 5000)
    log = Log()
    for origin in range(60):
        log.find(origin, *(f"https://{OWN[0]}/{origin}/{page}" for page in range(20)))
    with closing(Owner(tmp_path / "one", log)) as owner:
        assert owner.partition.frontier.summary().queued == 1200
        assert len(log.entries) > 60 + 1200 // 200
        log.find(60, f"https://{OWN[0]}/last")
        owner.apply()
        assert owner.partition.frontier.summary().queued == 1201
        assert owner.contents() == copied(tmp_path / "other", log)


def test_a_treasurer_that_is_claimed_late_hears_what_was_wanted_before(tmp_path: Path) -> None:
    log = Log(Settings.from_dict({"crawl": CRAWL, "cluster": {"max_uris": 100}}))
    log.tell((0, 0), SliceWanted(Amounts(), Want(Amounts(1, 0), Amounts(5, 0)), (True, False)))
    with closing(Owner(tmp_path / "one", log)) as owner:
        [(number, granted)] = owner.take_outgoing()
        assert number == 1 and isinstance(granted.message, SliceGranted)


def test_offsets_may_be_left_out_where_the_log_has_lost_nothing(owner: Owner, tmp_path: Path) -> None:
    """As those of the control records of transactions."""
    owner.schedule(f"https://{OWN[0]}/", f"https://{OWN[1]}/")
    later = [entry._replace(offset=4 * entry.offset) for entry in owner.log.entries]
    epoch = later[0].offset
    assert epoch == 0
    with closing(PartitionCopy(tmp_path / "two", CRAWL, 0, PARTITIONS)) as two:
        two.apply(later[:1], begins=lambda: 0)
        for begins in (lambda: None, lambda: 2):
            with pytest.raises(
                LogGap, match=r"needs the entries from offset 1 on, and the first that .* still has is 4"
            ):
                two.apply(later[1:], begins=begins)
        two.apply(later[1:], begins=lambda: 1)
        assert two.reading.position == later[-1].offset + 1


def test_owners_decide_by_their_own_rules_of_time_zones_and_copies_by_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    night = {"guards": {"windows": ["daily 22:00-06:00 Europe/Berlin"]}}
    log = Log(Settings.from_dict({"crawl": CRAWL, "frontier": night, "cluster": {"kafka": "127.0.0.1:9092"}}))
    log.time = max(log.time, datetime(2031, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin")).timestamp())
    with closing(Owner(tmp_path / "one", log)) as one:
        one.schedule("https://a.test/", "https://b.test/")
        assert one.lease(2) == []
        log.time += 10 * 3600
        (lease,) = one.lease()
        one.finish(lease.id)
        log.steer(b"tokyo", "adjust", {"match": "*", "set": {"guards.windows": ["daily 06:00-22:00 Asia/Tokyo"]}})
        one.apply()
        assert one.lease() == [], "it is 05:00 there"
        expected = one.contents()
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(crawl_windows, "is_open")
        assert copied(tmp_path / "copy", log) == expected
    monkeypatch.setattr(crawl_windows, "is_open", lambda one, when: True)  # there, the zone has other rules
    with closing(Owner(tmp_path / "copy", log)) as other:
        other.schedule("https://c.test/")
        assert {lease.uri.url for lease in other.lease(9)} == {"https://b.test/", "https://c.test/"}
        other.partition.frontier.check()
        assert other.contents() == copied(tmp_path / "again", log)


def test_a_claim_puts_its_settings_in_force(owner: Owner, tmp_path: Path) -> None:
    owner.schedule(f"https://{OWN[0]}/", f"https://{OWN[0]}/2")
    (lease,) = owner.lease()
    owner.log.settings = Settings.from_dict({"crawl": CRAWL, "frontier": {"queue_total_budget": 0}})
    with closing(Owner(tmp_path / "two", owner.log)) as second:
        second.finish(lease.id)
        assert second.partition.frontier.summary().queues["RETIRED"] == 1
        assert second.contents() == copied(tmp_path / "other", owner.log)


def test_large_changes_are_several_entries_which_count_together(
    owner: Owner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "PIECE", 1000)
    before = len(owner.log.entries)
    owner.schedule(*(f"https://{OWN[0]}/{number}" for number in range(200)))
    assert len(owner.log.entries) > before + 3
    with closing(PartitionCopy(tmp_path / "two", CRAWL, 0, PARTITIONS)) as two:
        two.apply(owner.log.entries[: before + 2])
        two.commit()
        assert two.reading.begins == before
    assert owner.contents() == copied(tmp_path / "two", owner.log)
    del owner.log.entries[-1]  # its owner was killed
    with closing(Owner(tmp_path / "three", owner.log)) as three:
        assert three.partition.frontier.summary().queued == 0
        assert three.contents() == copied(tmp_path / "four", owner.log)


def test_a_wrong_row_of_an_owner_damages_no_good_copy(owner: Owner, tmp_path: Path) -> None:
    """A bit on its disk that no check sees: who has the right row, or none, takes the partition over all the same."""
    log, wrong, good = owner.log, owner.partition.folder, tmp_path / "good"
    owner.schedule(*(f"https://{OWN[0]}/{number}" for number in range(9)))
    owner.commit()
    owner.close()
    copied(good, log)
    with closing(Environment(wrong / state.FRONTIER)) as env:
        [(key, value)] = [row for row in env.txn.cursor(env.db[keys.QUEUES]) if row[0] != keys.SENTINEL]
        fields = msgspec.msgpack.decode(value)
        fields[fields.index(3000)] = 3001
        env.txn.put(key, msgspec.msgpack.encode(fields), db=env.db[keys.QUEUES])
        env.commit()
    verify(wrong / state.FRONTIER)
    for folder in (wrong, good, tmp_path / "new"):
        with closing(Owner(folder, log)) as other:
            for _ in range(2):
                log.time += 60
                [lease] = other.lease()
                other.finish(lease.id)
            contents = other.contents()
            for copy in (good, tmp_path / "other"):
                assert folder == copy or copied(copy, log) == contents


def test_a_copy_that_cannot_be_owned_is_closed_at_once(owner: Owner, tmp_path: Path) -> None:
    owner.commit()
    owner.close()
    with closing(Environment(owner.partition.folder / state.FRONTIER)) as env:
        env.txn.put(meta.COMMANDS, b"\xc1", db=env.db[keys.META])
        env.commit()
    for _ in range(2):  # and not locked by the first
        with pytest.raises(CorruptFrontier):
            Owner(owner.partition.folder, owner.log)


def test_entries_of_something_else_are_told_once_and_those_of_another_version_end_the_worker(
    owner: Owner, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    owner.schedule(f"https://{OWN[0]}/0")
    foreign = len(owner.log.entries)
    for data in (b"", b"\x94", protocol.encode([1, "other", None]), protocol.encode([VERSION + 5, "other", None])):
        owner.log.append_data(data)
    owner.schedule(f"https://{OWN[0]}/1")
    for version in (VERSION - 1, VERSION + 1):
        owner.log.append_data(protocol.encode([version, CRAWL, None]))
        position = owner.partition.position
        with pytest.raises(OtherVersion, match="start this worker with the release that wrote it"):
            owner.apply()
        assert owner.partition.position == position
        owner.log.entries.pop()
    with closing(Owner(tmp_path / "next", owner.log)):  # a copy, and the owner, which reads again from its place on
        assert len(caplog.records) == 2
        for told in caplog.records:
            assert f"partition 0 of 'test': the entry at offset {foreign} is left out" in told.getMessage()


@pytest.mark.parametrize("what", ["body", "changes", "rows"])
def test_an_entry_of_this_crawl_that_cannot_be_read_is_never_left_out(owner: Owner, tmp_path: Path, what: str) -> None:
    """All of its partition waits for a copy of after it, or for the release that can read it."""
    owner.schedule(f"https://{OWN[0]}/0")
    epoch, number = owner.partition.epoch, owner.partition._taken + 1
    body: Any = ["Nothing"]
    if what != "body":
        rows = b"\x93" if what == "changes" else protocol.encode([protocol.encode([1, [9]]), []])
        body = [1, epoch, number, True, rows]
    offset = owner.log.append_data(protocol.encode([VERSION, CRAWL, body]))
    said = f"the entry at offset {offset} is of this crawl and of version {VERSION}, and cannot be read: .*{offset + 1}"
    if what != "rows":  # an owner does not read its own
        with pytest.raises(LogGap, match=said):
            owner.apply()
    owner.log.append_data(owner.log.entries[offset - 1].data)
    for _ in range(2):
        with closing(PartitionCopy(tmp_path / "copy", CRAWL, 0, PARTITIONS)) as copy:
            with pytest.raises(LogGap, match=said):
                copy.apply(owner.log.entries[copy.reading.position :])
            assert copy.reading.begins <= offset + (what == "rows")
            copy.commit()


def test_calls_that_are_refused_change_nothing(owner: Owner) -> None:
    with pytest.raises(FrontierError):
        owner.call(protocol.STEER, protocol.MethodCall("nonsense"))
    with pytest.raises(ValueError, match="ttl"):
        owner.lease(1, ttl=-1.0)
    owner.schedule(f"https://{OWN[0]}/")
    assert len(owner.lease()) == 1


def test_workers_with_other_fixed_settings_are_refused(owner: Owner, tmp_path: Path) -> None:
    owner.schedule(f"https://{OWN[0]}/")
    fixed: tuple[dict[str, Any], ...] = (
        {"queue_assignment_policy": "registered-domain"},
        {"canonicalization": {"strip_www": False}},
        {"keep_urls": True},
    )
    settings = owner.log.settings
    for number, frontier in enumerate(fixed):
        owner.log.settings = Settings.from_dict({"crawl": CRAWL, "frontier": frontier | {"queue_total_budget": 0}})
        with pytest.raises(SettingsError, match=r"was begun with other settings, which are fixed: frontier\."):
            Owner(tmp_path / f"other {number}", owner.log)
    owner.log.settings = settings
    with closing(Owner(tmp_path / "right", owner.log)) as right:
        assert len(right.lease()) == 1


def test_a_partition_that_has_nothing_left_for_now_does_not_pause_at_its_finish(tmp_path: Path) -> None:
    settings = Settings.from_dict({"crawl": CRAWL, "frontier": {"pause_at_finish": True}})
    with closing(Owner(tmp_path / "one", Log(settings))) as owner:
        owner.schedule(f"https://{OWN[0]}/")
        (lease,) = owner.lease()
        owner.finish(lease.id)
        assert owner.partition.frontier.state is CrawlState.FINISHED
        owner.log.find(1, f"https://{OWN[1]}/")
        owner.apply()
        assert len(owner.lease()) == 1


def test_an_owner_whose_disk_is_nearly_full_pauses_until_it_has_room_or_another_one_owns_the_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 10_000
    monkeypatch.setattr(disk_guard, "free_bytes", lambda folder: free)
    monkeypatch.setattr(partition, "LOOK_EVERY", 0.0)
    log = Log(Settings.from_dict({"crawl": CRAWL, "frontier": {"guards": {"min_free": 5000}}}))
    with closing(Owner(tmp_path / "one", log)) as owner:
        owner.schedule(*(f"https://{host}/" for host in OWN[:3]))
        assert len(owner.lease()) == 1
        free = 4000
        owner.turn()
        owner.apply()
        summary = owner.partition.frontier.summary()
        assert (summary.state, owner.lease()) == (CrawlState.PAUSING, [])
        assert str(summary.pause_reason).startswith("disk: 3.9 KiB free in ")
        assert crawl_summary([standing_of("", owner.partition)]).pause_reason == summary.pause_reason
        assert owner.contents() == copied(tmp_path / "copy", log)
        free = 7000
        owner.turn()
        owner.apply()
        assert len(owner.lease()) == 1
        free = 4000
        owner.turn()
        owner.apply()
    free = 10_000
    with closing(Owner(tmp_path / "two", log)) as other:
        assert len(other.lease()) == 1
        assert [entry.who for entry in other.partition.frontier.audit()] == ["guard"] * 4


def test_a_copy_is_no_frontier_of_its_own_and_a_frontier_no_copy(owner: Owner, tmp_path: Path) -> None:
    owner.commit()
    owner.close()
    path = owner.partition.folder / "frontier"
    with pytest.raises(FrontierError, match="--cluster"):
        Frontier.open(path)
    with pytest.raises(FrontierError, match="is partition 0 of 4 of the crawl 'test', not 0 of 8 of 'test'"):
        PartitionCopy(owner.partition.folder, CRAWL, 0, 8)
    with Frontier.open(tmp_path / "own" / "frontier", Settings()) as own:
        own.schedule("https://a.test/")
    with pytest.raises(FrontierError, match="a frontier of its own"):
        PartitionCopy(tmp_path / "own", CRAWL, 0, PARTITIONS)


def test_a_lease_of_another_crawl_is_refused(tmp_path: Path) -> None:
    found = list[list[Any]]()
    for name in "one", "two":
        with closing(Owner(tmp_path / name, Log())) as owner:
            owner.schedule("https://a.test/")
            found.append([lease.id for lease in owner.lease()])
            assert keys.partition_of_lease(found[-1][0]) == 0
            if len(found) > 1:
                assert owner.finish(*found[0]) == [0]
                assert owner.finish(*found[1]) == []
    with closing(Owner(tmp_path / "other", Log(), 3)) as owner:
        owner.schedule("https://a.test/")
        assert keys.partition_of_lease(owner.lease()[0].id) == 3
