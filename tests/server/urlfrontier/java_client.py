"""The published Java API of URLFrontier, as a client for tests; it needs a JDK, Maven, and the network once.

The jars and the compiled client are kept in a cache outside the repository.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message

from budgetfrontier.server.urlfrontier.methods import METHODS
from tests.installed import NotInstalled, run_installed
from tests.support import PATIENCE

VERSIONS: Final = {"2.3": "3.21.7", "2.5": "3.25.8"}
"""The versions of the API that are tested, each with the version of protobuf that it needs."""

_CLIENT = Path(__file__).with_name("Client.java")
_PROJECT = Path(__file__).parents[3] / "docs/examples/java_client/pom.xml"


class Answer(NamedTuple):
    """The replies to a call, and the status with which it ended."""

    replies: list[Any]
    code: str
    details: str


class JavaClient:
    """A client in a process of its own; it makes one call at a time."""

    def __init__(self, classpath: str, address: str) -> None:
        command = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", classpath, "Client", *address.rsplit(":", 1)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def call(
        self,
        rpc: str,
        *requests: Message,
        deadline: int = int(PATIENCE),
        metadata: Mapping[str, str] | None = None,
        take: int | None = None,
    ) -> Answer:
        """Make a call with these requests, and return its replies as messages of ours.

        `deadline` is in seconds; after `take` replies, the client cancels the call.
        """
        wanted = {
            "rpc": rpc,
            "requests": [MessageToDict(request) for request in requests],
            "deadline": deadline,
            "metadata": metadata or {},
            "take": take,
        }
        answer = json.loads(self._ask(json.dumps(wanted)))
        replies = [ParseDict(reply, METHODS[rpc].reply()) for reply in answer["replies"]]
        return Answer(replies, answer["code"], answer.get("details") or "")

    def definition(self) -> FileDescriptorProto:
        """Return the definition of the interface that the jars hold."""
        return FileDescriptorProto.FromString(base64.b64decode(self._ask("descriptor")))

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=PATIENCE)

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        if not (answer := self._process.stdout.readline()):
            raise RuntimeError(f"the Java client failed, with status {self._process.wait(PATIENCE)}")
        return answer


@contextmanager
def connected(version: str, address: str) -> Iterator[JavaClient]:
    """Yield a client made of a version of the jars. Raises `NotInstalled`."""
    client = JavaClient(classpath(version), address)
    try:
        yield client
    finally:
        client.close()


def classpath(version: str) -> str:
    """Return the classpath of the client, fetched and compiled if the cache has it not. Raises `NotInstalled`."""
    if shutil.which("java") is None:
        raise NotInstalled("java is not installed (.ci/system-packages installs it)")
    digest = hashlib.sha256(_CLIENT.read_bytes() + _PROJECT.read_bytes()).hexdigest()[:16]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "budgetfrontier-tests", "urlfrontier")
    ready = folder / f"{version}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            _make(version, ready)
    return f"{ready}{os.pathsep}{ready / 'jars'}/*"


def _make(version: str, ready: Path) -> None:
    room = ready.with_suffix(".new")
    shutil.rmtree(room, ignore_errors=True)
    room.mkdir()
    definitions = [f"-Dapi={version}", f"-Dprotobuf={VERSIONS[version]}", f"-DoutputDirectory={room / 'jars'}"]
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
    run_installed("mvn", "--batch-mode", "--quiet", f"--file={_PROJECT}", *goal, *definitions)
    run_installed("javac", "-d", room, "-cp", f"{room / 'jars'}/*", _CLIENT)
    room.rename(ready)
