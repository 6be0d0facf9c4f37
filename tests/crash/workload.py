"""What the processes of the campaign do: seeded operations, planned on the reference model and done on a frontier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from budgetfrontier import Admission, CrawlUri, Frontier, Outcome, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import Directive, Lease
from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.errors import FrontierError, LeaseExpired
from tests.stateful import model_settings
from tests.stateful.model import OPTIONS, PLAIN, PRELOADED, Model
from tests.stateful.model_settings import IN_PYTHON
from tests.stateful.undoing import discard, undo

START = 1_000_000.0
PLAIN_URI: dict[str, Any] = {"cost": None, "directive": 3, "priority": 0, "force": False, "not_before": None}
PLAIN_URI |= {"queue": None, "source": None, "precedence": None}
HOSTS = ("a.test", "b.test", "c.a.test", "d.test", "e.test", "f.test")
PAGES = 60
RANKED = {"preloaded": {"file": str(PRELOADED), "base": 2, "default": "cost"}}
WITHOUT_BUDGETS = [
    groups for groups in model_settings.GROUPS if not any({"total_budget", "quotas"} & group.keys() for group in groups)
]
"""Groups whose queues can all be crawled to the end."""
ON_QUEUES = ("retire", "unretire", "snooze", "wake")
STEERING = (*ON_QUEUES, "adjust", "pause", "resume", "delete", "replay", "drop", "undo", "discard")

ARGUMENTS = {
    "adjust": ("match", "set"),
    "snooze": ("queue", "until"),
    "delete": ("queue", "for_good"),
    "undo": ("id", "force"),
    "discard": ("id",),
}
"""Of the commands that take more than a queue, in the mailbox."""

WEIGHTS = {
    "schedule": 4,
    "schedule_many": 4,
    "lease": 14,
    "finish": 26,
    "landed": 5,
    "renew": 1,
    "adjust": 3,
    "retire": 1,
    "unretire": 2,
    "snooze": 2,
    "wake": 1,
    "pause": 1,
    "resume": 2,
    "delete": 2,
    "replay": 2,
    "drop": 1,
    "undo": 4,
    "discard": 1,
    "commit": 3,
    "post": 2,
}


class Step(NamedTuple):
    """One operation: when, with what, and what the model says that it answers."""

    op: str
    now: float
    args: tuple[Any, ...] = ()
    told: Any = None


class Ledger(Model):
    """The reference model without commits of its own: which one holds is for the process to tell that is killed."""

    def __init__(self, options: dict[str, Any], now: float) -> None:
        self.commands = 0
        super().__init__(options, now)

    def commit(self) -> None:
        """Nothing: see above."""

    def reopened(self, changed: dict[str, Any] | None = None, *, keep_leases: bool = False) -> None:
        """A process has died, or closed; the next opens the frontier, perhaps with other settings."""
        self.given = 0
        if not keep_leases:
            self.drop_leases(counted=True)
        if changed and any(self.options[name] != value for name, value in changed.items()):
            self.options |= changed
            self.settings_changed()
            self.commands += 1


def any_options(chance: Random) -> dict[str, Any]:
    """Settings of a frontier, by the names of the model, and how often it commits.

    Half of them leave turns to the compiled kernel, if it is there.
    """
    options = {
        "hold_queues": chance.random() < 0.5,
        "balance_replenish_amount": chance.choice((1, 3, 3, 5, 3000)),
        "queue_total_budget": chance.choice((-1, -1, -1, 8, 20)),
        "retire_when": chance.choice(("exceeded", "reached")),
        "error_penalty_amount": chance.choice((0, 2)),
        "precedence": 3,
        "max_queued": 0,
        "max_queue_size": 0,
        "order": chance.choice(("fifo", "fifo", "lifo")),
        "pause_at_finish": chance.random() < 0.3,
        "max_deliveries": chance.choice((20, 3)),
        "per_queue_concurrency": chance.choice((1, 1, 2, 3)),
        "polite": chance.random() < 0.4,
        "max_retries": chance.choice((0, 1, 30)),
        "retry_delay": chance.choice((0.0, 10.0, 900.0)),
        "retry_scope": chance.choice(("queue", "uri")),
        "backoff": chance.random() < 0.8,
        "commit_operations": chance.choice((1, 2, 4, 10)),
        "keep_urls": chance.random() < 0.5,
        "min_interval": chance.choice((0.0, 0.0, 30.0)),
        "update_priority": chance.random() < 0.5,
        "status_delay": chance.choice((0.0, 20.0, 1800.0)),
        "precedence_floor": chance.choice((None, None, 4)),
        "precedence_policy": chance.choice(("base", "base", "highest-uri")),
        "uri_precedence_policy": chance.choice(("cost", "base", {"hops": {"base": 1}}, RANKED)),
        "groups": chance.choice(((), (), *WITHOUT_BUDGETS)),
        "quotas.queue": chance.choice(({}, {}, {"successes": 4}, {"bytes": 1400})),
        "target_active": chance.choice(("auto", "auto", 2)),
    }
    if options["precedence_policy"] != "base":
        options["precedence_floor"] = None  # a queue beyond it would never be crawled
    return options | ({name: OPTIONS[name] for name in IN_PYTHON} if chance.random() < 0.5 else {})


def settings_of(options: dict[str, Any]) -> Settings:
    """The settings of a frontier that commits by count only, so that a seed decides when."""
    options = OPTIONS | options
    return model_settings.settings_of(options, commit_operations=options.pop("commit_operations"))


# -- planning


def is_plain(options: dict[str, Any]) -> bool:
    """Whether a frontier leaves turns to the kernel. Its URIs are plain, too, and adjustments rare."""
    return all(options.get(name, OPTIONS[name]) == OPTIONS[name] for name in IN_PYTHON)


def any_uri(chance: Random, now: float, *, plain: bool = False) -> dict[str, Any]:
    """A URI, by the arguments of CrawlUri; now and then for later, forced, or on a queue that is not its host's.

    A `plain` one is a URL, most times.
    """
    host = chance.choice(HOSTS)
    if plain and chance.random() < 0.9:
        return PLAIN_URI | {"url": f"https://{host}/{chance.randrange(PAGES)}"}
    return {
        "url": f"https://{host}/{chance.randrange(PAGES)}",
        "cost": chance.choice((None, None, None, 0, 1, 2, 5)),
        "directive": chance.choice((3, 3, 3, 2, 1, 0)),
        "priority": chance.choice((0, 0, 0, 1, -1)),
        "force": chance.random() < 0.1,
        "not_before": now + chance.choice((2.0, 40.0, 700.0)) if chance.random() < 0.15 else None,
        "queue": "forced" if host == "f.test" and chance.random() < 0.3 else None,
        "source": None if plain else chance.choice((None, None, "one")),
        "precedence": chance.choice((None, None, None, 0, 2)),
    }


def _batch(chance: Random, now: float, size: int, *, plain: bool) -> list[dict[str, Any]]:
    """URIs to be given at once; what is for later first, for a batch creates the queues of those first."""
    return sorted((any_uri(chance, now, plain=plain) for _ in range(size)), key=lambda spec: spec["not_before"] is None)


def any_values(chance: Random) -> dict[str, int]:
    """What an adjustment changes."""
    values = {
        "queue_total_budget": (-1, -1, 5, 12, 30),
        "balance_replenish_amount": (0, 1, 3, 10),
        "precedence": (1, 3, 5),
    }
    names = chance.sample(sorted(values), chance.randint(1, 2))
    return {name: chance.choice(values[name]) for name in names}


def plan(model: Ledger, chance: Random, length: int) -> list[Step]:
    """What a process is to do next. The model does it as it is planned."""
    steps: list[Step] = []
    while len(steps) < length:
        if chance.random() < 0.12:
            model.now += chance.choice((0.5, 3.0, 15.0, 45.0, 400.0, 1000.0))
        op = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        args = _arguments(op, model, chance)
        if args is not None:
            step = Step(op, model.now, args)
            steps.append(step._replace(told=on_model(model, step)))
    return steps


def _arguments(op: str, model: Ledger, chance: Random) -> tuple[Any, ...] | None:
    """What to call an operation with; None if there is nothing for it to do."""
    out, keys, plain = sorted(model.leases), sorted(model.queues), is_plain(model.options)
    match op:
        case "schedule":
            return (any_uri(chance, model.now, plain=plain),)
        case "schedule_many":
            return tuple(_batch(chance, model.now, chance.randint(1, 12), plain=plain))
        case "lease":
            return chance.choice((1, 1, 2, 5)), chance.choice((15.0, 300.0, 2000.0))
        case "finish" if out and plain and chance.random() < 0.7:
            options = PLAIN | {"fetch_seconds": chance.choice((None, 0.8)), "size": chance.choice((0, 700))}
            return chance.choice(out), "SUCCESS", options, []
        case "finish" if out:
            outcome = chance.choice(("SUCCESS",) * 6 + ("RETRY", "RETRY", "FAILURE", "DEFERRED", "DISREGARDED", "DEAD"))
            options = PLAIN | {
                "fetch_seconds": chance.choice((None, 0.1, 0.8, 10.0)),
                "crawl_delay": chance.choice((None, None, None, 45.0)),
                "delay": chance.choice((None, 0.0, 10.0, 200.0)) if outcome == "RETRY" else None,
                "retire_queue": chance.random() < 0.04,
                "size": chance.choice((0, 0, 700)),
                "reason": chance.choice(("", "robots")),
                "status": chance.choice((0, 0, 200, 500, 429, 503)),
            }
            return (
                chance.choice(out),
                outcome,
                options,
                _batch(chance, model.now, chance.choice((0, 0, 1, 4)), plain=plain),
            )
        case "landed" if out:
            return chance.choice(out), chance.choice((None, 0.8, 10.0)), chance.choice((None, None, 45.0))
        case "renew" if out:
            return chance.choice(out), chance.choice((15.0, 300.0))
        case "adjust" if not plain or chance.random() < 0.2:
            return chance.choice(("*", "queue:b.test", "host:*.a.test", "domain:a.test")), any_values(chance)
        case "retire" | "wake" if keys:
            return (chance.choice(keys),)
        case "delete" if keys:
            return chance.choice(keys), chance.random() < 0.2
        case "drop" if model.dead:
            return (chance.random() < 0.2,)
        case "undo" | "discard" if model.done:
            number = chance.choice(sorted(model.done)[-4:])
            return (number, chance.random() < 0.4) if op == "undo" else (number,)
        case "unretire" if retired := [key for key in keys if model.queues[key].by_name]:
            return (chance.choice(retired),)
        case "snooze" if keys:
            key = chance.choice(keys)
            return key, max(model.now + chance.choice((5.0, 100.0)), model.queues[key].wake)
        case "pause" if model.state in ("RUNNING", "FINISHED"):
            return ()
        case "resume" if model.state in ("PAUSING", "PAUSED"):
            return ()
        case "replay" if model.dead:
            return ()
        case "post":
            op = chance.choice(
                ("adjust", "retire", "snooze", "unretire", "resume", "delete", "undo", "undo", "discard")
            )
            args = _arguments(op, model, chance)
            return None if args is None else (op, *args)
        case "commit":
            return ()
    return None


# -- doing


def on_model(model: Ledger, step: Step) -> Any:
    """Do a step on the model; the answer is what the frontier's should be."""
    model.now = max(model.now, step.now)
    op, args = step.op, step.args
    if op == "post":
        return _on_model_posted(model, args[0], args[1:])
    if op == "close":
        model.drop_leases(counted=False)
        return None
    if op == "commit":
        return None
    if op in STEERING:
        return _on_model_steered(model, op, args)
    if op in ("schedule", "schedule_many"):
        tally = model.schedule(*args)
        return tally["ADDED"], tally["DUPLICATE"]
    if op == "lease":
        numbers = model.lease(*args)
        leases = [model.leases[number] for number in numbers]
        return [
            (number, lease.uri.url, lease.queue.key, lease.uri.cost, lease.delivery, lease.expires)
            for number, lease in zip(numbers, leases, strict=True)
        ]
    return getattr(model, op)(*args)


def _on_model_steered(model: Ledger, op: str, args: tuple[Any, ...]) -> Any:
    """Each is audited, also one that is refused: False."""
    model.commands += 1
    number, told = model.commands, None
    match op:
        case "adjust":
            model.adjust(args[0], args[1], number)
        case "undo":
            told = undo(model, args[0], force=args[1])
        case "discard":
            return discard(model, *args)
        case "delete" | "drop":
            told = getattr(model, op)(*args[:-1])
            model.last["for_good"] = args[-1]
        case _ if op in ON_QUEUES:
            model.operate(op, *args)
        case _:
            told = getattr(model, op)(*args)
    if told is not False:
        model.done[number] = model.last
    return told


def _on_model_posted(model: Ledger, op: str, args: tuple[Any, ...]) -> None:
    """A command may be applied to an earlier state than the one it was meant for: it is audited, whatever it does."""
    if op == "resume":
        refused = model.state not in ("PAUSING", "PAUSED")
    elif op in ("undo", "discard"):
        refused = args[0] not in model.done
    else:
        refused = op != "adjust" and args[0] not in model.queues
    if refused:
        model.commands += 1
        return
    if op == "snooze":
        args = args[0], max(args[1], model.queues[args[0]].wake)
    on_model(model, Step(op, model.now, args))


def crawl_uri(spec: dict[str, Any]) -> CrawlUri:
    return CrawlUri(**{**spec, "directive": Directive(spec["directive"])})


def not_refused(do: Callable[[], object]) -> bool:
    """Do it; False if the frontier refuses it, for no other reason than what it is as of now."""
    try:
        do()
    except FrontierError as e:
        if type(e) is not FrontierError:
            raise
        return False
    return True


class Worker:
    """Does steps on a frontier, and insists on the answers that the model gave."""

    def __init__(self, frontier: Frontier, folder: Path, clock: ManualClock, handed: dict[int, Lease]) -> None:
        self._frontier, self._folder, self._clock, self._handed = frontier, folder, clock, handed

    def do(self, step: Step) -> None:
        self._clock.set(max(step.now, self._clock.time()))
        told = self._do(step.op, step.args)
        if step.op == "lease":
            numbers = [number for number, *_ in step.told]
            assert len(told) == len(numbers), f"{step}: the frontier gives {told}"
            self._handed.update(zip(numbers, told, strict=True))
            told = [
                (number, lease.uri.url, lease.queue, lease.cost, lease.delivery, lease.expires)
                for number, lease in zip(numbers, told, strict=True)
            ]
        if step.told is not None:
            assert told == step.told, f"{step.op}{step.args}: the frontier says {told}, the model {step.told}"

    def _do(self, op: str, args: tuple[Any, ...]) -> Any:
        frontier = self._frontier
        match op:
            case "schedule":
                admission = frontier.schedule(crawl_uri(args[0]))
                return int(admission is Admission.ADDED), int(admission is Admission.DUPLICATE)
            case "schedule_many":
                tally = frontier.schedule_many(map(crawl_uri, args))
                return tally.added, tally.duplicate
            case "lease":
                return frontier.lease(args[0], ttl=args[1])
            case "finish" | "landed" | "renew":
                return self._end(op, args)
            case "adjust":
                frontier.adjust(match=args[0], reason="campaign", **args[1])
            case "snooze":
                frontier.snooze(args[0], until=args[1])
            case "delete":
                return frontier.delete(queue=args[0], for_good=args[1])
            case "drop":
                return frontier.drop_dead_letters(for_good=args[0])
            case "undo":
                return not_refused(lambda: frontier.undo(args[0], force=args[1]))
            case "discard":
                return not_refused(lambda: frontier.internals.discard(args[0]))
            case "post":
                self._post(args[0], args[1:])
            case "replay":
                return frontier.replay()
            case _:
                getattr(frontier, op)(*args)
        return None

    def _end(self, op: str, args: tuple[Any, ...]) -> bool:
        lease = self._handed[args[0]]
        try:
            if op == "renew":
                self._frontier.renew(lease, args[1])
            elif op == "landed":
                self._frontier.landed(lease, fetch_seconds=args[1], crawl_delay=args[2])
            else:
                _, outcome, options, found = args
                self._frontier.finish(lease, Outcome(outcome), discovered=list(map(crawl_uri, found)), **options)
        except LeaseExpired:
            return False
        return True

    def _post(self, op: str, args: tuple[Any, ...]) -> None:
        """Leave a command in the mailbox, as another process would, and let the frontier look there."""
        names = ARGUMENTS.get(op, ("queue",))
        mailbox = Mailbox(self._folder)
        mailbox.post(Command(op, dict(zip(names, args, strict=False)), "somebody", "campaign"))
        mailbox.close()
        self._frontier.commit()


# -- to the end


def drain(model: Ledger, limit: int = 5000) -> tuple[list[Step], Counter[str]]:
    """Steps that crawl everything to its end, whatever budgets and pauses say; and how often they finish each URL."""
    steps: list[Step] = []
    finished: Counter[str] = Counter()

    def do(op: str, *args: Any) -> Any:
        step = Step(op, model.now, args)
        told = on_model(model, step)
        steps.append(step._replace(told=told))
        return told

    def finish(number: int, url: str) -> None:
        finished[url] += do("finish", number, "SUCCESS", PLAIN, [])

    for number, lease in sorted(model.leases.items()):
        finish(number, lease.uri.url)
    values = {"queue_total_budget": -1, "balance_replenish_amount": 10, "precedence": 3, "quotas.queue": {}}
    do("adjust", "*", values)
    for key in sorted(model.queues):
        if model.queues[key].by_name:
            do("unretire", key)
    if model.dead:
        do("replay")
    if model.state in ("PAUSED", "PAUSING"):
        do("resume")
    while len(steps) < limit:
        leases = do("lease", 3, 300.0)
        for number, url, *_ in leases:
            finish(number, url)
        if not leases:
            waits = [queue.wake for queue in model.queues.values() if queue.state == "SNOOZED"]
            waits += [due for due, _ in model.future]
            waits += [group.due for group in model.groups.values() if group.due is not None]
            waits = [due for due in waits if due > model.now]
            if not waits:
                break
            model.now = max(model.now, min(waits))
    return steps, finished
