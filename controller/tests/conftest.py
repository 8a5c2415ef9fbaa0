"""Recorded data, and the rule for tests that need a sandbox: without one they do not run, which fails in CI."""

import os
from pathlib import Path

import pytest

from tributary_controller.lab import sandbox

DATA = Path(__file__).parent / "data"


@pytest.fixture
def recorded() -> list[bytes]:
    """Messages that Open vSwitch 3.1 sent to this controller as switch 1 of the laboratory's network."""
    return [bytes.fromhex(line) for line in (DATA / "open-vswitch.hex").read_text().split()]


@pytest.fixture
def in_sandbox() -> None:
    if not sandbox.inside():
        reason = "not in a sandbox; scripts/test-controller runs these tests in one"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
