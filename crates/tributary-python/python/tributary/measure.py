"""Measures the package: ``python -m tributary.measure --program target/release/tributary-lab [--page docs/guide/python.md]``.

Five ratios, each of times taken in turn: a sweep by the package and by the program, a scheduler in Python and the same in Rust (in MPTCP
and in a session), and sweeps on a cluster of two workers and of one, with schedulers in Rust and in Python. For each ratio its median over
the rounds, an interval and a verdict on its bound. With ``--page`` the table is written beside the page.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tributary
from tributary import Scheduler, Subflow, Window

# Runs of about the same cost, so that shards of the same number of runs are of the same size.
_PLAN = """
name = "measure"
world = "sim"
[[matrix]]
world = "sim"
scenarios = ["mobility"]
transports = [{transports}]
seeds = ["1-{seeds}"]
seconds = {seconds}
"""
# Fewer rounds give no interval of 95 % for a median.
_LEAST_ROUNDS = 6
# A table is written only by a machine that does little else.
_MOST_LOAD = 0.5
_WORKERS = 2


@dataclass(frozen=True)
class Ratio:
    """Times of two things in each round, and the bound of a ratio of them."""

    name: str
    beside: str
    times: list[tuple[float, float]]
    at_most: float | None = None
    at_least: float | None = None
    inverse: bool = False

    def ratios(self) -> list[float]:
        """Ascending: time by the other's time; with `inverse` the other way round."""
        return sorted(two / one if self.inverse else one / two for one, two in self.times)

    def interval(self) -> tuple[float, float]:
        """Of the median, at least 95 %, without assumptions on the distribution: order statistics."""
        ratios = self.ratios()
        return interval(ratios)

    def verdict(self) -> str:
        """Whether the whole interval satisfies the bound."""
        low, high = self.interval()
        if self.at_most is not None:
            return "holds" if high <= self.at_most else "fails" if low > self.at_most else "undecided"
        if self.at_least is not None:
            return "holds" if low >= self.at_least else "fails" if high < self.at_least else "undecided"
        return ""

    def row(self) -> str:
        """Row of the table."""
        mine, theirs = (statistics.median(column) for column in zip(*self.times, strict=True))
        low, high = self.interval()
        wanted = f"≤ {self.at_most:g}" if self.at_most is not None else f"≥ {self.at_least:g}" if self.at_least is not None else ""
        cells = [
            self.name,
            self.beside,
            f"{mine:.2f} s",
            f"{theirs:.2f} s",
            f"{statistics.median(self.ratios()):.3f}",
            f"{low:.3f} to {high:.3f}",
            wanted,
            self.verdict(),
            str(len(self.times)),
        ]
        return f"| {' | '.join(cells)} |"


def interval(ascending: list[float]) -> tuple[float, float]:
    """Interval of the median: the k-th value and the k-th from the end, the largest k for which it covers at least 95 %."""
    count, below, k = len(ascending), 0.5 ** len(ascending), 0
    while k + 1 <= (count - 1) // 2 and 2 * (below + math.comb(count, k + 1) * 0.5**count) <= 0.05:
        k += 1
        below += math.comb(count, k) * 0.5**count
    return ascending[k], ascending[count - 1 - k]


class RoundRobin(Scheduler):
    """The rule of ``mptcp/round-robin``: each segment on the next subflow that has room, in the order of their identifiers."""

    last = -1

    def assign(self, now: float, window: Window, subflows: tuple[Subflow, ...]) -> Subflow | None:
        """Choose the next subflow."""
        first = None
        for subflow in subflows:
            if subflow.room:
                if subflow.id > self.last:
                    self.last = subflow.id
                    return subflow
                first = first or subflow
        if first is not None:
            self.last = first.id
        return first


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _in_turn(rounds: int, one: Callable[[], object], other: Callable[[], object]) -> list[tuple[float, float]]:
    """Times of both, one after the other in each round; every second round begins with the other. The first of each is not counted."""
    one()
    other()
    times: list[tuple[float, float]] = []
    for number in range(rounds):
        if number % 2:
            second = _seconds(other)
            times.append((_seconds(one), second))
        else:
            first = _seconds(one)
            times.append((first, _seconds(other)))
    return times


@contextmanager
def _plan(transports: list[str], seeds: int, seconds: int) -> Generator[tuple[Path, Callable[[], str]]]:
    """A plan, and a function that gives a new empty directory at each call."""
    with tempfile.TemporaryDirectory() as place:
        plan = Path(place, "plan.toml")
        names = ", ".join(f'"{name}"' for name in transports)
        plan.write_text(_PLAN.format(transports=names, seeds=seeds, seconds=seconds))
        fresh = iter(range(10**6))
        yield plan, lambda: str(Path(place, str(next(fresh))))


def _package(program: str, rounds: int, seconds: int) -> Ratio:
    with _plan(["wifi", "mptcp", "fbdt"], 8, seconds) as (plan, out):

        def by_package() -> None:
            tributary.sweep(plan, out())

        def by_program() -> None:
            subprocess.run([program, "sweep", str(plan), "--out", out()], check=True, capture_output=True)

        times = _in_turn(rounds, by_package, by_program)
    return Ratio("a sweep by the package", "`tributary-lab sweep`: time", times, at_most=1.05)


def _schedulers(name: str, transport: str, given: tuple[int, int]) -> Ratio:
    rounds, seconds = given
    options = {"transport": transport, "seconds": seconds, "seed": 1}
    own = tributary.Run("los", **options, scheduler=RoundRobin)  # pyright: ignore
    named = tributary.Run("los", **options, scheduler="round-robin")  # pyright: ignore
    times = _in_turn(rounds, own.run, named.run)
    return Ratio(name, "the same in Rust: speed", times, at_least=0.1, inverse=True)


def _workers(name: str, transport: str, options: dict[str, Any], given: tuple[int, int]) -> Ratio:
    """Speed-up of a sweep on two workers over one. Both clusters run all the time, so that their start is not measured."""
    from distributed import LocalCluster  # pyright: ignore

    cluster: Any = LocalCluster
    rounds, seconds = given
    shards = 4 * _WORKERS
    settings = {"threads_per_worker": 1, "dashboard_address": None}
    with (
        _plan([transport], 4 * shards, seconds) as (plan, out),
        cluster(n_workers=_WORKERS, **settings) as two,
        cluster(n_workers=1, **settings) as one,
    ):

        def on(workers: Any) -> Callable[[], object]:
            return lambda: tributary.sweep(plan, out(), cluster=workers.scheduler_address, shards=shards, **options)

        times = _in_turn(rounds, on(two), on(one))
    return Ratio(name, "one worker: speed", times, at_least=1.8, inverse=True)


def _commit() -> str:
    told = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], check=True, capture_output=True, text=True)
    return told.stdout.strip()


def main(arguments: list[str] | None = None) -> None:
    """Print the table, and write it beside a page."""
    parser = argparse.ArgumentParser(prog="python -m tributary.measure", description=__doc__)
    parser.add_argument("--program", required=True, help="tributary-lab, built with the package's profile")
    parser.add_argument("--rounds", type=int, default=11, help="pairs of measurements, 6 or more [default: %(default)s]")
    parser.add_argument("--seconds", type=int, default=10, help="virtual seconds of each run [default: %(default)s]")
    parser.add_argument("--page", type=Path, help="write PAGE's tables")
    given = parser.parse_args(arguments)
    if given.rounds < _LEAST_ROUNDS:
        parser.error(f"--rounds {given.rounds}: fewer than {_LEAST_ROUNDS} give no interval of 95 %")
    if not 2 <= given.seconds <= 3600:
        parser.error(f"--seconds {given.seconds}: wanted 2 to 3600")
    if (os.cpu_count() or 1) < _WORKERS:
        parser.error(f"two workers need {_WORKERS} cores; this machine has {os.cpu_count()}")
    load = os.getloadavg()[0]
    if given.page is not None and load > _MOST_LOAD:
        parser.error(f"--page: the machine's load is {load:.2f}; wait until it is below {_MOST_LOAD}, or leave --page out")
    size = (given.rounds, given.seconds)
    ratios = [
        _package(given.program, *size),
        _schedulers("a scheduler in Python, MPTCP", "mptcp", size),
        _schedulers("a scheduler in Python, session", "session", size),
        _workers("a sweep on two workers", "fbdt", {}, size),
        _workers("the same with a scheduler in Python", "mptcp/own", {"scheduler": RoundRobin}, size),
    ]
    lines = [
        f"Load of the machine at the start: {load:.2f}; {os.cpu_count()} cores. Each ratio is the median of its rounds.",
        "",
        "| measured | beside | time | its time | ratio | interval, 95 % or more | wanted | verdict | rounds |",
        "|---|---|---:|---:|---:|---|---|---|---:|",
        *(ratio.row() for ratio in ratios),
    ]
    print("\n".join(lines))
    if given.page is not None:
        command = " ".join(["python -m tributary.measure", *(arguments or sys.argv[1:])])
        head = f"# Tables of {given.page.name}\n\n## Cost of the package\n\nGenerated by `{command}` at commit {_commit()}.\n"
        given.page.with_suffix(".tables.md").write_text(head + "\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
