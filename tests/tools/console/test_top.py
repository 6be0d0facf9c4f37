"""The screen of `top` at several widths, what its keys do, and how it leaves a real terminal."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console, Group

from budgetfrontier import CrawlUri, Frontier, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.reports.wrong_now import PresentProblem
from budgetfrontier.storage.queue_listing import queues
from budgetfrontier.storage.series import SeriesRow
from budgetfrontier.tools.cli import main
from budgetfrontier.tools.console.forms import SubmittedCommand
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.top_controls import Controls, Mode, split_keys
from budgetfrontier.tools.console.top_reading import JobReading
from budgetfrontier.tools.console.top_view import last_hour, screen, spark
from tests.engine_process import running_engine
from tests.support import PATIENCE, until

HOSTILE = "evil\x1b[2J\u202e\x9b1A-a-key-that-is-longer-than-a-narrow-terminal-is-wide-and-goes-on.example"


@pytest.fixture
def hostile(job: Path) -> Path:
    """The job of the console's tests, with a queue whose key and URL try to move the cursor."""
    with Frontier.open(job / "frontier") as frontier:
        frontier.schedule_many(CrawlUri(f"http://evil.test/{n}", queue=HOSTILE) for n in range(60))
    return job


def drawn(folder: Path, controls: Controls, *, width: int, height: int = 24, listed: bool = True) -> list[str]:
    """The lines of one screen, as rich writes them to a terminal."""
    job = ConsoleJob("", folder, folder / "frontier")
    try:
        shown = JobReading(job).read()
        if listed:
            with job.view() as view:
                shown.rows, shown.as_of = list(queues(view)), shown.now
            controls.show([queue.queue for queue in shown.rows])
        shown.opened = JobReading(job).opened(controls)
        console = Console(record=True, width=width, height=height, file=io.StringIO(), color_system=None)
        console.print(Group(*screen(shown, controls, width=width, height=height)))
        return console.export_text().splitlines()
    finally:
        job.close()


@pytest.mark.parametrize(("width", "height"), [(40, 10), (30, 8), (60, 11), (80, 12)])
def test_a_low_screen_has_the_verdict_and_queues(job: Path, width: int, height: int) -> None:
    lines = drawn(job, Controls(), width=width, height=height)
    assert any("No process" in line for line in lines) and any("Queues by" in line for line in lines)
    assert any(line.startswith("snoo") for line in lines), lines


def test_the_lowest_screen_has_the_verdict(job: Path) -> None:
    lines = drawn(job, Controls(), width=20, height=5)
    assert "No process runs this" in " ".join(line.strip() for line in lines[1:4]), lines


@pytest.mark.parametrize("mode", [Mode.LIST, Mode.QUEUE, Mode.HELP, Mode.FILTER, Mode.REASON, Mode.CONFIRM])
@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50), (20, 5), (1, 1)])
def test_a_screen_fits_its_terminal_and_nothing_in_it_moves_the_cursor(
    hostile: Path, mode: Mode, width: int, height: int
) -> None:
    controls = Controls(mode=mode, key=HOSTILE, typed="why \x1b[2J" * 40, message="\x1b]0;title\x07")
    lines = drawn(hostile, controls, width=width, height=height)
    assert len(lines) == height and max(map(len, lines)) <= width
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("width", [80, 200])
def test_the_overview(hostile: Path, width: int) -> None:
    lines = drawn(hostile, Controls(), width=width)
    text = "\n".join(lines)
    assert lines[0].startswith("resting  RUNNING")
    assert "No process runs this crawl" in text and "last commit" in text and "RETIRED 2" in text
    assert "Queues by spend, as of " in text and "evil\\x1b[2J" in text and "snoozed.test" in text
    assert ("enqueued" in text) is (width == 200)  # there is room for it
    assert "! 1 dead letter" in text and "the crawl. When the crawl ends is not known" in " ".join(text.split())
    assert lines[-1].startswith("p pause  s sort  / filter")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (40, 20)])
def test_the_help_is_whole(job: Path, width: int, height: int) -> None:
    lines = drawn(job, Controls(mode=Mode.HELP), width=width, height=height)
    words = " ".join(" ".join(lines).split())
    assert "whether you mean it s sort" in words and "at most once a minute." in words
    assert not any("…" in line for line in lines[:-1])


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (40, 20)])
def test_a_usual_screen_has_the_forecast_warnings_budgets_and_queues(job: Path, width: int, height: int) -> None:
    lines = drawn(job, Controls(), width=width, height=height)
    words = " ".join(" ".join(lines).split())
    assert "the crawl. When the crawl ends is not known" in words
    assert "! 40% of the queues are RETIRED, 1 of them by an operator." in words
    assert height < 24 or "URIs that have failed for good." in words
    below = lines[next(at for at, line in enumerate(lines) if line.startswith("Queues by")) + 1 : -1]
    assert len(below) >= 5 and below[0].split()[:4] == ["queue", "state", "queued", "spent"]
    assert ("budget" in below[0]) is (width >= 80) and not any("…" in line for line in below)


def test_warnings_that_leave_no_room_for_queues_are_cut_with_words(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [PresentProblem("dead_letters", "good", f"warning {n}") for n in range(20)]
    monkeypatch.setattr("budgetfrontier.tools.console.top_reading.wrong_now", lambda *args: many)
    lines = drawn(job, Controls(), width=80)
    at = lines.index("… A higher terminal has the rest.")
    assert lines[at + 1].startswith("Queues by") and lines[at + 7].startswith("p pause") and "! warning 0" in lines


def test_an_open_queue_says_why_it_is_not_crawled(hostile: Path) -> None:
    text = "\n".join(drawn(hostile, Controls(mode=Mode.QUEUE, key="capped.test"), width=200, height=40))
    assert "Queue capped.test" in text and "RETIRED" in text and "http://capped.test/1" in text and "budget" in text
    assert "no such queue" in "\n".join(drawn(hostile, Controls(mode=Mode.QUEUE, key="gone.test"), width=80))


def test_an_open_queue_shows_its_next_uris_on_a_usual_terminal(job: Path) -> None:
    for key in "capped.test", "snoozed.test":
        text = "\n".join(drawn(job, Controls(mode=Mode.QUEUE, key=key), width=80))
        assert f"http://{key}/" in text.partition("next URIs")[2], text


def test_rates_of_the_last_hour_leave_out_the_time_without_a_process() -> None:
    rows = [
        SeriesRow(1000.0, succeeded=100),
        SeriesRow(1060.0, succeeded=160),
        SeriesRow(3000.0, True, succeeded=160, run=1),
        SeriesRow(3060.0, succeeded=280, run=1),
    ]
    rates, curve = last_hour(rows, 3100.0)
    assert rates["fetched"] == 1.5 and rates["spent"] == 0
    minutes = [round(rate, 2) for rate in curve if rate]
    assert minutes == [1.0, 1.33, 0.67], "a minute in which it ran for a part counts as a whole one"
    assert last_hour([], 3100.0)[0] == {}
    assert spark([0.0, 0.01, 1.0]) == " ▁█" and spark([]) == ""


def test_rows_that_alternate_because_the_clock_was_set_back_count_once() -> None:
    rows = [
        SeriesRow(60.0 * n + 30 * run, n == 0, succeeded=90 * run + 10 * n, run=run + 1)
        for n in range(10)
        for run in range(2)
    ]
    rates, _ = last_hour(rows, 600.0)
    assert rates["fetched"] == pytest.approx(10 / 60)


def test_keys_are_told_from_what_terminals_send() -> None:
    assert split_keys("s\x1b[A\x1bOB\x1b[5~\r") == (["s", "up", "down", "page up", "enter"], "")
    assert split_keys("\x1b[15;2~q\x01ä") == (["q", "ä"], "")  # a sequence that is not known, a control character
    for begun in ("\x1b", "\x1b[", "\x1bO", "\x1b[5"):
        assert split_keys("q" + begun) == (["q"], begun)


def typed(controls: Controls, *keys: str) -> object:
    """What the last of these keys gives; longer texts are typed."""
    given: object = None
    for key in keys:
        given = controls.press(key)
    return given


def asked(controls: Controls) -> str:
    """The mode, as a text."""
    return str(controls.mode)


def test_pausing_needs_a_reason_and_a_confirmation() -> None:
    controls = Controls()
    assert typed(controls, "p", "enter", "enter") is None and asked(controls) == "reason"
    assert typed(controls, *"q p", "enter") is None and asked(controls) == "confirm" and not controls.quits
    assert typed(controls, "enter") is None and "nothing was changed" in controls.message
    assert typed(controls, "p", *"busy", "enter", "y") == SubmittedCommand("pause", {"reason": "busy"}, "busy")
    controls.paused = True
    assert typed(controls, "p", *"idle", "enter", "y") == SubmittedCommand("resume", {}, "idle")
    assert typed(controls, "p", "escape", "?", "q") is None and controls.quits


def test_the_mark_moves_through_a_long_list_and_back() -> None:
    controls = Controls(room=3)
    controls.show(["a", "b", "c"])
    typed(controls, "down", "down", "down")
    assert (controls.start, controls.selected) == (1, 3)
    controls.show(["b", "c"])  # there are no more
    assert controls.selected == 2
    typed(controls, "enter")
    assert (controls.mode, controls.key) == (Mode.QUEUE, "c")
    typed(controls, "escape", "home")
    assert (controls.mode, controls.start, controls.selected) == (Mode.LIST, 0, 0)
    typed(controls, "/", *"ex", "backspace", "enter")
    assert controls.filter == "e"
    typed(controls, "escape", "s")
    assert (controls.filter, controls.sort) == ("", "queued")


def test_what_is_piped_is_printed_once(hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", str(hostile)]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text and text.replace("\n", "").isprintable()
    for title in ("Queues by spend", "Queues by size", "Queues by errors"):
        assert f"{title}, as of" in text
    assert "goes-on.example" in text  # nothing is cut


def test_without_rich_the_extra_is_named(
    job: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("budgetfrontier.tools.console.top_")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("rich", "rich.console", "rich.text"):
        monkeypatch.setitem(sys.modules, name, None)
    assert main(["top", str(job)]) == 1
    assert 'extra "console"' in capsys.readouterr().err


class Screen:
    """A `top` on a pseudo-terminal, and what it has written."""

    def __init__(self, folder: Path, columns: int = 80, lines: int = 24) -> None:
        self.master, self.slave = pty.openpty()
        self.resize(columns, lines)
        self.before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "budgetfrontier", "top", str(folder)],
            stdin=self.slave, stdout=self.slave, stderr=self.slave, env=os.environ | {"TERM": "xterm", "COLUMNS": "30"},
        )  # fmt: skip
        self.written = ""
        self._known = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while not self.written.endswith("\0end"):
            try:
                part = os.read(self.master, 1 << 16)
            except OSError:
                return
            self.written += part.decode(errors="replace")

    def resize(self, columns: int, lines: int) -> None:
        """Change the size of the terminal."""
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    @property
    def text(self) -> str:
        """What was written of late, without colours and moves."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.written[self._known :])

    def forget(self) -> None:
        """Look only at what is written from now on."""
        self._known = len(self.written)

    def shows(self, text: str) -> None:
        """Wait until a text is shown."""
        until(lambda: text in self.text, self.process)

    def press(self, keys: str) -> None:
        """Press keys, and forget what was written before."""
        self.forget()
        os.write(self.master, keys.encode())

    def ends(self, code: int) -> None:
        """Wait for the end; the terminal is as it was."""
        assert self.process.wait(PATIENCE) == code
        os.write(self.slave, b"\0end")
        self._reader.join(PATIENCE)
        assert termios.tcgetattr(self.slave) == self.before
        for on, off in (("\x1b[?25l", "\x1b[?25h"), ("\x1b[?1049h", "\x1b[?1049l")):
            assert 0 <= self.written.rfind(on) < self.written.rfind(off)
        assert "Traceback" not in self.written


@contextmanager
def on_screen(folder: Path) -> Iterator[Screen]:
    """A `top` that is ended with the test."""
    shown = Screen(folder)
    try:
        yield shown
    finally:
        if shown.process.poll() is None:
            shown.process.kill()
        shown.process.wait()
        os.close(shown.slave)
        os.close(shown.master)


def test_the_keys_on_a_terminal(hostile: Path) -> None:
    with on_screen(hostile) as top:
        top.shows("Queues by spend, as of")
        top.press("s")
        top.shows("Queues by size")
        top.press("/capp\r")
        top.shows('with "capp"')
        top.press("\r")
        top.shows("Queue capped.test")
        top.press("\x1b")
        top.shows("Queues by size")
        top.press("?")
        top.shows("sort the queues by the next amount")
        top.press("pit is late\ry")
        top.shows("RUNNING -> PAUSED")
        with Reader(hostile / "frontier") as reader:
            entry = reader.audit(1)[0]
        assert (entry.command, entry.reason) == ("pause", "it is late")
        top.press("q")
        top.ends(0)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGHUP, -1)])
def test_a_signal_leaves_the_terminal_as_it_was(job: Path, number: signal.Signals, code: int) -> None:
    with on_screen(job) as top:
        top.shows("Queues by spend")
        top.process.send_signal(number)
        top.ends(code)


def test_ctrl_c_ends_it_also_while_something_is_typed(job: Path) -> None:
    with on_screen(job) as top:
        top.shows("Queues by spend")
        top.press("p")
        top.shows("reason:")
        top.press("\x03")
        top.ends(130)
    with Reader(job / "frontier") as reader:
        assert [entry.command for entry in reader.audit()] == ["retire"]


def test_ctrl_z_gives_the_terminal_back_until_it_goes_on(job: Path) -> None:
    with on_screen(job) as top:
        top.shows("Queues by spend")
        top.press("\x1a")
        _, status = os.waitpid(top.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status) and termios.tcgetattr(top.slave) == top.before
        until(lambda: top.written.endswith("\x1b[?1049l"))
        top.forget()
        top.process.send_signal(signal.SIGCONT)
        top.shows("Queues by spend")
        top.press("q")
        top.ends(0)


def test_a_running_crawl_is_paused_and_resumed_through_its_mailbox(job: Path) -> None:
    with running_engine(job) as pid, on_screen(job) as top:
        top.shows(f"pid {pid}")
        top.press("pbusy\ry")
        top.shows("RUNNING -> PAUSED")
        top.press("\x1b")
        top.shows("p resume")
        top.press("pidle\ry")
        top.shows("PAUSED -> RUNNING")
        top.press("q")
        top.ends(0)


def test_a_terminal_is_resized_and_a_job_removed_and_brought_back(job: Path) -> None:
    with on_screen(job) as top:
        top.shows("Queues by spend, as of")
        assert "enqueued" not in top.text  # COLUMNS is that of the terminal at the start
        top.forget()
        top.resize(200, 50)
        top.process.send_signal(signal.SIGWINCH)
        top.shows("enqueued")
        away = job.with_name("away")
        shutil.move(job, away)
        top.shows("is not there any more")
        top.forget()
        shutil.move(away, job)
        top.shows("Queues by spend")
        top.press("q")
        top.ends(0)


def test_no_snapshot_is_held_between_two_screens(job: Path) -> None:
    with on_screen(job) as top, Reader(job / "frontier") as reader:
        top.shows("Queues by spend, as of")
        readers = reader._last_commit.env.readers  # LMDB's table, which no public method shows

        def holds_snapshot(pid: int) -> bool:
            rows = [line.split() for line in readers().splitlines()]
            return any(row[0] == str(pid) and row[-1] != "-" for row in rows)

        with reader.view():
            assert holds_snapshot(os.getpid())
        until(lambda: not holds_snapshot(top.process.pid), top.process)
        top.press("q")
        top.ends(0)


def test_a_commit_ahead_of_the_clock_is_said_to_be_so(tmp_path: Path) -> None:
    """As after the clock was set back."""
    with Frontier.open(tmp_path / "frontier", clock=ManualClock(time.time() + 86_400)) as f:
        f.schedule("http://a.test/")
    assert "ahead of this clock" in "\n".join(drawn(tmp_path, Controls(), width=200)).partition("last commit")[2]
