"""The synchronous clients, made from those for asyncio: `make sync` writes them anew.

Words and sentences of a source are replaced. A comment `# sync: CODE` is a line that the synchronous client alone has,
and a line that ends in `# async` one that it does not have.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "budgetfrontier"
FILES = {"remote/asynchronous.py": "remote/synchronous.py", "cluster/asynchronous.py": "cluster/client.py"}

PROPERTIES = ("state", "adjustments", "limit", "partitions", "router")
"""Coroutines that are properties of the synchronous client, as they are of `Frontier`."""
PROPERTY = re.compile(rf'^    (def (?:{"|".join(PROPERTIES)})\(self\).*\n {{8}}""")Return (\w)', re.MULTILINE)
SENTENCES = {
    "\n    It is for one event loop: use it with `async with`, or `await connect()` and `await close()`.\n": "",
    "A task that is cancelled while it waits for leases loses none.": (
        "A call by a signal handler or `__del__` in the middle of another in the same thread raises FrontierBusy."
    ),
    "Tasks may share": "Threads may share",
    "The asyncio client": "The synchronous client",
}
WORDS = {
    r"\basync (def|with|for)\b": r"\1",
    r"\bawait ": "",
    r"\b__a(enter|exit)__\b": r"__\1__",
    r"\bAsync([A-Z]\w+)\b": r"\1",
    r"\basync_(\w+)\b": r"\1",
    r"^.*  # async\n": "",
    r"^( *)# sync: ": r"\1",
}


def synchronous(source: str) -> str:
    """Return the synchronous client that is made from a file in the package."""
    text = (PACKAGE / source).read_text(encoding="utf-8")
    for sentence, ours in SENTENCES.items():
        text = text.replace(sentence, ours)
    for pattern, replacement in WORDS.items():
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    text = PROPERTY.sub(lambda found: f"    @property\n    {found[1]}{found[2].upper()}", text)
    text = text.replace("\n", f"\n\n# Generated from {source} by `make sync`: change that file.\n", 1)
    for command in (["check", "--select", "I", "--fix", "--quiet"], ["format", "--quiet"]):
        ruff = ["ruff", *command, "--stdin-filename", str(PACKAGE / FILES[source]), "-"]
        done = subprocess.run([sys.executable, "-m", *ruff], input=text, capture_output=True, text=True, check=True)
        text = done.stdout
    return text


def main() -> int:
    """Write the synchronous clients, or with --check say which are not as they would be written."""
    different = [
        source
        for source, target in FILES.items()
        if not (PACKAGE / target).exists() or (PACKAGE / target).read_text(encoding="utf-8") != synchronous(source)
    ]
    for source in different:
        if "--check" in sys.argv:
            print(f"budgetfrontier/{FILES[source]} is not what `make sync` makes of budgetfrontier/{source}")
        else:
            (PACKAGE / FILES[source]).write_text(synchronous(source), encoding="utf-8")
    return 1 if different and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
