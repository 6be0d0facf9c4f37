"""Heritrix crawls half of a site, is killed, and ours finishes: `python -m tests.heritrix` (or `make heritrix`).

Then each of them crawls the whole site. Both halves together have to be what each whole crawl has asked for. Needs
Java 17 and Maven, which fetches Heritrix.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.heritrix.peer import HOSTS, PAGES, Heritrix, Site, classpath, profile, wait, write_job

PROGRAM = [sys.executable, "-m", "budgetfrontier"]


def main() -> int:
    """Crawl, and print what was asked for; 1 if something is missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.heritrix", description=__doc__)
    parser.add_argument("--keep", type=Path, help="a new folder for the jobs (default: removed)")
    parser.add_argument("--after", type=int, default=HOSTS * PAGES // 2, help="kill Heritrix after so many requests")
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="heritrix-"))
    folder.mkdir(exist_ok=True)
    try:
        jars = classpath(folder)
        return compare(folder.resolve(), jars, options.after)
    except LookupError as error:
        sys.exit(str(error))
    finally:
        if not options.keep:
            shutil.rmtree(folder)


def compare(folder: Path, jars: str, after: int) -> int:
    """Return 1 if both halves together are not one whole crawl."""
    beans = profile(jars)
    halves, by_heritrix, by_us = Site(), Site(), Site()
    with halves.served() as seeds:
        write_job(folder / "half", beans, seeds)
        with Heritrix(jars, folder, "half"):
            wait(lambda: len(halves.asked["heritrix"]) >= after)
        finish(folder, folder / "half")
    first, second = pages(halves, "heritrix"), pages(halves, "budgetfrontier")
    with by_heritrix.served() as seeds:
        write_job(folder / "whole", beans, seeds)
        with Heritrix(jars, folder, "whole") as whole:
            wait(whole.is_finished)
    with by_us.served() as seeds:
        write_job(folder / "ours", beans, seeds)
        finish(folder, folder / "ours", journal=False)
    wholes = {"Heritrix": pages(by_heritrix, "heritrix"), "budgetfrontier": pages(by_us, "budgetfrontier")}
    again = len(first & second)
    print(f"Heritrix, killed: {len(first):,} URLs; budgetfrontier after it: {len(second):,}, {again:,} of them again")
    print(f"together: {len(first | second):,} of {HOSTS * (PAGES + 3):,}")
    failed = 0
    for name, asked in wholes.items():
        print(f"a whole crawl by {name}: {len(asked):,}")
        for what, urls in (("only the halves have", (first | second) - asked), ("missing:", asked - (first | second))):
            failed |= bool(urls)
            for url in sorted(urls)[:10]:
                print(f"  {what} {url}")
    return int(failed)


def pages(site: Site, agent: str) -> set[str]:
    """Return the paths and hosts that an agent has asked for, without the port and without robots.txt."""
    urls = {url.replace(f":{site.port}/", "/") for url in site.asked[agent]}
    return {url for url in urls if not url.endswith("/robots.txt")}


def finish(folder: Path, job: Path, *, journal: bool = True) -> None:
    """Migrate a job of Heritrix, and crawl what it has left."""
    config, ours = folder / f"{job.name}.yaml", folder / f"{job.name}-continued"
    run("init", "--heritrix", job, config)
    if not journal:
        run("crawl", config, "--job", ours)
        return
    crawl = subprocess.Popen([*PROGRAM, "crawl", str(config), "--job", str(ours), "--paused"])
    try:
        wait((ours / "frontier" / "data.mdb").exists)
        run("import", ours, job, code=None)  # 1: a killed Heritrix leaves a truncated journal
        run("resume", ours)
        crawl.wait()
    finally:
        if crawl.poll() is None:
            crawl.terminate()
            crawl.wait()


def run(*words: object, code: int | None = 0) -> None:
    """Run a command of this program."""
    done = subprocess.run([*PROGRAM, *map(str, words)], check=False)
    if code is not None and done.returncode != code:
        raise RuntimeError(f"{words[0]}: exit code {done.returncode}")


if __name__ == "__main__":
    sys.exit(main())
