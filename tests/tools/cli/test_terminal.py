"""Commands on a terminal: listings that fit into it, suggestions for what was mistyped, and completion by the shell."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from budgetfrontier import Frontier, RunEnd
from budgetfrontier.reports import kinds
from budgetfrontier.reports.alert_state import AlertDelivery, AlertFiles, AlertState
from budgetfrontier.rules.alert_conditions import RaisedAlert
from budgetfrontier.tools.cli import completion as completions
from budgetfrontier.tools.cli import main
from budgetfrontier.tools.cli.sentences import note, say
from tests.support import child_process
from tests.tools.cli.conftest import Cli

LONG = "a-very-long-name-of-a-host.in-the-archive-of-the-news.example"

ERROR = "[Errno 111] Connect call failed ('127.0.0.1', 8978)"


@pytest.fixture
def crowded(tmp_path: Path) -> Path:
    """A job with a long queue key, long URLs, large numbers, an audit entry, and an alert that was not delivered."""
    with Frontier.open(tmp_path / "job" / "frontier") as frontier:
        frontier.schedule_many(f"https://{LONG}/calendar/{n}/of/many/pages?with={n}&a=query" for n in range(12_345))
        frontier.retire(LONG, reason="the calendar has no end, and nobody needs its pages", who="alice")
        frontier.close(end=RunEnd.ERROR, reason=f"OSError: [Errno 5] Input/output error: /data/{LONG}/pages.jsonl")
    about = RaisedAlert(level="bad", text=f"The crawl is paused, and 12,345 URIs wait in {LONG}.", since=1e9)
    sent = AlertDelivery(
        id="1", sink=f"https://{LONG}/hook", condition=f"trap:{LONG}", raised=True, time=1e9, about=about, attempts=3,
        error=ERROR,
    )  # fmt: skip
    state = AlertState(looked=1e9, raised={f"trap:{LONG}": about}, deliveries=[sent])
    AlertFiles.of_job(tmp_path / "job").state.write_bytes(msgspec.json.encode(state))
    return tmp_path / "job"


def on_terminal(*arguments: object, columns: int, **environment: str) -> list[str]:
    """Run a command on a pseudo-terminal of this width, and return the lines of its stdout."""
    command = [sys.executable, "-m", "budgetfrontier", *map(str, arguments)]
    code, lines = printed_on_terminal(command, columns=columns, stderr=subprocess.DEVNULL, **environment)
    assert code == 0
    return lines


def printed_on_terminal(
    command: list[str], *, columns: int, stderr: int | None = None, **environment: str
) -> tuple[int, list[str]]:
    """Run a program on a pseudo-terminal; return its exit code, and the lines of stdout and, unless given, stderr."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = os.environ | {"TERM": "xterm"} | environment
    with child_process(command, stdout=slave, stderr=slave if stderr is None else stderr, env=environment) as process:
        os.close(slave)
        printed = b""
        try:
            while part := os.read(master, 1 << 16):
                printed += part
        except OSError:  # EIO: the other side is closed
            pass
        os.close(master)
        return process.wait(), printed.decode().splitlines()


PRINTED = [
    ["--help"],
    ["queues"],
    ["queues", "--help"],
    ["queues", "--state", "nosuch"],
    ["queues", "--match", "nosuch"],
    ["queue", LONG],
    ["queue", LONG, "--patterns"],
    ["queue", LONG[:-1]],
    ["explain", LONG],
    ["explain", f"https://{LONG}/calendar/0/of/many/pages?with=0&a=query"],
    ["audit"],
    ["audit", "--queue", LONG, "--operation", "retire"],
    ["audit", "--operation", "nosuch"],
    ["leases"],
    ["dead-letters"],
    ["dead-letters", "--drop", "9999"],
    ["report"],
    *(["report", "--kind", kind] for kind in kinds.KINDS[1:]),
    ["runs"],
    ["alerts"],
    ["alerts", "--deliveries"],
    ["removed"],
    ["statuses"],
    ["traps"],
    ["queues", "--over-budget"],
    ["adjust", "--total-budget", "10", "--dry-run"],
    ["adjust", "--match", "regex:calendar", "--set", "politeness.min_delay=3s", "--dry-run"],
    ["adjust", "--queues", f"{LONG},nosuch", "--total-budget", "10", "--dry-run"],
    ["adjust", "--list"],
    ["adjust"],
    ["delete", "--queue", LONG, "--dry-run"],
    ["delete", "--queue", "nosuch*", "--pattern", "calendar", "--dry-run"],
    ["undo", "999"],
    ["snooze", LONG, "--for", "1h"],
    ["retire", LONG],
    ["pause"],
    ["resume"],
    ["export", "/dev/null"],
    ["verify"],
]


@pytest.mark.parametrize("columns", [40, 80, 220])
def test_every_line_fits_the_terminal(crowded: Path, columns: int) -> None:
    commands = [[name, *([] if name == "--help" else [str(crowded)]), *options] for name, *options in PRINTED]
    program = (
        f"from budgetfrontier.tools.cli import main\nfor one in {commands!r}: print('>', one[0], main(one), flush=True)"
    )
    code, lines = printed_on_terminal([sys.executable, "-c", program], columns=columns, NO_COLOR="1")
    assert code == 0 and sum(line.startswith("> ") for line in lines) == len(commands)
    # What may be longer is a command, to be copied: it is on a line of its own.
    lines = [line for line in lines if not (line.lstrip().startswith(("$ ", "`")) and "budgetfrontier " in line)]
    assert [line for line in lines if len(line) > columns] == []


def test_the_error_of_a_delivery_is_told_whole(crowded: Path) -> None:
    lines = on_terminal("alerts", crowded, "--deliveries", columns=80, NO_COLOR="1")
    assert ERROR in " ".join(" ".join(lines[1:]).split())


@pytest.mark.parametrize("columns", [80, 220])
def test_a_listing_has_the_columns_for_which_there_is_room(crowded: Path, columns: int) -> None:
    (row,) = on_terminal("queues", crowded, columns=columns, NO_COLOR="1")[1:]
    assert ("…" in row, "12.3k" in row) == (True, True)
    assert ("with=12344" in row) is (columns == 220)  # there is room for the URL placed last


def test_colours_and_wide_on_a_terminal(crowded: Path) -> None:
    coloured = "\n".join(on_terminal("queues", crowded, columns=80))
    assert "\x1b[31mRETIRED\x1b[0m" in coloured
    wide = on_terminal("queues", crowded, "--wide", columns=80, NO_COLOR="1")
    assert LONG in wide[1] and " 12345 " in wide[1] and "last_enqueued" in wide[0] and "\x1b" not in wide[1]


def test_what_is_left_out_is_said(crowded: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    answer = cli("queues", crowded)
    assert "left out: " in answer.err and "last_enqueued" in answer.err and "--wide" in answer.err
    assert cli("queues", crowded, "--wide").err == ""
    assert '"queued": 12345' in cli("queues", crowded, "--format", "json").out.replace('":', '": ')


def test_short_names_of_columns_can_be_sorted_by(crowded: Path, cli: Cli) -> None:
    assert cli("queues", crowded, "--sort", "spent").out == cli("queues", crowded, "--sort", "expenditure").out


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["quees", "job"], "queues"),
        (["Report", "job"], "report"),
        (["status", "job"], "report"),
        (["stop", "job"], "pause"),
        (["log", "job"], "audit"),
        (["seeds", "job"], "import"),
        (["restart", "job"], "crawl"),
        (["version"], "--version"),
        (["revert", "job", "5"], "undo"),
        (["replay", "job"], "dead-letters --replay"),
        (["queues", "job", "--mach", "x"], "--match"),
        (["queues", "job", "--stat=READY", "--limt=3"], "--limit"),
        (["queues", "job", "--sort", "quued"], "queued"),
        (["queues", "job", "--state", "snozed"], "SNOOZED"),
    ],
)
def test_mistyped_words_are_answered_with_what_was_meant(arguments: list[str], meant: str, cli: Cli) -> None:
    answer = cli(*arguments)
    assert answer.code == 2 and f"did you mean {meant}?" in answer.err


@pytest.mark.parametrize("word", ["zzz", "restore", "daemon", "wait", "retry"])
def test_words_that_resemble_nothing_are_answered_with_the_command_that_lists_the_choices(cli: Cli, word: str) -> None:
    error = cli(word).err
    assert "did you mean" not in error and "`budgetfrontier --help` lists the commands" in error
    assert "did you mean" not in cli("queues", "job", "--zzzzz").err


def completed(line: str, folder: Path) -> list[str]:
    """Ask the program how a line goes on, as the scripts for shells do: answers come through descriptor 8."""
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9"}
    command = f"{sys.executable} -m budgetfrontier 8>&1 9>/dev/null 1>/dev/null"
    environment = {**os.environ, **asked, "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_SHELL": "bash"}
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True, env=environment, cwd=folder)
    return sorted(word.strip() for word in done.stdout.decode().split("\n"))


def test_shells_complete_commands_options_and_queue_keys(stopped: Path) -> None:
    pytest.importorskip("argcomplete")
    folder = stopped.parent
    assert completed("budgetfrontier q", folder) == ["queue", "queues"]
    assert completed("budgetfrontier queues job --re", folder) == ["--reverse"]
    assert completed("budgetfrontier queues job --state RET", folder) == ["RETIRED"]
    assert completed("budgetfrontier queue job na", folder) == ["named.test"]
    assert completed("budgetfrontier queue nothing na", folder) == [""]


@pytest.mark.parametrize("shell", completions.SHELLS)
def test_completion_prints_a_script(shell: str, cli: Cli) -> None:
    pytest.importorskip("argcomplete")
    answer = cli("completion", shell)
    assert answer.code == 0 and "_ARGCOMPLETE" in answer.out and "budgetfrontier" in answer.out


def test_completion_says_what_it_needs(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    monkeypatch.setitem(sys.modules, "argcomplete.shell_integration", None)
    answer = cli("completion", "bash")
    assert answer.code == 1 and "budgetfrontier[completion]" in answer.err
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    assert main(["--version"]) == 0  # a shell that asks gets no answer, and the command line works


def test_sentences_are_wrapped_and_commands_stay_whole(crowded: Path) -> None:
    url = f"https://{LONG}/calendar/7/of/many/pages?with=7&a=query"
    lines = on_terminal("explain", crowded, url, columns=80, NO_COLOR="1")
    sentences = [line for line in lines if "$ " not in line and url not in line]
    assert len(sentences) > 3 and all(len(line) <= 80 for line in sentences), lines
    whole = " ".join(" ".join(lines).split())
    (piped,) = (line for line in piped_lines("explain", crowded, url) if line.startswith("  1. "))
    assert " ".join(piped.split()) in whole


def piped_lines(*arguments: object) -> list[str]:
    """The lines that a command prints into a pipe."""
    command = [sys.executable, "-m", "budgetfrontier", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()


HOSTILE = "evil\x1b[31mred\x1b]0;title\x07\nnext\u202e"


def test_the_names_of_programs_and_operators_cannot_steer_a_terminal(tmp_path: Path, cli: Cli) -> None:
    job = tmp_path / "job"
    with Frontier.open(job / "frontier", program=HOSTILE) as frontier:
        frontier.schedule_many(["http://a.test/", "http://b.test/"])
        frontier.finish_many(frontier.lease(1))
        frontier.pause(reason=HOSTILE, who=HOSTILE)
    reports = (("report", "--kind", kind) for kind in kinds.KINDS)
    commands = (("runs",), ("jobs",), ("audit",), ("explain", "a.test"), ("top", "--once"), ("alerts",), *reports)
    for name, *options in (*commands, ("resume", "--who", HOSTILE), ("retire", "a.test", "--who", HOSTILE)):
        answer = cli(name, job, *options)
        assert answer.code == 0
        for line in (answer.out + answer.err).split("\n"):
            assert line.isprintable() and not line.startswith("next"), (name, line)


@pytest.mark.parametrize("tell", [say, note])
def test_sentences_have_no_control_characters(tell: Callable[[str], None], capsys: pytest.CaptureFixture[str]) -> None:
    tell("one\x1b[2J\ntwo\u202e")
    answer = capsys.readouterr()
    assert answer.out + answer.err == "one\\x1b[2J\ntwo\\u202e\n"
