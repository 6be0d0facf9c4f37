"""The curves of `make growth` and of a spam farm, as SVG: dark text on white in any theme.

The same figures give the same file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.growth import BYTES, MEMORY, Point, by_hosts

OURS, FLOOR, LIMIT = "#1f6feb", "#b35900", "#6e7781"
STYLE = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.edgecolor": "#57606a",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.grid": True,
    "grid.color": "#d8dee4",
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 3,
    "svg.fonttype": "none",  # text stays text: small files, and readable ones
    "svg.hashsalt": "budgetfrontier",
}
CONTESTANTS = ("floor", "bare LMDB", FLOOR), ("ours", "budgetfrontier", OURS)
MILLION, THOUSAND = 1e6, 1e3
PENDING = "URLs pending (million)"


class Figure:
    """A plot with its axes."""

    def __init__(self, across: str, up: str, *, logarithmic: bool = False) -> None:
        from matplotlib.figure import Figure as Canvas

        self._canvas = Canvas(figsize=(6.4, 3.2), layout="constrained")
        self._axes = self._canvas.add_subplot()
        self._axes.set_xlabel(across)
        self._axes.set_ylabel(up)
        if logarithmic:
            self._axes.set_xscale("log")

    def line(self, points: Iterable[tuple[float, float]], label: str, color: str, style: str = "-") -> None:
        """Draw a curve."""
        xs, ys = zip(*points, strict=True)
        self._axes.plot(xs, ys, style, color=color, label=label, marker="o" if style == "-" else None)

    def limit(self, value: float, label: str) -> None:
        """Draw a limit."""
        self._axes.axhline(value, color=LIMIT, linestyle=":", label=label)

    def save(self, path: Path) -> None:
        """Write the figure, with axes that start at zero."""
        self._axes.set_ylim(bottom=0)
        self._axes.legend()
        self._canvas.savefig(path, metadata={"Date": None, "Creator": None}, facecolor="white")


def draw(record: dict[str, Any], folder: Path) -> list[Path]:
    """Draw the figures of a record of `make growth`; return the files."""
    import matplotlib

    points = [point for point in record["points"] if point["hosts"] == record["sizes"][0]["hosts"]]
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with matplotlib.rc_context(STYLE):
        figures = {
            "schedule": _schedule(points),
            "commits": _commits(points),
            "written": _written(points),
            "drain": _drain(record["sizes"]),
            "hosts": _hosts(by_hosts(record)),
            "memory": _memory(points),
            "bytes": _bytes(points),
        }
        for name, figure in figures.items():
            written.append(folder / f"growth-{name}.svg")
            figure.save(written[-1])
    return written


FARM = (
    ("no budgets", LIMIT, "-"),
    ("a total of 50 for each domain", FLOOR, "-"),
    ("star", OURS, "-"),
)


def draw_farm(record: dict[str, Any], folder: Path) -> Path:
    """Draw what a spam farm below few domains gets of a crawl by each policy of budgets; return the file."""
    import matplotlib

    curves = {one["policy"]: one["curve"] for one in record["farms"] if one["farm_kind"] == "of 5 domains"}
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        figure = Figure("fetches (thousand)", "fetches of the farm (thousand)")
        for name, color, style in FARM:
            points = ((fetched / THOUSAND, farm / THOUSAND) for fetched, farm in curves[name])
            figure.line(points, name, color, style)
        figure.save(folder / "farm.svg")
    return folder / "farm.svg"


def _schedule(points: list[Point]) -> Figure:
    figure = Figure(PENDING, "links (thousand a second)")
    figure.line(_across(points, "floor", _rate), "bare LMDB", FLOOR)
    figure.line(_across(points, "floor", lambda leg: _rate(leg) / 2), "half of it", FLOOR, ":")
    figure.line(_across(points, "ours", _rate), "budgetfrontier", OURS)
    return figure


def _commits(points: list[Point]) -> Figure:
    figure = Figure(PENDING, "time spent in commits (%)")
    for name, label, color in CONTESTANTS:
        figure.line(_across(points, name, lambda leg: 100 * sum(leg["committing"]) / leg["seconds"]), label, color)
    return figure


def _written(points: list[Point]) -> Figure:
    figure = Figure(PENDING, "bytes written a link")
    for name, label, color in CONTESTANTS:
        figure.line(_across(points, name, lambda leg: leg["written"] / leg["links"]), label, color)
    return figure


def _drain(sizes: list[dict[str, float]]) -> Figure:
    figure = Figure("URLs pending", "URLs (thousand a second)", logarithmic=True)
    for name, label, color in (
        ("floor_drain", "bare LMDB: taken", FLOOR),
        ("drain", "budgetfrontier: leased and finished", OURS),
    ):
        figure.line([(size["pending"], size[name] / THOUSAND) for size in sizes], label, color)
    return figure


def _hosts(sizes: list[dict[str, float]]) -> Figure:
    figure = Figure("hosts", "links (thousand a second)", logarithmic=True)
    floor = [(size["hosts"], size["floor_rate"] / THOUSAND) for size in sizes]
    figure.line(floor, "bare LMDB", FLOOR)
    figure.line([(hosts, rate / 2) for hosts, rate in floor], "half of it", FLOOR, ":")
    figure.line([(size["hosts"], size["rate"] / THOUSAND) for size in sizes], "budgetfrontier", OURS)
    return figure


def _memory(points: list[Point]) -> Figure:
    figure = Figure(PENDING, "anonymous memory (MiB)")
    for name, label, color in CONTESTANTS:
        figure.line(_across(points, name, lambda leg: leg["peak"]), label, color)
    figure.limit(MEMORY, "target: at most")
    return figure


def _bytes(points: list[Point]) -> Figure:
    figure = Figure(PENDING, "bytes a pending URL")
    for name, label, color in CONTESTANTS:
        figure.line(_across(points, name, lambda leg: leg["file"] / leg["pending"]), f"{label}: file", color)
        in_use = _across(points, name, lambda leg: sum(leg["live"].values()) / leg["pending"])
        figure.line(in_use, f"{label}: pages in use", color, "--")
    figure.limit(BYTES, "target: at most")
    return figure


def _rate(leg: dict[str, Any]) -> float:
    return float(leg["links"] / leg["seconds"] / THOUSAND)


def _across(points: list[Point], name: str, value: Callable[[dict[str, Any]], float]) -> list[tuple[float, float]]:
    return [(point[name]["pending"] / MILLION, value(point[name])) for point in points]
