"""Recorded data, and the rule for tests that need a sandbox: without one they do not run, which fails in CI."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tributary_controller.lab import sandbox

HANG_SECONDS = 60.0
DATA = Path(__file__).parent / "data"
ROOT = Path(__file__).parents[2]


def refuse(reason: str) -> None:
    """Skips the test; in CI it fails."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def until(what: str, so: Callable[[], object]) -> None:
    """Waits for a state that nobody announces. The limit only ends a test that hangs."""
    limit = time.monotonic() + HANG_SECONDS
    while True:
        # A server that does not listen yet is not there yet.
        with contextlib.suppress(OSError):
            if so():
                return
        assert time.monotonic() < limit, f"not within {HANG_SECONDS:.0f} s: {what}"
        time.sleep(0.02)


@pytest.fixture
def recorded() -> list[bytes]:
    """Messages that Open vSwitch 3.1 sent to this controller as switch 1 of the laboratory's network."""
    return [bytes.fromhex(line) for line in (DATA / "open-vswitch.hex").read_text().split()]


@pytest.fixture
def in_sandbox() -> None:
    if not sandbox.inside():
        refuse("not in a sandbox; scripts/test-controller runs these tests in one")


@pytest.fixture
def program() -> Path:
    """`tributary`, from TRIBUTARY or as `cargo build` leaves it; built by `scripts/test` beforehand."""
    path = Path(os.environ.get("TRIBUTARY", ROOT / "target" / "debug" / "tributary"))
    if not path.exists():
        refuse(f"{path} is absent: run cargo build, or set TRIBUTARY")
    return path


@pytest.fixture
def laboratory(program: Path) -> Path:
    """`tributary-lab`, which is beside `tributary`."""
    path = program.with_name("tributary-lab")
    if not path.exists():
        refuse(f"{path} is absent: run cargo build")
    return path


@pytest.fixture
def peer(in_sandbox: None) -> Iterator[list[str]]:
    """What runs a command in a namespace behind two links with MPTCP. It has 10.77.1.1 and 10.77.2.1, this side .2."""

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True)

    ip("netns", "add", "peer")
    try:
        for number in (1, 2):
            ip("link", "add", f"m{number}", "type", "veth", "peer", "name", f"n{number}", "netns", "peer")
            ip("address", "add", f"10.77.{number}.2/24", "dev", f"m{number}")
            ip("-n", "peer", "address", "add", f"10.77.{number}.1/24", "dev", f"n{number}")
            ip("link", "set", f"m{number}", "up")
            ip("-n", "peer", "link", "set", f"n{number}", "up")
        for where in ([], ["-n", "peer"]):
            ip(*where, "mptcp", "limits", "set", "subflows", "4", "add_addr_accepted", "4")
        # Lets the second subflow reach the server's second address by the link that has it.
        ip("-n", "peer", "mptcp", "endpoint", "add", "10.77.2.1", "dev", "n2", "signal")
        yield ["ip", "netns", "exec", "peer"]
    finally:
        # A namespace goes some time after its name; a link at once, and with it its other end.
        for device in Path("/sys/class/net").glob("m[12]"):
            ip("link", "delete", device.name)
        ip("netns", "delete", "peer")
        ip("mptcp", "endpoint", "flush")
