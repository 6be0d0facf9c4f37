"""The process of a worker: its thread, and the server that answers clients."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from budgetfrontier.bus.kafka import connect
from budgetfrontier.cluster.directory.kafka import KafkaDirectory, Place
from budgetfrontier.cluster.directory.summaries import SummaryPublisher
from budgetfrontier.cluster.directory.topics import log_identity, prepare
from budgetfrontier.cluster.snapshots import snapshot_taking
from budgetfrontier.cluster.snapshots.snapshot_restore import Restorer
from budgetfrontier.cluster.snapshots.snapshot_store import SnapshotStore, StoreAway, check_name, folder_of, store_of
from budgetfrontier.cluster.snapshots.snapshot_taking import Taker
from budgetfrontier.cluster.workers.worker import ClusterWorker, log_stream
from budgetfrontier.cluster.workers.worker_crawl import WorkerCrawls
from budgetfrontier.core.endpoints.tokens import TokenFile
from budgetfrontier.errors import SettingsError
from budgetfrontier.server import frontier_service, server, tasks
from budgetfrontier.server.server import HandOver, Offered, Tls
from budgetfrontier.server.stopping import Stop
from budgetfrontier.settings import Settings
from budgetfrontier.settings.schema import ClusterSettings
from budgetfrontier.storage.lock import LOCK, WriterLock
from budgetfrontier.storage.modes import folder_for

_EVERYWHERE = ("0.0.0.0", "[::]", "")

log = logging.getLogger("budgetfrontier.cluster")


def work(
    where: Place,
    settings: Settings,
    folder: Path,
    *,
    cluster: ClusterSettings,
    listen: str,
    advertise: str | None,
    tls: Tls | None,
    token: TokenFile | None,
    anybody: bool = False,
    started: Callable[[str], None],
    stop: Stop,
) -> bool:
    """Work until the end is asked for; return whether no call was cut off. Raises the error that has ended the worker.

    The caller has the lock of `own_folder`.
    """
    running: list[Future[None]] = []
    _check(settings, listen, advertise)
    store = _checked_store(settings.crawl, cluster)
    snapshot_taking.clear_up(folder)
    compression = {"compression.type": "zstd", "compression.level": "1"}  # 3, the default, halves the calls a second
    options = {"linger.ms": "1", "fetch.wait.max.ms": "100", **compression, **where.options}
    bus, directory = connect(where.brokers, options), KafkaDirectory(where)
    log_id, stream = log_identity(bus, settings.crawl), log_stream(settings.crawl, cluster.partitions)

    def log_end(partition: int) -> int:
        return bus.bounds(stream, partition)[1]

    restorer = None if store is None else Restorer(
        store, settings.crawl, cluster.partitions, log_id=log_id, log_end=log_end
    )  # fmt: skip
    worker = ClusterWorker(
        bus, directory, settings, folder, partitions=cluster.partitions, address=advertise or listen,
        restore=restorer, snapshots=None if store is None else Taker(settings.crawl, cluster),
        log_id=log_id, log_end=log_end,
        delete_before=partial(bus.delete_before, f"{settings.crawl}-log"),
    )  # fmt: skip
    crawls = WorkerCrawls(worker)

    def run() -> None:
        try:
            if prepare(bus, directory, settings.crawl, cluster, stopping=lambda: worker.is_stopping):
                worker.run()
        except BaseException:
            stop.ask("failed")
            raise

    def begin(address: str) -> None:
        worker.address = advertise or address
        running.append(threads.submit(run))
        started(address)

    offered = Offered(
        frontier_service.FRONTIER.name, frontier_service.FRONTIER.methods, partial(_served, worker, where)
    )
    with ThreadPoolExecutor(1, thread_name_prefix="worker") as threads:
        try:
            whole = server.serve_crawls(
                crawls, what=f"partitions of {worker.crawl}", listen=listen, services=[offered], tls=tls, token=token,
                anybody=anybody, started=begin, stop=stop,
            )  # fmt: skip
        finally:
            worker.stop()
            if not running:
                worker.close()
    for one in running:
        one.result()  # raises the error that has ended the worker
    return whole


@contextmanager
def _served(worker: ClusterWorker, where: Place, crawls: WorkerCrawls, address: str) -> Iterator[HandOver]:
    """Let clients call the partitions of a worker, and publish their summaries meanwhile."""
    crawl = crawls.get(worker.crawl)

    def carry(logs: Collection[str]) -> None:
        with closing(KafkaDirectory(where)) as read_once:  # a reader that stays would be sent each summary
            crawl.carry_requests(read_once.summaries().values(), logs)

    with (
        closing(frontier_service.FrontierService(crawls)) as service,
        closing(KafkaDirectory(where)) as table,
        closing(
            SummaryPublisher(
                table,
                lambda: tasks.result_of(crawl.standings()),
                lambda *look: tasks.result_of(crawl.inspected(*look)),
                worker.folder,
                carry,
            )
        ),
    ):
        worker.on_applied = partial(service.changed, worker.crawl)
        yield service.hand_over


@contextmanager
def own_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a worker's folder, which is made if need be. An error removes it if nothing else is in it."""
    with folder_for(folder):
        lock = WriterLock(folder / LOCK)
        try:
            yield
        except BaseException:
            if [path.name for path in folder.iterdir()] == [LOCK]:
                (folder / LOCK).unlink()
            raise
        finally:
            lock.release()


def _check(settings: Settings, listen: str, advertise: str | None) -> None:
    """Raise SettingsError for an address that clients cannot call; warn of a setting that does nothing here."""
    if advertise is None and listen.rpartition(":")[0] in _EVERYWHERE:
        raise SettingsError(
            f"clients cannot call {listen}, which would be published as the address of this worker: give --advertise "
            "HOST:PORT"
        )
    if settings.frontier.pause_at_finish:
        log.warning(
            "frontier.pause_at_finish does nothing in a crawl in partitions: it is FINISHED once nothing is left, and "
            "goes on when more is scheduled"
        )


def _checked_store(crawl: str, cluster: ClusterSettings) -> SnapshotStore | None:
    """Return the store of snapshots. Raises FrontierError if it refuses; one that is away is waited for later."""
    store = store_of(cluster)
    if store is not None:
        check_name(crawl)
        try:
            store.names(folder_of(crawl, 0))
        except StoreAway as e:
            log.warning("%s; partitions without a copy here wait for it", e, extra={"event": "store_away"})
    return store
