"""A simulation in a process of its own: `python -m budgetfrontier.tools.simulation.simulation_process FRONTIER`.

It reads the question as a line of JSON from its standard input, and writes a line of JSON for each step to its standard
output, the last of which has the result. It ends when its standard input does: with the process that has begun it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import msgspec

from budgetfrontier.errors import FrontierError
from budgetfrontier.rules.simulation import Question, Simulated, Step

Steps = Callable[[Sequence[Step]], object]
"""Takes how far each simulation is."""


class SimulationLine(msgspec.Struct, omit_defaults=True):
    """A line that the process writes: how far it is, the result, or why there is none."""

    step: Step | None = None
    result: Simulated | None = None
    error: str = ""


_decode_line = msgspec.json.Decoder(SimulationLine).decode
_decode_question = msgspec.json.Decoder(Question).decode


def simulate(questions: Sequence[tuple[Path, Question]], steps: Steps) -> list[Simulated]:
    """Simulate on copies, each in a process of its own at the same time. Raises FrontierError."""
    lines: SimpleQueue[tuple[int, SimulationLine]] = SimpleQueue()
    done = [Step()] * len(questions)
    found: dict[int, Simulated] = {}
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for number, (path, question) in enumerate(questions):
            process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            processes.append(process)
            Thread(target=_read, args=(number, process, question, lines.put), daemon=True).start()
        while len(found) < len(questions):
            number, line = lines.get()
            if line.error:
                raise FrontierError(line.error)
            if line.step is not None:
                done[number] = line.step
                steps(done)
            if line.result is not None:
                found[number] = line.result
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
    return [found[number] for number in range(len(questions))]


def _read(
    number: int,
    process: subprocess.Popen[bytes],
    question: Question,
    put: Callable[[tuple[int, SimulationLine]], None],
) -> None:
    """Pass on the lines of a process; an error if it ends without a result."""
    assert process.stdin is not None and process.stdout is not None
    with suppress(BrokenPipeError), process.stdin as asked, process.stdout as told:
        with suppress(BrokenPipeError):  # it has ended
            asked.write(msgspec.json.encode(question) + b"\n")
            asked.flush()
        for text in told:
            line = _decode_line(text)
            put((number, line))
            if line.result is not None or line.error:
                return
    code = process.wait()
    put((number, SimulationLine(error=f"the process of a simulation ended with exit code {code} and without a result")))


def main(path: str) -> None:
    """Simulate on the frontier at `path`."""
    from budgetfrontier.tools.simulation.simulated_crawl import SimulatedCrawl

    line = sys.stdin.buffer.readline()
    if not line:
        return  # the process that began this one was killed
    question = _decode_question(line)
    Thread(target=_end_with_input, daemon=True).start()
    try:
        found = SimulatedCrawl(Path(path), question).run(lambda step: _say(SimulationLine(step=step)))
        _say(SimulationLine(Step(found.fetches, found.seconds, 1.0), found))
    except (FrontierError, OSError) as e:
        _say(SimulationLine(error=str(e)))


def _end_with_input() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


def _say(step: SimulationLine) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(step) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that began this one, which ends it
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # it ends without a word if nobody reads its lines
    main(sys.argv[1])
