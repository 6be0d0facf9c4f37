"""A real Kafka broker on loopback, from its published jars: it needs Java 17, Maven, and the network once.

`python -m tests.bus.kafka_server FOLDER [PORT]` starts one to try things out, until Ctrl-C.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import create_connection

from tests.installed import NotInstalled, run_installed
from tests.support import free_port, until

VERSION = "4.3.1"
_POM = Path(__file__).with_name("kafka") / "pom.xml"

_OPTIONS = ("-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # a start that is quick
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
group.consumer.min.session.timeout.ms=1000
group.consumer.session.timeout.ms=8000
group.consumer.min.heartbeat.interval.ms=300
group.consumer.heartbeat.interval.ms=300
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
"""


@contextmanager
def running(folder: Path, port: int | None = None) -> Iterator[str]:
    """Run a broker in a folder, and yield its address. Raises NotInstalled."""
    with started(folder, port) as (address, _):
        yield address


@contextmanager
def started(folder: Path, port: int | None = None) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a broker in a folder, and yield its address and its process. Raises NotInstalled."""
    classpath = f"{jars()}/*"
    folder.mkdir(parents=True, exist_ok=True)
    port, controller = port or free_port(), free_port()
    config = folder / "server.properties"
    config.write_text(_PROPERTIES.format(port=port, controller=controller, folder=folder))
    if not (folder / "data" / "meta.properties").exists():
        shutil.copytree(_formatted(), folder / "data")
    with (folder / "broker.log").open("ab") as log:
        process = subprocess.Popen(
            ["java", *_OPTIONS, f"-Dkafka.logs.dir={folder}", "-cp", classpath, "kafka.Kafka", str(config)],
            stdout=log,
            stderr=log,
        )
    try:
        until(lambda: process.poll() is not None or _listens(port))
        assert process.poll() is None, (folder / "broker.log").read_text()[-2000:]
        yield f"127.0.0.1:{port}", process
    finally:
        process.kill()
        process.wait()


def jars() -> Path:
    """Return the folder of the jars, fetched if the cache has them not. Raises NotInstalled."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "budgetfrontier-tests")
    cache.mkdir(parents=True, exist_ok=True)
    ready = cache / f"kafka-{VERSION}"
    if shutil.which("java") is None:
        raise NotInstalled("java is not installed (.ci/system-packages installs it)")
    with (cache / "kafka-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            room = ready.with_suffix(".new")
            shutil.rmtree(room, ignore_errors=True)
            goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={room}"]
            run_installed("mvn", "--batch-mode", "--quiet", f"--file={_POM}", *goal)
            room.rename(ready)
    return ready


def _formatted() -> Path:
    """Return the folder of an empty broker, which is made once: that takes as long as to start one."""
    ready = jars() / "formatted"
    with tempfile.TemporaryDirectory(dir=ready.parent) as room:
        if not ready.exists():
            config = Path(room, "server.properties")
            config.write_text(_PROPERTIES.format(port=1, controller=2, folder=room))
            cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            tool = ("java", *_OPTIONS, "-cp", f"{ready.parent}/*", "kafka.tools.StorageTool")
            run_installed(*tool, "format", "-c", config, f"--cluster-id={cluster}")  # an id may begin with "-"
            with suppress(OSError):  # another process was faster
                Path(room, "data").rename(ready)
    return ready


def _listens(port: int) -> bool:
    try:
        create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    with running(Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else None) as address:
        print(address, flush=True)
        signal.sigwait([signal.SIGINT, signal.SIGTERM])
