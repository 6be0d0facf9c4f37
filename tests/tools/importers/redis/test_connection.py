"""What can be wrong with a URL, a server or a key, and a server that goes away."""

from __future__ import annotations

import datetime
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis

from budgetfrontier.core.endpoints import redis_url
from budgetfrontier.errors import FrontierError
from budgetfrontier.storage.reader import Reader
from budgetfrontier.tools.cli import importing
from budgetfrontier.tools.importers import redis as reader
from budgetfrontier.tools.importers.allowance import Allowance
from budgetfrontier.tools.importers.redis import connection
from tests.engine_process import running_engine
from tests.support import PATIENCE
from tests.tools.importers.redis.conftest import Job
from tests.tools.importers.redis.server import Redis, needs_server, started


@pytest.fixture
def urls(client: Any) -> Any:
    """A server with a list of 3,000 URLs, `urls`."""
    client.rpush("urls", *(f"http://a.test/{number}" for number in range(3000)))
    return client


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("redis://host:port/0", "the host or port is invalid"),
        ("redis://:sec/ret@host", "the host or port is invalid"),
        ("redis://:sec#ret@host", "the host or port is invalid"),
        ("redis://host/news", "what follows the host is not the number of a database"),
        ("redis://:12/secret@host", "what follows the host is not the number of a database"),
        ("redis://host?decode_responses=yes", "1 unknown option; known: db"),
        ("redis://:secret@ho st", "spaces and #"),
    ],
)
def test_a_url_that_is_wrong_is_not_quoted(job: Job, url: str, problem: str) -> None:
    assert job.import_(url).code == 2
    assert problem in job.err and "expected redis://[USER[:PASSWORD]@]HOST" in job.err
    assert not any(secret in job.err for secret in ("sec/ret", "sec#ret", "secret"))


def test_a_server_that_does_not_answer(job: Job) -> None:
    assert job.import_("redis://:secret@127.0.0.1:1/3").code == 1
    assert "redis://127.0.0.1:1/3: it cannot be reached (" in job.err and "secret" not in job.err


def test_a_server_without_tls_is_tried_once(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:  # takes connections, and never answers
        port = server.getsockname()[1]
        assert job.import_(f"rediss://127.0.0.1:{port}").code == 1
        assert job.err.endswith("did not answer within 0.1 s; if it has no TLS at this port, write redis:// instead\n")
        server.accept()[0].close()
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
        server.setblocking(True)
        monkeypatch.setattr(connection, "TIMEOUT", PATIENCE)
        answered: list[socket.socket] = []

        def answer() -> None:
            answered.append(server.accept()[0])
            answered[0].sendall(b"-ERR unknown command\r\n")

        with ThreadPoolExecutor() as pool:
            pool.submit(answer)
            assert job.import_(f"rediss://127.0.0.1:{port}").err.endswith(
                "it has no TLS at this port; write redis:// instead\n"
            )
        answered[0].close()


def test_another_scheme_is_refused_without_its_password(job: Job) -> None:
    assert job.import_("http+redis://:secret@127.0.0.1").code == 2
    assert "://:***@127.0.0.1: give http" in job.err


def test_a_key_is_for_redis_only(job: Job, tmp_path: Path) -> None:
    assert job.import_(tmp_path, "--key", "news").code == 2
    assert "--key is the name of a queue in Redis" in job.err


@needs_server
def test_passwords(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(redis_url.PASSWORD, raising=False)
    with started(tmp_path, "--requirepass", "sec/ret", tcp="port") as server:
        with redis.Redis(unix_socket_path=str(server.socket), password="sec/ret") as client:
            client.rpush("urls", "http://a.test/1", "http://a.test/2")
            client.execute_command("ACL", "SETUSER", "bob", "on", ">pw", "~other", "+@read", "+ping", "+type")
        address = f"127.0.0.1:{server.port}"
        for url in f"redis://{address}", f"redis://:wrong@{address}":
            assert job.import_(url, "--key", "urls").code == 1
            assert "it refuses the password, or wants one" in job.err and "wrong@" not in job.err
        assert job.import_(f"redis://bob:pw@{address}", "--key", "urls").code == 1
        assert "its user may not do that" in job.err
        assert job.import_(f"redis://:sec%2Fret@{address}", "--key", "urls").out.startswith("added 2,")
        assert "secret" not in job.out + job.err and "sec%2Fret" not in job.err
        monkeypatch.setenv(redis_url.PASSWORD, "sec/ret")
        assert job.import_(f"redis://{address}", "--key", "urls").out.startswith("added 0, duplicate 2,")


@needs_server
def test_a_password_in_the_command_line_is_not_kept_in_the_audit(job: Job, tmp_path: Path) -> None:
    with started(tmp_path, "--requirepass", "secret") as server, running_engine(job.folder):
        with redis.Redis(unix_socket_path=str(server.socket), password="secret") as client:
            client.rpush("urls", "http://a.test/1")
        assert job.import_(f"unix://:secret@{server.socket}", "--key", "urls").code == 0
    with Reader(job.folder / "frontier") as frontier:
        (line,) = {entry.line for entry in frontier.audit() if entry.line}
    assert f" unix://:***@{server.socket} --key urls" in line.replace("'", "")


def certificate(folder: Path, host: str) -> tuple[Path, Path]:
    """A certificate of its own for a host, and its key, as files."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(private)
    return folder / "cert.pem", folder / "key.pem"


@needs_server
def test_tls_checks_who_answers(job: Job, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, "localhost")
    files = ["--tls-cert-file", str(cert), "--tls-key-file", str(key), "--tls-ca-cert-file", str(cert)]
    with started(tmp_path, *files, "--tls-auth-clients", "no", tcp="tls-port") as server:
        with redis.Redis(unix_socket_path=str(server.socket)) as client:
            client.rpush("urls", "http://a.test/")
        for address, query, problem in (
            (f"localhost:{server.port}", "", "self-signed certificate"),
            (f"127.0.0.1:{server.port}", f"?ssl_ca_certs={cert}", "127.0.0.1"),
        ):
            assert job.import_(f"rediss://{address}/0{query}", "--key", "urls").code == 1
            assert "it cannot be reached (" in job.err and problem in job.err
        assert job.import_(f"redis://localhost:{server.port}").code == 1
        assert job.err.endswith("if it has TLS at this port, write rediss:// instead\n")
        url = f"rediss://localhost:{server.port}/0?ssl_ca_certs={cert}"
        assert job.import_(url, "--key", "urls").out.startswith("added 1,")


@needs_server
def test_keys_of_other_types_and_names(client: Any, server: Redis, job: Job) -> None:
    assert job.import_(server.url).code == 1 and "no pending queue of scrapy-redis, kumo or qcrawl was found" in job.err
    assert job.import_(server.url, "--key", "news").code == 1 and "there is no queue news" in job.err
    client.set("news:requests", "text")
    client.hset("hash", "a", "b")
    assert job.import_(server.url).code == 1
    assert job.import_(server.url, "--key", "news").code == 1
    assert "news:requests is a string; expected: a sorted set or a list" in job.err
    assert job.import_(server.url, "--key", "hash").code == 1 and "hash is a hash; expected: a list" in job.err
    assert job.import_(server.url, "--key", "hash", "--from", "heritrix").code == 1
    assert job.import_(server.url, "--from", "list").code == 1 and "--key names the list" in job.err
    assert not job.urls()


@needs_server
def test_of_several_queues_one_is_to_be_named(client: Any, server: Redis, job: Job) -> None:
    client.lpush("news:requests", b'{"url": "http://news.test/"}')
    client.lpush("blogs:start_urls", "http://blogs.test/")
    client.sadd("done:dupefilter", "0" * 40)
    assert job.import_(server.url).code == 1
    assert "it has 2 queues; choose one: --from scrapy --key blogs (start_urls 1); " in job.err
    assert "--from scrapy --key news (requests 1)" in job.err
    assert job.import_(server.url, "--key", "news").code == 0 and job.urls() == ["http://news.test/"]
    assert job.import_(server.url, "--key", "blogs:start_urls").code == 0 and len(job.urls()) == 2


@needs_server
def test_a_dry_run_counts_and_changes_nothing(urls: Any, server: Redis, job: Job) -> None:
    urls.rpush("urls", "nonsense")
    job.import_(server.url, "--key", "urls", "--dry-run")
    assert job.out == "dry run, nothing was changed: 3,000 can be imported, invalid 1 (scheme 1)\n", job.out
    job.import_(server.url, "--key", "urls", "--dry-run", "--seen", "--format", "json")
    assert json.loads(job.out) == {"readable": 3000, "seen": 3000, "invalid": 1, "reasons": {"scheme": 1}}
    assert not job.urls()


@needs_server
def test_a_long_import_says_how_far_it_is(urls: Any, server: Redis, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "PROGRESS_INTERVAL", 0.0)
    job.import_(server.url, "--key", "urls")
    assert f"{server.url}: 2,500 so far\n" in job.err


@needs_server
def test_a_server_that_goes_away_leaves_what_was_imported(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = reader.bounded_reads.linked_list

    def dying(client: Any, key: str, **options: Any) -> Iterator[bytes]:
        for number, value in enumerate(read(client, key, **options)):
            if number == 1500:
                server.process.kill()
                server.process.wait()
            yield value

    monkeypatch.setattr(reader.bounded_reads, "linked_list", dying)
    urls = [f"http://a.test/{number}" for number in range(5000)]
    with started(tmp_path) as server, redis.Redis(unix_socket_path=str(server.socket)) as client:
        client.rpush("urls", *urls)
        job.import_(server.url, "--key", "urls")
    imported = len(job.urls())
    assert job.code == 1 and 1500 < imported < 5000 and job.out.startswith(f"added {imported:,},")
    assert "it cannot be reached" in job.err and "only a part of it could be read; that part was imported" in job.err
    monkeypatch.setattr(reader.bounded_reads, "linked_list", read)
    (tmp_path / "s").unlink(missing_ok=True)
    with started(tmp_path) as server, redis.Redis(unix_socket_path=str(server.socket)) as client:
        client.rpush("urls", *urls)
        assert job.import_(server.url, "--key", "urls").code == 0
    assert job.out == f"added {5000 - imported:,}, duplicate {imported:,}, full 0, invalid 0\n"


@needs_server
def test_a_queue_that_changes_meanwhile_is_told(urls: Any, server: Redis) -> None:
    items = reader.read(server.url, None, "urls", Allowance())
    first = next(items)
    urls.rpush("urls", "http://late.test/")
    found = list(items)
    assert "urls 3,000" in str(first)
    assert "it has changed meanwhile (now urls 3,001)" in str(found[-1]) and "http://late.test/" in str(found[-2])


def test_only_reading_commands_are_used() -> None:
    """The other commands would block a live server, or change it."""
    source = "".join(path.read_text(encoding="utf-8") for path in Path(reader.__file__).parent.glob("*.py"))
    for name in (".keys(", ".delete(", "pop(", ".rename(", ".copy(", ".eval(", ".set(", ".smembers(", ".hgetall("):
        assert f"client{name}" not in source
    with pytest.raises(FrontierError):
        next(reader.read("redis://127.0.0.1:1", "heritrix", None, Allowance()))
