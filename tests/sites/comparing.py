"""`wget --mirror` and `budgetfrontier crawl` on the same sites: what each found, by the server's log and its WARCs."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from warcio.archiveiterator import ArchiveIterator

from budgetfrontier import Settings
from tests.crawler.site import run
from tests.sites.serving import DOMAIN, HUB, Documentation, Nginx, Visit
from tests.support import PATIENCE

WGET, OURS = "wget", "ours (+https://docs.test/bot)"


@dataclass(frozen=True)
class Found:
    """What one of them did. URLs are without their scheme; robots.txt is not among them."""

    asked: Counter[str]
    """How often each URL was asked for."""
    good: frozenset[str]
    """Those that exist."""
    archived: dict[str, str]
    """Of those, what the WARC files hold: the digest of what was sent."""
    seconds: float

    @property
    def twice(self) -> list[str]:
        """What was asked for more than once."""
        return sorted(url for url, count in self.asked.items() if count > 1)


def compare(folder: Path, sets: Sequence[Documentation]) -> tuple[Found, Found]:
    """Serve the sets, and let first wget and then ours find them. Raises AssertionError if one of them fails."""
    with Nginx(folder / "nginx", sets) as nginx:
        begin = time.monotonic()
        wget(folder / "wget", nginx.address)
        middle = time.monotonic()
        ours(folder / "job", nginx.address)
        end = time.monotonic()
        visits = nginx.visits()
    return (
        _found(WGET, visits, list(folder.glob("wget/*.warc.gz")), middle - begin),
        _found(OURS, visits, list(folder.glob("job/warcs/*.warc.gz")), end - middle),
    )


def different(wget: Found, ours: Found) -> list[str]:
    """What ours found and its WARC files do not hold, or hold otherwise than those of wget do."""
    return sorted(
        url
        for url in ours.good
        if url not in ours.archived or ours.archived[url] != wget.archived.get(url, ours.archived[url])
    )


def wget(folder: Path, address: str) -> None:
    """Mirror everything below `DOMAIN`; nginx is its proxy, which saves telling the system of the host names."""
    folder.mkdir()
    command = ["wget", "--no-config", "--no-hsts", "--no-verbose", f"--user-agent={WGET}", "--tries=2", "--timeout=300"]
    command += ["--execute=use_proxy=on", f"--execute=http_proxy=http://{address}"]
    command += ["--mirror", "--page-requisites", "--span-hosts", f"--domains={DOMAIN}"]
    command += ["--directory-prefix=files", "--warc-file=wget", HUB]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=10 * PATIENCE, check=False)
    assert ended.returncode in (0, 8), ended.stderr  # 8: some links lead nowhere


def ours(folder: Path, address: str) -> None:
    """Crawl everything below `DOMAIN`."""
    settings = Settings.from_dict(
        {
            "seeds": [HUB],
            "scope": {"accept": [f"domain:{DOMAIN}"], "max_hops": -1},
            "frontier": {"politeness": {"delay_factor": 0, "min_delay": 0, "per_queue_concurrency": 4}},
            "fetch": {"user_agent": OURS, "resolve": {f"*{DOMAIN}": address}},
            "output": {"warc": True},
            "limits": {"max_time": "1h"},
        }
    )
    code, said = run(settings, folder)
    assert code == 0, said


def _found(agent: str, visits: list[Visit], warcs: list[Path], seconds: float) -> Found:
    mine = [visit for visit in visits if visit.agent == agent and not visit.url.endswith("/robots.txt")]
    good = frozenset(visit.url for visit in mine if visit.status == 200)
    archived = {url: digest for path in warcs for url, digest in _responses(path) if url in good}
    return Found(Counter(visit.url for visit in mine), good, archived, seconds)


def _responses(path: Path) -> Iterator[tuple[str, str]]:
    """(URL, digest) of the pages in a WARC file, those too whose content is another's: revisit records are for them."""
    with path.open("rb") as file:
        for record in ArchiveIterator(file):
            if record.rec_type in ("response", "revisit"):
                uri = record.rec_headers.get_header("WARC-Target-URI").strip("<>")  # wget puts it into brackets
                yield uri.removeprefix("http://"), record.rec_headers.get_header("WARC-Payload-Digest")
