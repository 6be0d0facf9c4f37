"""Heritrix 3 from Maven's jars, and the site on loopback that it crawls."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import threading
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

from tests.support import free_port

POM = Path(__file__).parent / "pom.xml"
PROFILE = "org/archive/crawler/restlet/profile-crawler-beans.cxml"
HOSTS = 4
PAGES = 1_000
"""Pages of each host: the page n links to 2n + 1 and 2n + 2, and the first one to the next host."""


def classpath(folder: Path) -> str:
    """Return the class path of Heritrix, fetched by Maven. Raises LookupError without Java, Maven or a registry."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise LookupError(f"{program} is not installed; Heritrix needs Java 17, and Maven to fetch it")
    file = folder / "classpath"
    command = ["mvn", "-B", "-q", "-f", str(POM), "dependency:build-classpath", f"-Dmdep.outputFile={file}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LookupError(f"Maven could not fetch Heritrix: {done.stdout[-500:]}")
    return file.read_text()


def profile(jars: str) -> str:
    """Return the default profile within the published jar."""
    jar = next(each for each in jars.split(":") if "heritrix-engine" in each)
    with zipfile.ZipFile(jar) as archive:
        return archive.read(PROFILE).decode()


class Site:
    """A site on HOSTS addresses of the loopback network, that counts who asks for what."""

    def __init__(self) -> None:
        self.asked: dict[str, list[str]] = defaultdict(list)
        """The URLs that were asked for, by the first word of User-Agent that ends with "/" and a number."""
        self._servers: list[ThreadingHTTPServer] = []

    @contextmanager
    def served(self) -> Iterator[list[str]]:
        """Serve the site, and yield the URL of the first page of each host."""
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        first = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = first.server_port
        self._servers = [first]
        self._servers += [ThreadingHTTPServer((f"127.0.0.{n}", self.port), Handler) for n in range(2, HOSTS + 1)]
        threads = [threading.Thread(target=server.serve_forever, daemon=True) for server in self._servers]
        for thread in threads:
            thread.start()
        try:
            yield [f"http://127.0.0.{n}:{self.port}/" for n in range(1, HOSTS + 1)]
        finally:
            for server in self._servers:
                server.shutdown()
                server.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        host = str(request.server.server_address[0])  # type: ignore[index]
        agent = re.search(r"\w+(?=/\d+\.)(?<!Mozilla)", request.headers.get("User-Agent", ""))
        self.asked[agent[0] if agent else "?"].append(f"http://{host}:{self.port}{request.path}")
        number = re.fullmatch(r"/(?:(\d+)-\w+\.html)?", request.path)
        if request.path == "/robots.txt":
            body, kind = b"User-agent: *\nDisallow: /private/\n", "text/plain"
        elif request.path == "/style.css":
            body, kind = b"body { margin: 0 }\n", "text/css"
        elif number:
            body, kind = self._page(int(number[1] or 0), int(host.rpartition(".")[2])), "text/html"
        else:
            request.send_error(404)
            return
        request.send_response(200)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def _page(self, number: int, host: int) -> bytes:
        links = [_path(n) for n in (2 * number + 1, 2 * number + 2) if n < PAGES]
        links += ["/missing.html", "/private/page.html"] if number == 7 else []
        links += [f"http://127.0.0.{host + 1}:{self.port}/"] if number == 0 and host < HOSTS else []
        anchors = "".join(f'<p><a href="{link}">page</a></p>' for link in links)
        head = '<link rel="stylesheet" href="/style.css">'
        return f"<html><head><title>page</title>{head}</head><body>{anchors}</body></html>".encode()


def _path(number: int) -> str:
    return f"/{number}-{hashlib.sha256(str(number).encode()).hexdigest()}.html"


def write_job(folder: Path, beans: str, seeds: list[str]) -> None:
    """Write a job of the default profile, without delays and without a pause at its start."""
    folder.mkdir(parents=True)
    beans = re.sub(r"ENTER_AN_URL\w+", "http://operator.example/", beans)
    beans = beans.replace("http://example.example/example", "\n".join(seeds))
    own = "disposition.delayFactor=0\ndisposition.minDelayMs=0\ncrawlController.pauseAtStart=false\n"
    (folder / "crawler-beans.cxml").write_text(beans.replace("##..more?..##", own))


class Heritrix:
    """A process that runs one job of a folder of jobs."""

    def __init__(self, jars: str, jobs: Path, job: str) -> None:
        command = ["java", "-Xmx512m", "-cp", jars, "org.archive.crawler.Heritrix"]
        command += ["-a", "admin:admin", "-b", "127.0.0.1", "-p", str(free_port()), "-j", str(jobs), "-r", job]
        self._log = (jobs / f"{job}.out").open("w")
        self._process = subprocess.Popen(command, cwd=jobs, stdout=self._log, stderr=subprocess.STDOUT)
        self._job_log = jobs / job / "job.log"

    def is_finished(self) -> bool:
        """Whether the job has ended."""
        if self._process.poll() is not None:
            raise RuntimeError(f"Heritrix has ended: see {self._log.name}")
        return self._job_log.exists() and " FINISHED" in self._job_log.read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End the process at once, as a crash does."""
        self._process.kill()
        self._process.wait()
        self._log.close()


def wait(done: Callable[[], bool], seconds: float = 300) -> None:
    """Wait until a function returns True. Raises TimeoutError."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds:.0f} s")
        time.sleep(0.05)
