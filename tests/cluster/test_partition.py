"""Partitions: the same log gives the same frontier, whoever applies it, however often it was killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier import Frontier, Outcome, Settings
from budgetfrontier.cluster import entries
from budgetfrontier.cluster.entries import Called, Found, NewerEntry, SliceGranted, SliceWanted, Steered, Ticked
from budgetfrontier.cluster.log_continuity import LogGap
from budgetfrontier.cluster.partition import Partition, first_entry, first_lease, partition_of_lease
from budgetfrontier.cluster.quota_slices import Amounts, Want
from budgetfrontier.cluster.routing import partition_of_queue
from budgetfrontier.core import protocol
from budgetfrontier.core.model import CrawlUri, Directive
from budgetfrontier.core.protocol import Ended, Wanted
from budgetfrontier.engine import atomic
from budgetfrontier.engine.commands import runner
from budgetfrontier.errors import FrontierError
from tests.cluster.log import CRAWL, PARTITIONS, Log, Owner, contents
from tests.examples import few

OWN = [host for host in (f"h{number}.test" for number in range(60)) if not partition_of_queue(host, PARTITIONS)]
OTHER = [host for host in (f"h{number}.test" for number in range(60)) if partition_of_queue(host, PARTITIONS) == 1]


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    owner = Owner(tmp_path / "one", Log())
    yield owner
    owner.partition.close()


def replica_contents(folder: Path, log: Log) -> dict[str, list[tuple[bytes, bytes]]]:
    """Return the records of another copy, which has applied the log and no more."""
    with closing(Partition(folder, CRAWL, 0, PARTITIONS)) as partition:
        while partition.state.position < len(log.entries):
            partition.apply(log.entries[partition.state.position :])
            partition.commit()
        return contents(partition)


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
                        ("adjust", {"queue_total_budget": random.randrange(1, 9)}),
                        ("retire", {"key": random.choice(OWN)}),
                        ("pause", {}),
                        ("resume", {}),
                    ]
                )
                owner.log.steer(step.to_bytes(4, "big"), what[0], **what[1])
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
                owner.log.append(Steered(step.to_bytes(4, "big"), "apply", [*what, "me", "", ""], {}))
            case 8:
                owner.log.append(Ticked())
    owner.apply()


@few(12)
@given(
    random=st.randoms(use_true_random=False),
    jitter=st.sampled_from([0.0, 3.0]),
    cost=st.sampled_from(["wag", "unit"]),
)
def test_replicas_are_equal_however_often_they_were_killed(random: Random, jitter: float, cost: str) -> None:
    frontier = {
        "cost_policy": cost,
        "balance_replenish_amount": 3,
        "queue_total_budget": 12,
        "politeness": {"jitter": jitter, "min_delay": 1.0},
        "retry": {"delay": 20.0, "max_retries": 2},
        "max_deliveries": 3,
    }
    log = Log(Settings.from_dict({"crawl": CRAWL, "frontier": frontier}))
    with (
        pytest.MonkeyPatch.context() as patch,
        TemporaryDirectory() as room,
        closing(Owner(Path(room, "owner"), log)) as owner,
    ):
        patch.setattr(runner, "STEP", 5)  # so that deletions take several
        random_log(owner, random, 80)
        expected = contents(owner.partition)
        owner.partition.frontier.check()
        position = 0
        while position < len(log.entries):
            with closing(Partition(Path(room, "killed"), CRAWL, 0, PARTITIONS)) as killed:
                first = killed.state.position
                killed.apply(log.entries[first : first + random.randrange(1, 30)])
                if random.random() < 0.7:
                    killed.commit()
                    position = killed.state.position
        with closing(Partition(Path(room, "killed"), CRAWL, 0, PARTITIONS)) as killed:
            assert contents(killed) == expected
            for field in ("commands", "of_queues", "waiting", "job", "time"):
                assert getattr(killed.state, field) == getattr(owner.partition.state, field), field


def test_a_call_of_an_owner_that_has_lost_the_partition_has_no_effect(owner: Owner, tmp_path: Path) -> None:
    owner.schedule(f"https://{OWN[0]}/")
    second = Owner(tmp_path / "two", owner.log)
    owner.log.append(Called(owner.epoch, 9, protocol.LEASE.name, protocol.encode(Wanted(1))))
    assert owner.apply() == []  # which has read the other's claim before
    second.apply()
    assert second.partition.state.void == owner.partition.state.void == 1
    assert len(second.lease()) == 1
    second.partition.close()


def test_leases_outlive_their_owner(owner: Owner, tmp_path: Path) -> None:
    owner.schedule(f"https://{OWN[0]}/1", f"https://{OWN[0]}/2")
    (lease,) = owner.lease(5)
    second = Owner(tmp_path / "two", owner.log)
    assert second.lease(5) == []  # its host is out
    assert second.finish(lease.id) == []
    assert second.finish(lease.id) == [0]
    assert second.lease(5) == []  # and rests
    owner.log.time += 100
    assert [one.uri.url for one in second.lease(5)] == [f"https://{OWN[0]}/2"]
    assert second.partition.frontier.summary().expenditure == 1
    second.partition.close()


def test_an_overloaded_host_rests_longer_each_time_whoever_owns_its_partition(owner: Owner, tmp_path: Path) -> None:
    owner.schedule(f"https://{OWN[0]}/1", f"https://{OWN[0]}/2")
    rests: list[float] = []
    with closing(Owner(tmp_path / "two", owner.log)) as second, closing(Owner(tmp_path / "three", owner.log)) as third:
        for one, status, quiet in ((second, 503, 0.0), (third, 429, 0.0), (third, 503, 1800.0)):
            one.log.time += quiet
            one.epoch = one.log.claim("again")
            one.apply()
            (lease,) = one.lease()
            one.finish(Ended(lease.id, Outcome.RETRY, status=status))
            queue = one.partition.frontier.queue(OWN[0])
            assert queue is not None and one.lease(2) == []
            rests.append(queue.wake_time - one.log.time)
            one.log.time = queue.wake_time
        second.apply()
        assert rests == [60.0, 120.0, 60.0]
        assert contents(second.partition) == contents(third.partition)


def test_what_is_found_for_other_partitions_is_sent_once(owner: Owner) -> None:
    owner.schedule(*(f"https://{OWN[0]}/{page}" for page in range(3)))
    found = [f"https://{OTHER[0]}/a", f"https://{OTHER[0]}/b", f"https://{OWN[1]}/c", "nonsense"]
    (lease,) = owner.lease()
    owner.finish(Ended(lease.id, discovered=list(found)))
    (sent,) = owner.partition.take_outgoing()
    assert sent.partition == 1
    assert isinstance(sent.body, Found)
    assert sent.body.source == 0
    wanted = [CrawlUri(url, via=f"https://{OWN[0]}/0", hops="L") for url in found[:2]]
    assert list(sent.body.uris) == wanted
    assert owner.partition.frontier.summary().invalid == 1
    owner.log.time += 100
    (lease,) = owner.lease()
    owner.finish(Ended(lease.id, discovered=list(found)))
    assert owner.partition.take_outgoing() == []  # sent shortly before
    assert (owner.partition.elsewhere.found, owner.partition.elsewhere.sent) == (4, 2)
    assert owner.finish(Ended(lease.id, discovered=[f"https://{OTHER[0]}/d"])) == [0]  # it had ended: nothing counts
    assert owner.partition.take_outgoing() == []


def test_what_is_found_for_other_partitions_has_the_label_of_its_page(owner: Owner) -> None:
    owner.schedule(CrawlUri(f"https://{OWN[0]}/", source="museums"))
    (lease,) = owner.lease()
    own = CrawlUri(f"https://{OTHER[0]}/b", source="other")
    owner.finish(Ended(lease.id, discovered=[f"https://{OTHER[0]}/a", CrawlUri(f"https://{OTHER[0]}/c"), own]))
    (sent,) = owner.partition.take_outgoing()
    assert isinstance(sent.body, Found)
    assert [uri.source for uri in sent.body.uris if isinstance(uri, CrawlUri)] == ["museums", "museums", "other"]


def test_many_uris_for_another_partition_are_several_entries(owner: Owner) -> None:
    owner.schedule(f"https://{OWN[0]}/")
    (lease,) = owner.lease()
    owner.finish(Ended(lease.id, discovered=[f"https://{OTHER[0]}/{number}" for number in range(1200)]))
    sent = [outgoing.body for outgoing in owner.partition.take_outgoing()]
    assert [len(found.uris) for found in sent if isinstance(found, Found)] == [500, 500, 200]
    assert [found.origin[1] for found in sent] == [0, 1, 2]
    assert owner.partition.state.told == {1: sent[-1].origin}


def test_uris_that_come_twice_count_once(owner: Owner) -> None:
    for _ in range(2):
        owner.log.append(Found(1, (7, 0), [CrawlUri(f"https://{OWN[0]}/", force=True)]))
    owner.log.append(Found(1, (7, 1), [f"https://{OWN[0]}/1"]))
    owner.log.append(Found(2, (3, 0), [f"https://{OWN[0]}/2"]))
    owner.apply()
    assert owner.partition.frontier.summary().queued == 3
    assert owner.partition.state.repeated == 1


def test_commands_count_once_and_refused_ones_change_nothing(owner: Owner) -> None:
    owner.schedule(f"https://{OWN[0]}/")
    for command in (b"1", b"1", b"2"):
        owner.log.steer(command, "adjust", queue_total_budget=5)
    owner.log.steer(b"3", "adjust", no_such_setting=5)
    owner.log.steer(b"4", "no_such_command")
    owner.apply()
    assert [entry.args["set"] for entry in owner.partition.frontier.audit()] == [{"queue_total_budget": 5}] * 2


def test_entries_before_the_first_claim_wait_for_its_settings(tmp_path: Path) -> None:
    log = Log(Settings.from_dict({"crawl": CRAWL, "frontier": {"cost_policy": "wag"}}))
    log.find(1, f"https://{OWN[0]}/?q")
    owner = Owner(tmp_path / "one", log)
    (lease,) = owner.lease()
    assert (lease.uri.url, lease.cost) == (f"https://{OWN[0]}/?q", 2)
    owner.partition.close()


def test_however_many_entries_may_come_before_the_first_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are applied in batches, as all others, and nothing of them is stored but what they do."""
    monkeypatch.setattr(atomic, "MOST_OPERATIONS", 100)
    monkeypatch.setattr(atomic, "LONGEST_NOTE", 2000)
    log = Log()
    for origin in range(30):
        log.find(origin, *(f"https://{OWN[0]}/{origin}/{page}" for page in range(20)))
    with closing(Owner(tmp_path / "one", log)) as owner:
        assert owner.partition.frontier.summary().queued == 600
        assert replica_contents(tmp_path / "other", log) == contents(owner.partition)


def test_a_first_claim_that_is_found_after_other_entries_lets_them_be_read_again(tmp_path: Path) -> None:
    log = Log()
    for origin in range(6):
        log.find(origin, f"https://{OWN[0]}/{origin}")
    log.claim()
    with closing(Partition(tmp_path / "one", CRAWL, 0, PARTITIONS)) as one:
        one.apply(log.entries[:5])
        assert (one.next_offset, one.exists) == (5, False)
        assert one.apply(log.entries[5:]) == [] and one.next_offset == 0
    with closing(Partition(tmp_path / "one", CRAWL, 0, PARTITIONS)) as one:  # killed before it has applied any
        assert one.exists and one.state.epoch == -1
        one.apply(log.entries)
        assert (one.next_offset, one.state.epoch) == (7, 6) and one.frontier.summary().queued == 6


def test_a_treasurer_that_is_claimed_late_hears_what_was_wanted_before(tmp_path: Path) -> None:
    log = Log(Settings.from_dict({"crawl": CRAWL, "cluster": {"max_uris": 100}}))
    log.append(SliceWanted(1, (0, 0), Amounts(), Want(Amounts(1, 0), Amounts(5, 0)), (True, False)))
    with closing(Owner(tmp_path / "one", log)) as owner:
        [granted] = owner.partition.take_outgoing()
        assert granted.partition == 1 and isinstance(granted.body, SliceGranted)


def test_offsets_may_be_left_out_where_the_log_has_lost_nothing(owner: Owner, tmp_path: Path) -> None:
    """As those of the control records of transactions."""
    owner.schedule(f"https://{OWN[0]}/", f"https://{OWN[1]}/")
    later = [(offset + 3 * offset, data) for offset, data in owner.log.entries]
    with closing(Partition(tmp_path / "two", CRAWL, 0, PARTITIONS)) as two:
        two.apply(later[:1], begins=0)
        for begins in (None, 2):
            with pytest.raises(LogGap, match="entries before offset 1, and the first that the log still has is 4"):
                two.apply(later[1:], begins=begins)
        two.apply(later[1:], begins=1)
        assert two.frontier.summary().queued == 2 and two.state.position == 5


def test_without_new_entries_nothing_is_written(owner: Owner) -> None:
    owner.schedule(f"https://{OWN[0]}/")
    owner.partition.commit()
    env = owner.partition.frontier._tables.env.env
    before = env.info()["last_txnid"]
    for _ in range(3):
        owner.partition.commit()
    assert env.info()["last_txnid"] == before
    owner.lease()
    owner.partition.commit()
    assert env.info()["last_txnid"] > before


def test_a_claim_puts_its_settings_in_force(owner: Owner, tmp_path: Path) -> None:
    owner.schedule(f"https://{OWN[0]}/", f"https://{OWN[0]}/2")
    (lease,) = owner.lease()
    owner.log.settings = Settings.from_dict({"crawl": CRAWL, "frontier": {"queue_total_budget": 0}})
    owner.epoch = owner.log.claim()
    owner.finish(lease.id)
    assert owner.partition.frontier.summary().queues["RETIRED"] == 1
    assert replica_contents(tmp_path / "other", owner.log) == contents(owner.partition)


def test_nothing_is_committed_for_a_claim_before_the_others_are_told(owner: Owner, tmp_path: Path) -> None:
    owner.schedule(f"https://{OWN[0]}/")
    (lease,) = owner.lease()
    owner.finish(Ended(lease.id, discovered=[f"https://{OTHER[0]}/"]))
    owner.log.settings = Settings.from_dict({"crawl": CRAWL, "frontier": {"queue_total_budget": 0}})
    owner.log.claim()
    with closing(Partition(tmp_path / "two", CRAWL, 0, PARTITIONS)) as killed:
        killed.apply(owner.log.entries)
        assert killed.is_commit_due  # once what it has to tell is in the others' logs
    with closing(Partition(tmp_path / "two", CRAWL, 0, PARTITIONS)) as second:
        second.apply(owner.log.entries)
        assert [sent.partition for sent in second.take_outgoing()] == [1]
        second.commit()
        second.apply(owner.log.entries)
        assert second.state.position == len(owner.log.entries)
        assert second.frontier.settings == owner.log.settings


def test_bad_entries_are_counted_and_those_of_another_version_end_the_worker(owner: Owner) -> None:
    for data in (b"", b"\x94", protocol.encode([1, CRAWL, 0.0, ["Nothing"]]), protocol.encode([1, "other", 0.0, None])):
        owner.log.entries.append((len(owner.log.entries), data))
    owner.schedule(f"https://{OWN[0]}/")
    assert owner.partition.state.rejected == 4
    owner.log.entries.append((len(owner.log.entries), protocol.encode([entries.VERSION + 1, CRAWL, 0.0, None])))
    position = owner.partition.state.position
    with pytest.raises(NewerEntry, match="start this worker with the release that wrote it"):
        owner.apply()
    assert owner.partition.state.position == position


def test_calls_that_are_refused_change_nothing(owner: Owner) -> None:
    with pytest.raises(FrontierError):
        owner.call(protocol.STEER, protocol.MethodCall("nonsense"))
    with pytest.raises(ValueError, match="ttl"):
        owner.lease(1, ttl=-1.0)
    owner.schedule(f"https://{OWN[0]}/")
    assert len(owner.lease()) == 1


def test_claims_with_other_fixed_settings_have_no_effect(owner: Owner, tmp_path: Path) -> None:
    owner.schedule(f"https://{OWN[0]}/")
    fixed: tuple[dict[str, Any], ...] = (
        {"queue_assignment_policy": "registered-domain"},
        {"canonicalization": {"strip_www": False}},
        {"keep_urls": True},
    )
    settings = owner.log.settings
    for number, frontier in enumerate(fixed):
        owner.log.settings = Settings.from_dict({"crawl": CRAWL, "frontier": frontier | {"queue_total_budget": 0}})
        owner.log.claim(f"other {number}")
        owner.apply()
        reason = owner.partition.refused[f"other {number}".encode()]
        assert "was begun with other settings, which are fixed: frontier." in reason
    owner.log.settings = settings
    assert len(owner.lease()) == 1  # it is the owner still
    assert replica_contents(tmp_path / "other", owner.log) == contents(owner.partition)


def test_what_a_kill_leaves_of_a_partition_that_was_being_created_is_removed(tmp_path: Path) -> None:
    (tmp_path / "one" / "frontier.new").mkdir(parents=True)
    (tmp_path / "one" / "frontier.new" / "data.mdb").write_bytes(b"half")
    with closing(Owner(tmp_path / "one", Log())) as owner:
        assert owner.schedule(f"https://{OWN[0]}/").added == 1
    assert not (tmp_path / "one" / "frontier.new").exists()


def test_a_replica_is_no_frontier_of_its_own_and_a_frontier_no_replica(owner: Owner, tmp_path: Path) -> None:
    owner.partition.commit()
    owner.partition.close()
    path = owner.partition.folder / "frontier"
    with pytest.raises(FrontierError, match="is a replica of a log"):
        Frontier.open(path)
    with pytest.raises(FrontierError, match="is partition 0 of 4 of the crawl 'test', not 0 of 8 of 'test'"):
        Partition(owner.partition.folder, CRAWL, 0, 8)
    with Frontier.open(tmp_path / "own" / "frontier", Settings()) as own:
        own.schedule("https://a.test/")
        with pytest.raises(FrontierError, match="not replicated"), own.atomic():
            own.internals.replica.begin_entry(1)
    with pytest.raises(FrontierError, match="a frontier of its own"):
        Partition(tmp_path / "own", CRAWL, 0, PARTITIONS)


def test_ids_of_leases_name_their_partition() -> None:
    for partition in (0, 1, 4095):
        for offset in (0, 1, 1 << 38):
            first = first_lease(partition, offset + first_entry(b"nonce"))
            assert first < 1 << 63
            assert partition_of_lease(first) == partition_of_lease(first + 4095) == partition
    assert first_lease(4095, 7) + 4095 < first_lease(0, 8)


def test_a_lease_of_another_crawl_is_refused(tmp_path: Path) -> None:
    """The ids are those that the log gives, in every process; another log gives others at the same offsets."""
    found = list[list[Any]]()
    for crawl in "one", "two", "two":
        log = Log()
        log.claim(crawl)
        owner = Owner(tmp_path / f"{crawl}{len(found)}", log)
        owner.schedule("https://a.test/")
        found.append([lease.id for lease in owner.lease()])
        if len(found) > 1:
            assert owner.finish(*found[0]) == [0]
            assert owner.finish(*found[1]) == []
        owner.close()
    assert found[0] != found[1] == found[2]
