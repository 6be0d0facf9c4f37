"""Handlers written as coroutines that run on the threads of crawls, without an event loop.

A handler awaits steps. Each ends in some thread with a result or an error: there the handler continues to its next
step. So no thread waits for another, and a handler may take any time between its steps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Generator, Iterable
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")

Done = Callable[[Any, BaseException | None], None]


class CallbackStep(Generic[_T]):
    """Something to await: `start(done)` begins it; `done(result, error)` is called once, in any thread."""

    __slots__ = ("start",)

    def __init__(self, start: Callable[[Done], None]) -> None:
        self.start = start

    def __await__(self) -> Generator[CallbackStep[_T], _T, _T]:
        return (yield self)


def together(steps: Iterable[CallbackStep[_T]]) -> CallbackStep[list[_T]]:
    """Return a step that does all steps at the same time; its result are theirs, in order, its error is the first one.

    It ends when all of them have.
    """
    begun = list(steps)

    def start(done: Done) -> None:
        results: dict[int, _T] = {}
        errors: list[BaseException] = []
        lock, left = threading.Lock(), len(begun) + 1

        def ended(place: int, result: Any, error: BaseException | None) -> None:
            nonlocal left
            with lock:
                left -= 1
                results[place] = result
                if error is not None:
                    errors.append(error)
                last = not left
            if last:
                done([results[place] for place in range(len(begun))], errors[0] if errors else None)

        for place, step in enumerate(begun):
            step.start(partial(ended, place))
        ended(-1, None, None)

    return CallbackStep(start)


def result_of(step: CallbackStep[_T]) -> _T:
    """Do a step, and wait for its result. Raises its error. Not in a thread that ends steps."""
    answers = SimpleQueue[tuple[Any, BaseException | None]]()
    step.start(lambda *answer: answers.put(answer))
    result, error = answers.get()
    if error is not None:
        raise error
    found: _T = result
    return found


def run(task: Coroutine[Any, Any, _T], ended: Callable[[_T | None, BaseException | None], None]) -> None:
    """Run a coroutine that awaits steps only; `ended` gets its result or its error, in the thread of its last step."""
    _go_on(task, None, None, ended)


def _go_on(
    task: Coroutine[Any, Any, Any],
    result: Any,
    error: BaseException | None,
    ended: Callable[[Any, BaseException | None], None],
) -> None:
    try:
        step: CallbackStep[Any] = task.send(result) if error is None else task.throw(error)
    except StopIteration as e:
        ended(e.value, None)
    except BaseException as e:
        ended(None, e)
    else:
        step.start(lambda result, error: _go_on(task, result, error, ended))
