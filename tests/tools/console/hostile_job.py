"""A job with hostile text wherever somebody else's text may come: keys, URLs, reasons, names, logs."""

from __future__ import annotations

import json
import time
from pathlib import Path

import msgspec

from budgetfrontier import CrawlUri, Frontier, Outcome, Settings
from budgetfrontier.reports.alert_state import AlertDelivery, AlertFiles, AlertState
from budgetfrontier.rules.alert_conditions import RaisedAlert

MARK = "data-hit"
_RUN = f"document.documentElement.setAttribute('{MARK}','1')"

TEXTS = (
    f"<script>{_RUN}</script>",
    f'"><img src=x onerror="{_RUN}">',
    f'\'><svg onload="{_RUN}">',
    f'</title></textarea></pre><iframe srcdoc="<script>parent.{_RUN}</script>">',
    f"javascript:{_RUN}",
    "{{ 7 * 191 }}{% raw %}",
    "\u202egnp.exe\u202c \u2066\u200b",
    "a\x1b]0;title\x07\r\nSet-Cookie: x=y\x00",
    "שלום/עולם",
    "&lt;b&gt; &#60; &amp;",
    "x" * 100_000,
)
KEYS = [text.replace("\0", "")[:120] for text in TEXTS] + ["a/b", "..", ".", "a\\b", "%2f", "?", "#", "+ +"]
"""What queues are called."""


def make(folder: Path) -> None:
    """Write the job."""
    settings = {
        "crawl": TEXTS[0],
        "seeds": [{"url": "http://seed.test/?" + TEXTS[1], "source": TEXTS[2]}, "http://never.test/" + "y" * 100_000],
        "frontier": {"queue_total_budget": 2, "politeness": {"min_delay": 0, "max_delay": 0, "delay_factor": 0}},
        "overrides": [{"match": f"regex:{TEXTS[3][:50]}", "set": {"precedence": 1}}],
    }
    with Frontier.open(folder / "frontier", Settings.from_dict(settings)) as frontier:
        for at, key in enumerate(KEYS):
            text = TEXTS[at % len(TEXTS)]
            frontier.schedule_many(
                CrawlUri(f"http://h{at}.test/{n}/?{text}#{text}", via=f"http://v.test/{text}", source=text, queue=key)
                for n in range(6)
            )
        frontier.adjust(match="queues:" + json.dumps([KEYS[1], KEYS[2]]), precedence=1, reason=TEXTS[1], who=TEXTS[2])
        frontier.retire(KEYS[0], reason=TEXTS[0], who=TEXTS[1])
        for n, lease in enumerate(frontier.lease(12)):
            outcome = Outcome.DEAD if n % 2 else Outcome.FAILURE
            frontier.finish(lease, outcome, reason=TEXTS[n % len(TEXTS)])
        frontier.lease(8)
        frontier.commit()
        (folder / "logs").mkdir()
        (folder / "logs" / "crawl.log").write_bytes(
            "".join(f"2026 -2 - http://x/{text} - - - - - - - {text}\n" for text in TEXTS).encode() + b"\xff\xfe\n"
        )
        (folder / "logs" / f"{TEXTS[1].replace('/', '')}.log").write_text("x")
        _raise_alerts(folder)
        (folder / "reports").mkdir()
        (folder / "reports" / f"{TEXTS[2].replace('/', '')}.html").write_text(f"<script>{_RUN}</script>")


def _raise_alerts(folder: Path) -> None:
    """Write the state of alerts that nobody was told of, each for another reason."""
    now = time.time()
    raised = {f"condition{n}": RaisedAlert(level="bad", text=text, since=now) for n, text in enumerate(TEXTS)}
    reasons = ("exit code 7: curl: (7) Failed to connect to 127.0.0.1 port 9 after 0 ms: Connection refused", *TEXTS)
    deliveries = [
        AlertDelivery(
            id=str(n), sink=f"hook:{reason[:200]}", condition=f"condition{n % len(TEXTS)}", raised=True, time=now,
            about=raised["condition0"], attempts=1, error=reason,
        )
        for n, reason in enumerate(reasons)
    ]  # fmt: skip
    state = AlertState(looked=now, raised=raised, deliveries=deliveries)
    AlertFiles.of_job(folder).state.write_bytes(msgspec.json.encode(state))


if __name__ == "__main__":
    import sys

    make(Path(sys.argv[1]))
