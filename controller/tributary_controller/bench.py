"""`python -m tributary_controller.bench`: how near RTT is to the truth, and how soon a death is told.

Runs in a sandbox of namespaces with Open vSwitch. The truth is a ping between the same hosts at the same time, with the
kernel's time stamps. A reaction is the time from the command that breaks the network to the event at a REST client.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from tributary_controller.lab import sandbox
from tributary_controller.lab.client import Client, all_up, controlled
from tributary_controller.lab.network import TWO_PATHS, LabError, laboratory

PAIRS = [("10.0.1.2", "10.0.1.1"), ("10.0.2.2", "10.0.2.1")]
OPTIONS = [*(f"--path={local}={remote}" for local, remote in PAIRS), "--quiet"]
# Delay of the two routes, one way; and of the control channel, one way. Seconds.
DELAYS = [(0.001, 0.005), (0.020, 0.060)]
CONTROL_DELAYS = [0.0, 0.010]
SLOW_PORT = 6654
# What is promised: error of RTT, and time to notice a death.
ERROR_MS = 0.3
ERROR_SHARE = 0.05
REACTION_SECONDS = 1.0


@dataclass
class RttRow:
    """One path in one setting; `errors_ms` has one value for each repetition, measured less true."""

    delay_ms: float
    control_delay_ms: float
    true_ms: float
    measured_ms: float
    errors_ms: list[float]
    within: int

    @property
    def worst_ms(self) -> float:
        return max(map(abs, self.errors_ms))


@dataclass
class ReactionRow:
    what: str
    seconds: list[float]

    @property
    def within(self) -> int:
        return sum(one <= REACTION_SECONDS for one in self.seconds)


def progress(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def measure_rtt(repetitions: int) -> list[RttRow]:
    rows = []
    for control in CONTROL_DELAYS:
        plan = replace(TWO_PATHS, controller=f"tcp:127.0.0.1:{SLOW_PORT}" if control else TWO_PATHS.controller)
        with laboratory(plan) as lab:
            if control:
                channel = [str(SLOW_PORT), "6653", str(control)]
                lab.spawn([sys.executable, "-m", "tributary_controller.lab.slow_channel", *channel])
            with controlled(lab, *OPTIONS) as client:
                client.wait_until(all_up)
                for delays in DELAYS:
                    progress(f"RTT: delays {delays[0]} and {delays[1]} s, control channel {control} s")
                    rows += _measure_setting(client, delays, control, repetitions)
    return rows


def _measure_setting(client: Client, delays: tuple[float, float], control: float, repetitions: int) -> list[RttRow]:
    for index, delay in enumerate(delays):
        client.lab.order(f"delay {index} {delay}")
    # The windows of the medians fill with the new delay.
    time.sleep(2.0)
    samples: dict[str, list[tuple[float, float]]] = {}
    for _ in range(repetitions):
        pings = [client.ping(local, remote, 20, 0.05) for local, remote in PAIRS]
        truths = [json.loads(ping.communicate()[0])["median_ms"] for ping in pings]
        for path, truth in zip(client.ask("GET", "/v1/paths")["paths"], truths, strict=True):
            if path["rtt_ms"] is None or truth is None:
                raise LabError(f"no RTT: {path}")
            samples.setdefault(" ".join(path["via"]), []).append((path["rtt_ms"], truth))
    rows = []
    for via, pairs in sorted(samples.items()):
        delay = delays[0] if "2" in via.split() else delays[1]
        errors = [round(measured - true, 3) for measured, true in pairs]
        within = sum(abs(measured - true) <= ERROR_MS + ERROR_SHARE * true for measured, true in pairs)
        true, measured = median(true for _, true in pairs), median(measured for measured, _ in pairs)
        rows.append(RttRow(delay * 1e3, control * 1e3, round(true, 3), round(measured, 3), errors, within))
    return rows


def measure_reactions(repetitions: int) -> list[ReactionRow]:
    with laboratory(TWO_PATHS) as lab, controlled(lab, *OPTIONS) as client:
        client.wait_until(all_up)
        return [
            _react(client, "a route stops forwarding, another exists", repetitions, _break_route),
            _react(client, "every route stops forwarding", repetitions, _break_all),
            _react(client, "a host stops answering", repetitions, _break_host),
            _react(client, "a switch's port goes down", repetitions, _break_port),
        ]


Break = Callable[[Client, Any], float]


def _react(client: Client, what: str, repetitions: int, break_it: Break) -> ReactionRow:
    progress(f"reaction: {what}")
    seconds = []
    for _ in range(repetitions):
        # Both paths are up and apart, so that each repetition starts alike.
        paths = client.wait_until(lambda paths: all_up(paths) and paths[0]["via"] != paths[1]["via"])
        client.forget_events()
        seconds.append(round(break_it(client, paths[0]), 4))
    return ReactionRow(what, seconds)


def _break_route(client: Client, path: Any) -> float:
    """Which relay is on the path's route: 0 leads to switch 2, 1 to switch 3."""
    relay = 0 if "2" in path["via"] else 1
    began = client.lab.order(f"cut {relay}")
    at, _, _ = client.wait_for("path-rerouted", path=path["id"])
    client.lab.order(f"mend {relay}")
    return at - began


def _break_all(client: Client, path: Any) -> float:
    began = client.lab.order("cut 0")
    client.lab.order("cut 1")
    at, _, _ = client.wait_for("path-down", path=path["id"])
    client.lab.order("mend 0")
    client.lab.order("mend 1")
    return at - began


def _break_host(client: Client, path: Any) -> float:
    """The host ignores ARP: its link stays up."""
    switch = ["ip", "-n", "server", "link", "set", "eth2", "arp"]
    began = time.monotonic()
    client.lab.run(*switch, "off")
    at, _, _ = client.wait_for("path-down", path=path["id"])
    client.lab.run(*switch, "on")
    return at - began


def _break_port(client: Client, path: Any) -> float:
    port = "l2a" if "2" in path["via"] else "l3a"
    began = time.monotonic()
    client.lab.run("ip", "link", "set", port, "down")
    at, _, _ = client.wait_for("path-rerouted", path=path["id"])
    client.lab.run("ip", "link", "set", port, "up")
    return at - began


def tables(rtt: list[RttRow], reactions: list[ReactionRow]) -> str:
    """Two tables in Markdown."""
    lines = [
        "### Error of RTT",
        "",
        "| delay one way | control channel | true RTT | measured RTT | median error | worst error | within bound |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rtt:
        lines.append(
            f"| {row.delay_ms:.0f} ms | {row.control_delay_ms:.0f} ms "
            f"| {row.true_ms:.2f} ms | {row.measured_ms:.2f} ms | {median(row.errors_ms):+.2f} ms "
            f"| {row.worst_ms:.2f} ms | {row.within} of {len(row.errors_ms)} |"
        )
    lines += ["", "### Reaction times", "", "| what happens | median | slowest | within 1 s |", "|---|---|---|---|"]
    for reaction in reactions:
        lines.append(
            f"| {reaction.what} | {median(reaction.seconds) * 1e3:.0f} ms | {max(reaction.seconds) * 1e3:.0f} ms "
            f"| {reaction.within} of {len(reaction.seconds)} |"
        )
    return "\n".join(lines)


def write_beside(page: Path, made: str) -> None:
    """The file of tables of a page of the documentation: `controller.tables.md` beside `controller.md`."""
    title = next((line[2:] for line in page.read_text().splitlines() if line.startswith("# ")), page.name)
    head = f"# {title}: tables\n\nText and conclusions: [{page.name}]({page.name}).\n\n## Measured\n\n"
    page.with_suffix(".tables.md").write_text(f"{head}{made}\n")


def commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def main() -> None:
    options = argparse.ArgumentParser(
        prog="python -m tributary_controller.bench", description="Error of RTT, and reaction times, with Open vSwitch."
    )
    options.add_argument("--repetitions", type=int, default=20, help="of each measurement; default 20, about 4 minutes")
    options.add_argument("--json", action="store_true", help="every value as JSON in place of tables")
    options.add_argument(
        "--page", type=Path, metavar="PAGE.md", help="also write the tables beside this page, into PAGE.tables.md"
    )
    arguments = options.parse_args()
    if arguments.repetitions < 1:
        options.error("--repetitions must be at least 1")
    page: Path | None = arguments.page
    if page is not None and not page.is_file():
        options.error(f"--page: no file {page}")
    if not sandbox.inside():
        reason = sandbox.possible()
        if reason is not None:
            sys.exit(f"bench: {reason}")
        sandbox.enter([sys.executable, "-m", "tributary_controller.bench", *sys.argv[1:]])
    try:
        rtt, reactions = measure_rtt(arguments.repetitions), measure_reactions(arguments.repetitions)
    except LabError as error:
        sys.exit(f"bench: {error}")
    if arguments.json:
        rows = {"rtt": [asdict(row) for row in rtt], "reactions": [asdict(row) for row in reactions]}
        print(json.dumps({"commit": commit(), **rows}))
        return
    words = " ".join(["python -m tributary_controller.bench", *sys.argv[1:]])
    made = f"Generated by `{words}` at commit {commit()}.\n\n{tables(rtt, reactions)}"
    print(made)
    if page is not None:
        write_beside(page, made)


if __name__ == "__main__":
    main()
