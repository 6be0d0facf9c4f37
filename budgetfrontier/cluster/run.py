"""A worker's process: its thread, and the server that answers clients."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from budgetfrontier.bus.kafka import connect
from budgetfrontier.cluster.kafka import KafkaDirectory, Place
from budgetfrontier.cluster.serving import WorkerCrawls
from budgetfrontier.cluster.worker import Worker
from budgetfrontier.service import frontier_service, server
from budgetfrontier.service.server import Offered, Tls
from budgetfrontier.service.stopping import Stop
from budgetfrontier.settings import Settings


def work(
    where: Place,
    settings: Settings,
    folder: Path,
    *,
    partitions: int,
    listen: str,
    advertise: str | None,
    tls: Tls | None,
    token: str | None,
    started: Callable[[str], None],
    stop: Stop,
) -> bool:
    """Work until somebody asks for the end; tell whether no call was cut off. Raises what has ended the worker."""
    failures: list[BaseException] = []
    threads: list[threading.Thread] = []
    folder.mkdir(parents=True, exist_ok=True)
    options = {"linger.ms": "1", "fetch.wait.max.ms": "100", "compression.type": "lz4", **where.options}
    worker = Worker(
        connect(where.brokers, options), KafkaDirectory(where), settings, folder,
        partitions=partitions, address=advertise or listen,
    )  # fmt: skip
    crawls = WorkerCrawls(worker)

    def run() -> None:
        try:
            worker.run()
        except BaseException as e:
            failures.append(e)
            stop.ask("failed")

    def begin(address: str) -> None:
        threads.append(threading.Thread(target=run, name="worker"))
        threads[0].start()
        started(address)

    def hand_over(crawls_: WorkerCrawls, address: str) -> Callable[..., None]:
        service = frontier_service.Service(crawls_)
        worker.on_applied = partial(service.changed, worker.crawl)
        return service.hand_over

    offered = Offered(frontier_service.FRONTIER.name, frontier_service.FRONTIER.methods, hand_over)
    try:
        whole = server.serve_crawls(
            crawls, what=f"partitions of {worker.crawl}", listen=listen, services=[offered], tls=tls, token=token,
            started=begin, stop=stop,
        )  # fmt: skip
    finally:
        worker.stop()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return whole
