"""The command line as a whole: help, usage, exit codes, and the commands about configurations."""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TextIO

import pytest
import yaml

from budgetfrontier import Frontier, Settings, errors
from budgetfrontier.__main__ import main as start
from budgetfrontier.core.model import QueueState
from budgetfrontier.rules import undoing
from budgetfrontier.settings.advice import advice
from budgetfrontier.storage.reader import Reader
from budgetfrontier.tools.cli import build_parser, configure, main
from budgetfrontier.tools.cli.command_list import COMMANDS as CATALOGUE
from budgetfrontier.tools.cli.command_list import MODULES
from budgetfrontier.tools.cli.exits import EXIT_CODES, exit_code
from budgetfrontier.tools.cli.parser import Parser
from tests.tools.cli.conftest import Cli

COMMANDS = {
    "crawl", "demo", "init", "check-config", "report", "queues", "queue", "explain", "adjust", "audit", "delete",
    "retire", "unretire", "snooze", "wake", "set-queue", "pause", "resume", "terminate", "import", "export",
    "dead-letters", "verify", "compact", "backup",
}  # fmt: skip


def parsers() -> dict[str, Parser]:
    # argparse has no public name for what a parser consists of, here and below.
    (commands,) = (a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    return dict(commands.choices)


def test_ctrl_c_while_modules_are_imported_leaves_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str, *args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "budgetfrontier.tools.cli")
    monkeypatch.delattr("budgetfrontier.tools.cli")
    monkeypatch.setattr(sys, "meta_path", [SimpleNamespace(find_spec=interrupted)])
    assert start() == 130


@pytest.mark.parametrize(
    "module",
    [
        "typing",
        "budgetfrontier.tools.cli",
        "argparse",
        "budgetfrontier.tools.cli.exits",
        "lmdb",
        "budgetfrontier.storage.reader",
    ],
)
@pytest.mark.parametrize("command", ["report", "crawl"])
def test_ctrl_c_at_any_import_leaves_no_traceback(stopped: Path, tmp_path: Path, module: str, command: str) -> None:
    """The signal comes as the module is imported, by a program like the one that is installed."""
    (tmp_path / "start.py").write_text(
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(name, *more):\n"
        f"        if name == {module!r}:\n"
        "            sys.meta_path.remove(Finder)\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        f"sys.modules.pop({module!r}, None)\n"
        "sys.meta_path.insert(0, Finder)\n"
        "from budgetfrontier.__main__ import main\n"
        "sys.exit(main())\n"
    )
    start = [sys.executable, str(tmp_path / "start.py"), command, str(stopped)]
    ended = subprocess.run(start, capture_output=True, text=True, check=False)
    if command == "report":
        assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
    else:  # it finishes what it has begun: here, to find that this is no configuration
        assert ended.returncode and "Traceback" not in ended.stderr


def test_a_program_that_ends_looks_for_no_garbage_among_its_modules() -> None:
    script = (
        "import atexit, gc, sys\n"
        "from budgetfrontier.__main__ import main\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > len(gc.get_objects())))\n"
        "main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, "--version"], capture_output=True, text=True, check=True)
    assert ended.stdout.endswith("\nTrue\n")


def test_every_command_is_there() -> None:
    assert set(parsers()) >= COMMANDS


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_every_option_has_a_help(name: str, cli: Cli) -> None:
    for action in parsers()[name]._actions:
        assert action.help, f"{name} {action.dest}"
    answer = cli(name, "--help")
    assert answer.code == 0 and answer.out.startswith(f"usage: budgetfrontier {name}")


def test_help_tells_the_exit_codes(cli: Cli) -> None:
    answer = cli("--help")
    assert answer.code == 0
    for code, meaning in EXIT_CODES.items():
        assert f"{code} {meaning}" in " ".join(answer.out.split())


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (
            "crawl",
            "once finishes the fetches in flight and exits with 0, twice stops at once and exits with 1",
        ),
        ("demo", "Interrupted, it exits with 1"),
    ],
)
def test_help_tells_how_a_crawl_that_is_interrupted_exits(cli: Cli, command: str, told: str) -> None:
    assert told in " ".join(cli(command, "--help").out.split())
    assert "130 interrupted (`crawl`: 0, stopped at once: 1; `demo`: 1)" in " ".join(cli("--help").out.split())


def loaded_by(*arguments: str, folder: Path | None = None) -> set[str]:
    """The modules that a process of its own has loaded after one command."""
    script = "import sys; from budgetfrontier.tools.cli import main; main(sys.argv[1:]); print(*sys.modules)"
    command = [sys.executable, "-c", script, *arguments]
    return set(subprocess.run(command, capture_output=True, check=True, cwd=folder).stdout.decode().split())


DEPENDENCIES = {"lmdb", "msgspec", "sortedcontainers", "yaml", "can_ada", "tldextract", "xxhash", "aiohttp", "rich"}


def test_help_names_all_commands_that_can_be_undone(cli: Cli) -> None:
    told = re.sub(r"\b-\s+", "-", " ".join(cli("undo", "--help").out.split()))  # lines are broken after hyphens
    commands = undoing.ADJUSTING | undoing.RETIRING | undoing.WAITING | undoing.PACING | undoing.PAUSING
    names = {"withdraw": "adjust --remove", "drop": "dead-letters --drop", "set_queue": "set-queue"}
    for command in commands | undoing.DELETING | undoing.BURYING:
        assert re.search(rf"[ (]{names.get(command, command)}[,)]", told), command


def test_help_loads_no_dependency() -> None:
    assert not DEPENDENCIES & loaded_by("--help")
    assert not DEPENDENCIES & loaded_by("crawl", "--help")


OTHERS = {
    f"budgetfrontier.tools.importers.{name}"
    for name in ("heritrix", "kumo", "marshalled", "pickled", "qcrawl", "scrapy")
}


def test_import_and_export_load_the_formats_that_they_use(tmp_path: Path) -> None:
    with Frontier.open(tmp_path / "job" / "frontier") as frontier:
        frontier.schedule("https://example.org/")
    (tmp_path / "list.txt").write_text("https://example.org/1\n")
    assert not OTHERS & loaded_by("import", "job", "https://example.org/2", folder=tmp_path)
    sniffed = {"budgetfrontier.tools.importers.heritrix"}  # by the first bytes of a file
    assert OTHERS & loaded_by("import", "job", "list.txt", folder=tmp_path) <= sniffed
    assert not OTHERS & loaded_by("export", "job", "out.txt", folder=tmp_path)
    assert OTHERS & loaded_by("export", "job", "out.recover", folder=tmp_path) <= sniffed


def test_a_command_that_only_looks_loads_neither_the_engine_nor_what_reads_configurations(tmp_path: Path) -> None:
    with Frontier.open(tmp_path / "job" / "frontier") as frontier:
        frontier.schedule("https://example.org/")
    heavy = {"budgetfrontier.engine.kernel", "difflib", "yaml", "tldextract", "aiohttp", "rich"}
    for command in (("report", "job"), ("queues", "job"), ("audit", "job"), ("dead-letters", "job")):
        loaded = loaded_by(*command, folder=tmp_path)
        assert "budgetfrontier.storage.reader" in loaded, command
        assert not heavy & loaded, command


def test_a_command_loads_its_own_group_only() -> None:
    loaded = loaded_by("report", "--help")
    assert {name for name in MODULES if f"budgetfrontier.tools.cli.{name}" in loaded} == {"show"}


def test_each_module_adds_the_commands_that_the_catalogue_has_for_it() -> None:
    for module in MODULES:
        commands = argparse.ArgumentParser().add_subparsers()
        import_module(f"budgetfrontier.tools.cli.{module}").register(commands)
        assert set(commands.choices) == {name for name, command in CATALOGUE.items() if command.module == module}


def test_version(cli: Cli) -> None:
    answer = cli("--version")
    assert answer.code == 0 and answer.out.startswith("budgetfrontier 0.")


def test_python_m() -> None:
    done = subprocess.run([sys.executable, "-m", "budgetfrontier", "--help"], capture_output=True, check=True)
    assert done.stdout.startswith(b"usage: budgetfrontier ")


@pytest.mark.parametrize(
    "arguments", [[], ["fly"], ["report"], ["report", "x", "--format", "xml"], ["queues", "x", "--limit", "-1"]]
)
def test_wrong_usage_is_2(cli: Cli, arguments: list[str]) -> None:
    answer = cli(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert "usage: budgetfrontier" in answer.err


def test_each_option_counts_whole_or_is_refused_when_it_is_repeated() -> None:
    for command, parser in parsers().items():
        parser._given = set()
        for option in (each for each in parser._actions if each.option_strings):
            if isinstance(option, argparse._StoreAction):
                option.type = None
                value = str(next(iter(option.choices or ["1"])))
                parser._get_values(option, [value])
                with pytest.raises(argparse.ArgumentError, match="given twice"):
                    parser._get_values(option, [value])
            else:
                counts_whole = (argparse._AppendAction, argparse._StoreTrueAction, argparse._HelpAction)
                assert isinstance(option, counts_whole), (command, option.option_strings)


@pytest.mark.parametrize(
    "arguments",
    [
        "delete JOB --match domain:a.test --match regex:/3 --dry-run",
        "retire JOB --match domain:a.test --match=h0*",
        "adjust JOB --match domain:a.test --total-budget 100 --total-budget 50",
        "delete JOB --queue a.test --queue b.test",
        "snooze JOB --queues a.test --for 1h --queues b.test",
        "dead-letters JOB --replay 1 --replay 2",
        "queues --cluster kafka://a:1/c --cluster kafka://b:1/c",
        "queues --cluster kafka://a:1/c --limit 3 --cluster kafka://b:1/c",
    ],
)
def test_an_option_given_twice_is_wrong_usage(cli: Cli, arguments: str) -> None:
    answer = cli(*arguments.split())
    assert answer.code == 2
    assert "given twice, but only one value of it would count" in " ".join(answer.err.split())


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ([], "give a COMMAND; `budgetfrontier --help` lists them"),
        (["help"], "did you mean --help?"),
        (["version"], "did you mean --version?"),
        (["fly"], "invalid choice: 'fly'; `budgetfrontier --help` lists the commands"),
        (["reprot"], "did you mean report?"),
        (["--vesion"], "unrecognized arguments: --vesion; did you mean --version?"),
    ],
)
def test_without_a_command_the_error_names_what_helps(cli: Cli, arguments: list[str], hint: str) -> None:
    answer = cli(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.rstrip().endswith(hint)


@pytest.mark.parametrize(
    "arguments",
    [
        "crawl CONFIG --frontier nowhere",
        "crawl CONFIG --frontier http://127.0.0.1:7071/news",
        "crawl CONFIG --frontier 127.0.0.1:99999/news",
        "crawl CONFIG --frontier kafka://",
        "crawl CONFIG --metrics unix:PATH",
        "crawl CONFIG --metrics nowhere",
        "serve JOBS --listen nowhere",
        "serve JOBS --metrics unix:PATH",
        "console JOBS --listen nowhere",
        "console --cluster kafka://",
        "report --cluster nowhere",
        "report --cluster=http://127.0.0.1/news",
        "report kafka://",
        "worker --config CONFIG --listen nowhere",
        "worker --config CONFIG --advertise 127.0.0.1:0",
        "bus-broker JOURNAL --listen nowhere",
        "bus-worker --role strategy --bus nowhere",
        "bus-worker --role strategy --bus zmq+tcp://nowhere",
        "bus-worker --role strategy --bus redis://127.0.0.1:port",
        "bus-worker --role strategy --bus kafka://",
    ],
)
def test_an_address_that_is_none_is_wrong_usage_and_leaves_nothing_behind(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "CONFIG").write_text("seeds: [https://example.org/]\nfetch: {user_agent: 'Bot/1 (+https://a.test/)'}\n")
    answer = cli(*arguments.split())
    assert (answer.code, answer.out) == (2, "")
    assert re.search(r"give |expected |there are ", answer.err)
    assert [path.name for path in tmp_path.iterdir()] == ["CONFIG"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.FrontierError("x"), 1),
        (errors.NotAFrontier(), 1),
        (errors.WrongAddress(), 2),
        (FileNotFoundError(errno.ENOENT, "no such file", "x"), 1),
        (PermissionError(errno.EACCES, "denied", "x"), 1),
        (errors.StorageFull(), 3),
        (OSError(errno.ENOSPC, "full"), 3),
        (errors.SettingsError("x"), 4),
        (errors.PolicyError("x"), 4),
        (errors.FrontierLocked(), 5),
        (errors.CorruptFrontier(), 6),
        (ZeroDivisionError(), None),
    ],
)
def test_exit_codes(error: Exception, code: int | None) -> None:
    assert exit_code(error) == code


@pytest.mark.parametrize("command", ["report", "queues", "audit", "verify", "pause", "resume", "dead-letters"])
def test_a_folder_without_a_frontier(tmp_path: Path, cli: Cli, command: str) -> None:
    for job, message in ((tmp_path, "no frontier here"), (tmp_path / "nothing", "no such folder")):
        answer = cli(command, job)
        assert (answer.code, answer.out) == (1, "")
        assert message in answer.err and answer.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("stopped_time")
def test_the_frontier_itself_will_do_as_job(stopped: Path, cli: Cli) -> None:
    assert cli("queues", stopped / "frontier").out == cli("queues", stopped).out


def test_our_own_bugs_keep_their_traceback(cli: Cli, stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("budgetfrontier.storage.reader.Reader.scan", bug)
    with pytest.raises(ZeroDivisionError):
        cli("report", stopped, "--format", "json")


def test_without_a_folder_for_temporary_files_it_is_told_what_to_set(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc/none"])
    done = cli("serve", tmp_path, "--listen", "127.0.0.1:0")
    assert done.code == 1 and "set the environment variable TMPDIR to a folder that can be written to" in done.err


def in_ascii(*arguments: object) -> bytes:
    """What a command writes to a stdout whose encoding is ASCII."""
    command = [sys.executable, "-m", "budgetfrontier", *map(str, arguments)]
    done = subprocess.run(command, env=os.environ | {"PYTHONIOENCODING": "ascii"}, capture_output=True, check=True)
    return done.stdout


def test_letters_that_the_terminal_lacks_are_escaped(job: Path, cli: Cli) -> None:
    assert cli("pause", job, "--reason", "Grüße").code == 0
    assert rb"Gr\xfc\xdfe" in in_ascii("audit", job)


def test_data_is_utf_8_whatever_the_encoding_of_the_terminal(tmp_path: Path, stopped: Path, cli: Cli) -> None:
    record = {"url": "http://umlaut.test/", "meta": {"k": "ünï 😀"}}
    (tmp_path / "list.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    assert cli("import", stopped, tmp_path / "list.jsonl").code == 0
    assert cli("pause", stopped, "--reason", "Grüße").code == 0
    exported = [json.loads(line) for line in in_ascii("export", stopped, "-", "--format", "jsonl").splitlines()]
    assert record["meta"] in [one.get("meta") for one in exported]
    assert "Grüße" in in_ascii("audit", stopped, "--format", "csv").decode()
    assert json.loads(in_ascii("audit", stopped, "--format", "json"))
    config = tmp_path / "crawl.yaml"
    config.write_text("crawl: Überblick\n", encoding="utf-8")
    assert in_ascii("check-config", config, "--print").decode().startswith("crawl: Überblick\n")


@pytest.mark.parametrize("arguments", [["retire", "JOB", "\udcff"], ["pause", "JOB", "--reason", "\udcff"]])
def test_arguments_that_are_no_utf_8_are_an_error(job: Path, cli: Cli, arguments: list[str]) -> None:
    answer = cli(*(str(job) if argument == "JOB" else argument for argument in arguments))
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.count("\n") == 1
    assert cli("verify", job).code == 0


# -- configurations


def test_init_writes_what_check_config_accepts(tmp_path: Path, cli: Cli) -> None:
    config = tmp_path / "crawl.yaml"
    answer = cli("init", config)
    assert (answer.code, answer.out) == (0, "")
    assert Settings.from_yaml(config).crawl == "my-crawl"
    answer = cli("check-config", config)
    assert (answer.code, answer.out) == (0, "")
    assert "is valid: seeds 1, overrides 0" in answer.err
    assert "warning: fetch.user_agent, my-crawler/1.0, names no contact" in answer.err
    assert f"with the job in the folder my-crawl: budgetfrontier crawl {config}\n" in answer.err
    config.write_text("cluster: {kafka: broker1}")
    assert f"start workers: budgetfrontier worker --config {config} --folder " in cli("check-config", config).err


def test_what_init_has_in_comments_is_valid_too(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "crawl.yaml"
    cli("init", config, "--sink")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_sinks", raising=False)
    (tmp_path / "seeds.txt").write_text("http://a.test/\n")
    lines = [line for line in config.read_text().splitlines() if not re.match(r" *# [A-Z]", line)]  # prose
    lines.remove("  user_agent: my-crawler/1.0")
    config.write_text(
        "\n".join(line.replace("# ", "", 1) if line.lstrip().startswith("# ") else line for line in lines)
    )
    settings = Settings.from_yaml(config)
    assert len(settings.seeds) == 3 and len(settings.overrides) == 1 and settings.limits.max_bytes == 50 * 1024**3
    assert settings.output.sinks == ("my_sinks:SqlitePages",)
    assert list(advice(settings)) == [] and settings.frontier.revisit.after == 7 * 86_400


def test_init_never_overwrites(tmp_path: Path, cli: Cli) -> None:
    config = tmp_path / "crawl.yaml"
    config.write_text("mine")
    answer = cli("init", config)
    assert answer.code == 1 and "File exists" in answer.err
    assert config.read_text() == "mine"


def test_init_leaves_no_half_file_on_a_full_disk(tmp_path: Path, cli: Cli) -> None:
    config = tmp_path / "crawl.yaml"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        code = main(["init", str(config)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (code, config.exists()) == (1, False)
    assert cli("init", config).code == 0


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_told_with_what_to_do(stopped: Path, unbuffered: str) -> None:
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    for name, *options in (["report"], ["report", "--format", "html"], ["export", "-"], ["pause"]):
        with open("/dev/full", "w") as full:
            command = [sys.executable, "-m", "budgetfrontier", name, str(stopped), *options]
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment)
        assert done.returncode == 3
        assert "standard output: No space left on device; free some space and run the same command" in done.stderr


PRINTING = (
    ("queues",), ("queues", "--format", "csv"), ("queue", "snoozed.test"), ("explain", "snoozed.test"), ("audit",),
    ("report",), ("report", "--format", "json"), ("report", "--format", "html"), ("report", "--kind", "rates"),
    ("leases",), ("runs",), ("removed",), ("dead-letters",), ("top", "--once"), ("export", "-"), ("verify",),
)  # fmt: skip


@pytest.mark.parametrize("command", PRINTING, ids=" ".join)
def test_a_closed_stdout_is_an_error_and_no_traceback(stopped: Path, command: tuple[str, ...]) -> None:
    name, *options = command
    line = shlex.join((sys.executable, "-m", "budgetfrontier", name, str(stopped), *options))
    done = subprocess.run(["sh", "-c", f"exec {line} >&-"], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith("budgetfrontier: standard output: Bad file descriptor\n")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("closed", ["2>&-", "<&- 2>&-"])
def test_messages_are_lost_if_stderr_is_closed_and_the_data_are_not(stopped: Path, closed: str) -> None:
    line = shlex.join((sys.executable, "-m", "budgetfrontier", "report", str(stopped), "--kind", "hosts"))
    done = subprocess.run(["sh", "-c", f"exec {line} {closed}"], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("fetches") and "unknown:" not in done.stdout


def test_no_file_of_a_job_gets_the_number_of_a_standard_file(stopped: Path) -> None:
    line = shlex.join((sys.executable, "-m", "budgetfrontier", "retire", str(stopped), "snoozed.test"))
    subprocess.run(["sh", "-c", f"exec {line} <&- >&- 2>&-"], check=False)
    with Reader(stopped / "frontier") as reader:
        queue = reader.queue("snoozed.test")
    assert queue is not None and queue.state is QueueState.RETIRED
    assert main(["verify", str(stopped)]) == 0


@pytest.mark.parametrize("command", ["audit", "queues", "leases", "runs", "dead-letters", "removed"])
def test_a_number_of_rows_that_no_list_can_have_is_refused(stopped: Path, cli: Cli, command: str) -> None:
    for option in ("--limit", "--offset"):
        answer = cli(command, stopped, option, 10**24)
        assert answer.code == 2 and f"{10**24} is more than {10**15}" in answer.err
        assert cli(command, stopped, option, 10**15).code == 0


@pytest.mark.parametrize("option", [(), ("--discard",)])
def test_an_entry_with_a_number_out_of_range_is_refused(stopped: Path, cli: Cli, option: tuple[str, ...]) -> None:
    answer = cli("undo", stopped, 10**24, *option)
    assert answer.code == 1
    assert answer.err.endswith(": a number is out of range; numbers have 64 bits\n")


def test_check_config_lists_every_problem(tmp_path: Path, cli: Cli) -> None:
    config = tmp_path / "crawl.yaml"
    config.write_text("crawl: x\nfrontier:\n  hold_queue: true\n  balance_replenish_amount: many\n")
    answer = cli("check-config", config)
    assert (answer.code, answer.out) == (4, "")
    assert f"{config}:3:3: " in answer.err and f"{config}:4:29: " in answer.err
    assert 'did you mean "hold_queues"?' in answer.err


def test_check_config_loads_the_hooks(tmp_path: Path, cli: Cli) -> None:
    config = tmp_path / "crawl.yaml"
    config.write_text("hooks: ['no_such_module:Hook']\n")
    answer = cli("check-config", config)
    assert answer.code == 4 and "no_such_module" in answer.err


def test_check_config_refuses_seeds_that_cannot_be_crawled(tmp_path: Path, cli: Cli) -> None:
    config = tmp_path / "crawl.yaml"
    config.write_text("seeds: ['gopher://a.test/']\n")
    answer = cli("check-config", config)
    assert answer.code == 4 and f'{config}:1:9: seeds[0]: "gopher://a.test/" cannot be crawled: scheme' in answer.err


def test_check_config_names_the_lines_of_seed_files_that_will_be_refused(tmp_path: Path, cli: Cli) -> None:
    config, seeds = tmp_path / "crawl.yaml", tmp_path / "seeds.txt"
    seeds.write_text("# mine\nhttps://a.test/\n\nexample.org\n")
    config.write_text("seeds: [{file: seeds.txt}]\n")
    answer = cli("check-config", config)
    assert answer.code == 0
    assert f'warning: {seeds}:4:1: "example.org" has no scheme; did you mean "https://example.org"?' in answer.err


def test_check_config_shows_warnings_beside_errors(tmp_path: Path, cli: Cli) -> None:
    config = tmp_path / "crawl.yaml"
    config.write_text("frontier: {politeness: {min_delay: 3000}, no_such: 1}\n")
    answer = cli("check-config", config)
    assert answer.code == 4 and f"{config}:1:43: " in answer.err
    assert f"warning: {config}:1:36: frontier.politeness.min_delay: 3000 is 50m; write 3000ms" in answer.err


def test_check_config_prints_the_settings_in_force(tmp_path: Path, cli: Cli) -> None:
    config = tmp_path / "crawl.yaml"
    config.write_text(
        "crawl: 'no'\nfrontier: {politeness: {min_delay: 7s}}\n"
        "overrides: [{match: 'domain:a.test', set: {queue_total_budget: 5}}]\n"
    )
    printed = cli("check-config", config, "--print").out
    assert "cost_policy: unit\n" in printed
    assert Settings.from_dict(yaml.safe_load(printed)) == Settings.from_yaml(config)
    again = tmp_path / "again.yaml"
    again.write_text(printed)
    assert Settings.from_yaml(again) == Settings.from_yaml(config)


def test_what_check_config_prints_is_read_back_without_a_doubt(tmp_path: Path, cli: Cli) -> None:
    config, again = tmp_path / "crawl.yaml", tmp_path / "again.yaml"
    config.write_text(
        "{seeds: ['http://a.test/'], frontier: {retry: {delay: 1h30m}, politeness: {jitter: 0.25}}, "
        "fetch: {user_agent: 'bot (+http://a.test/)', min_speed: 100B, timeout: 2h}, "
        "overrides: [{match: '*', set: {retry: {delay: 1h}}}]}"
    )
    answer = cli("check-config", config, "--print")
    assert "warning" not in answer.err
    assert "    delay: 1h30m\n" in answer.out and "min_speed: 100B\n" in answer.out
    again.write_text(answer.out)
    assert "warning" not in cli("check-config", again).err
    assert Settings.from_yaml(again) == Settings.from_yaml(config)


def test_check_config_tells_every_variable_that_is_not_set(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "crawl.yaml"
    config.write_text("fetch:\n  proxy: http://${TEST_A}\n  requests:\n    - {auth: 'me:${TEST_B}'}\n")
    for name in "TEST_A", "TEST_B":
        monkeypatch.delenv(name, raising=False)
    answer = cli("check-config", config)
    assert answer.code == 4
    assert f"{config}:2:10: fetch.proxy: the environment variable TEST_A is not set\n" in answer.err
    assert f"{config}:4:14: fetch.requests[0].auth: the environment variable TEST_B is not set\n" in answer.err


@pytest.mark.parametrize("text", ["1e3", "-5E10", "+.5", "no", "010", "12:30", "0x10", "~", "a\u2028b"])
def test_printed_text_reads_back_as_text(tmp_path: Path, cli: Cli, text: str) -> None:
    config, again = tmp_path / "crawl.yaml", tmp_path / "again.yaml"
    config.write_text(json.dumps({"crawl": text, "seeds": [{"url": "http://a.test/", "source": text}]}))
    again.write_text(cli("check-config", config, "--print").out)
    assert Settings.from_yaml(again) == Settings.from_yaml(config)


def test_a_file_that_is_not_there_is_a_configuration_error(tmp_path: Path, cli: Cli) -> None:
    assert cli("check-config", tmp_path / "none.yaml").code == 4


def test_a_crawl_on_a_job_that_runs_is_locked(running: Path, tmp_path: Path, cli: Cli) -> None:
    config = tmp_path / "crawl.yaml"
    config.write_text("{crawl: resting, seeds: ['http://a.test/']}")
    answer = cli("crawl", config, "--job", running)
    assert answer.code == 5 and "in use by process" in answer.err


def test_a_frontier_that_is_open_here_is_locked(stopped: Path) -> None:
    with Frontier.open(stopped / "frontier"), pytest.raises(errors.FrontierLocked):
        Frontier.open(stopped / "frontier")


@pytest.mark.parametrize("arguments", [["--help"], ["crawl", "--help"], ["--version"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_help_that_finds_no_room_is_an_error(arguments: list[str], unbuffered: str) -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "budgetfrontier", *arguments],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        )  # fmt: skip
    assert ended.returncode == 3
    assert ended.stderr.startswith("budgetfrontier: standard output: No space left on device; free some space")


def test_init_on_a_full_disk_names_its_file(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> TextIO:
        return open("/dev/full", "w")

    file = tmp_path / "crawl.yaml"
    file.touch()  # what `open` would have made
    monkeypatch.setattr(configure, "open", full, raising=False)
    answer = cli("init", file)
    assert answer.code == 3 and answer.err.startswith(f"budgetfrontier: {file}: No space left on device; free")
    assert not file.exists()


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_the_help_of_a_command_has_two_examples_that_parse(name: str, cli: Cli) -> None:
    parser = build_parser()
    examples = [line.removeprefix("  $ ") for line in cli(name, "--help").out.splitlines() if line.startswith("  $ ")]
    assert len(examples) >= 2
    for example in examples:
        program, *words = shlex.split(example)
        assert program == "budgetfrontier" and parser.parse_args(words).command == name


def test_the_help_has_each_command_once_in_a_group_and_explains_common_options(cli: Cli) -> None:
    text = cli("--help").out
    titles = ["run:", "look:", "change:", "care for files:", "share:", "options of several commands:"]
    assert [line for line in text.splitlines() if line in titles] == titles
    assert all(len(re.findall(rf"^  {name}(?: |$)", text, re.MULTILINE)) == 1 for name in parsers())
    common = text.partition("options of several commands:")[2]
    options = (
        "--cluster",
        "--token-file",
        "--tls-ca",
        "--reason",
        "--who",
        "--format",
        "--wide",
        "--limit",
        "--offset",
    )
    assert all(f"  {option}" in common for option in options)
    assert "brokers" in common and "brokers" not in cli("retire", "--help").out  # once in all
