"""Crawl real documentation beside wget: `python -m tests.sites` (or `make sites`).

Tells every page that one of them finds and the other does not. Needs nginx, wget, python3-doc, postgresql-doc and
git-doc, as Debian packages them.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.sites.comparing import compare, different
from tests.sites.serving import SETS, installed


def main() -> int:
    """Parse the arguments and compare; 1 if wget found what ours did not, or ours asked for something twice."""
    parser = argparse.ArgumentParser(prog="python -m tests.sites", description=__doc__)
    parser.add_argument("sets", nargs="*", default=list(SETS), help=f"of {', '.join(SETS)} (default: all)")
    parser.add_argument("--keep", type=Path, help="a new folder for what both have written (default: removed)")
    options = parser.parse_args()
    try:
        sets = installed(*options.sets)
    except LookupError as e:
        sys.exit(str(e))
    folder = options.keep or Path(tempfile.mkdtemp(prefix="sites-"))
    folder.mkdir(exist_ok=True)
    try:
        wget, ours = compare(folder.resolve(), sets)
    finally:
        if not options.keep:
            shutil.rmtree(folder)
    for name, found in (("wget --mirror", wget), ("budgetfrontier crawl", ours)):
        print(f"{name}: {len(found.good):,} found, {len(found.archived):,} in the WARC files, {found.seconds:.1f} s")
    for one in sets:
        count = sum(url.startswith(one.host + "/") for url in ours.good)
        print(f"  {one.host}: {count:,} from {one.folder}")
    problems = [("wget found", sorted(wget.good - ours.good)), ("asked for twice:", ours.twice)]
    problems += [("not in the WARC files as wget has it:", different(wget, ours))]
    for what, urls in [*problems, ("(more than wget)", sorted(ours.good - wget.good))]:
        for url in urls:
            print(f"{what} {url}")
    return 1 if any(urls for _, urls in problems) else 0


if __name__ == "__main__":
    sys.exit(main())
