"""Switches and the path controller between client and server of an emulated network, `tributary-lab emu run --sdn`, and
the decision engine's experiment."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tributary_controller.lab import sandbox

RTT_MS = 20
SEGMENTS, SEGMENT_MS = 8, 500
BITRATES = (200_000, 400_000, 800_000)

SCENARIO = f"""
name = "two-radios"
description = "Two radios, one twice as fast"
duration = "60 s"
rtt = "{RTT_MS} ms"

[[path]]
name = "wifi"
down.rate = "20 Mbit/s"
up.rate = "20 Mbit/s"

[[path]]
name = "lte"
down.rate = "10 Mbit/s"
up.rate = "10 Mbit/s"
"""

# The client asks the controller for the paths, then the server on each path. The server may need a moment.
ASK = """
import json, os, time, urllib.request

def ask(url, **headers):
    until = time.monotonic() + 60
    while True:
        try:
            return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10).read().decode()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)

token = open(os.environ["TRIBUTARY_CONTROLLER_TOKEN"]).read().strip()
url = os.environ["TRIBUTARY_CONTROLLER"] + "/v1/paths"
paths = json.loads(ask(url, Authorization=f"Bearer {token}"))["paths"]
answers = [ask(f"http://{path['remote']}:8080/greeting") for path in paths]
"""

# It says what it found, and exits with a status of its own.
LOOK = (
    ASK
    + """
print(json.dumps({"paths": paths, "answers": answers}))
raise SystemExit(7)
"""
)

# It plays the title with the decision engine, and says how many subflows joined MPTCP connections.
PLAY = (
    ASK
    + """
import subprocess, sys
words = [sys.argv[1], "dash", "play", "http://10.77.1.1:8080/manifest.mpd", "--transport", "engine", "--json"]
words += ["--controller", os.environ["TRIBUTARY_CONTROLLER"], "--quic", "7001", "--shared-key", sys.argv[2]]
outcome = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
counters = open("/proc/net/netstat").read().splitlines()
names, values = (line.split() for line in counters if line.startswith("MPTcpExt:"))
print(json.dumps({"outcome": outcome, "joined": int(values[names.index("MPJoinSynAckRx")])}))
"""
)

MANIFEST = f"""
<MPD mediaPresentationDuration='PT{SEGMENTS * SEGMENT_MS // 1000}S'><Period><AdaptationSet contentType='video'>
<SegmentTemplate timescale='1000' duration='{SEGMENT_MS}' startNumber='1'
 initialization='$RepresentationID$/init.mp4' media='$RepresentationID$/$Number$.m4s'/>
{"".join(f"<Representation id='{bitrate}' bandwidth='{bitrate}'/>" for bitrate in BITRATES)}
</AdaptationSet></Period></MPD>
"""

# One cell of the experiment, short.
PAPER = """
name = "short"
title = "One cell"
lead = "One cell."

[[matrix]]
world = "emu"
experiment = "decision-engine"
scenarios = ["paper"]
transports = ["mptcp"]
loss = ["0 %"]
seeds = 1
seconds = 8
"""

pytestmark = pytest.mark.usefixtures("in_sandbox")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The scenario, and files for a server."""
    (tmp_path / "two-radios.toml").write_text(SCENARIO)
    site = tmp_path / "site"
    site.mkdir()
    (site / "greeting").write_text("it's here")
    (site / "manifest.mpd").write_text(MANIFEST)
    for bitrate in BITRATES:
        (site / str(bitrate)).mkdir()
        (site / str(bitrate) / "init.mp4").write_bytes(b"init")
        for number in range(1, SEGMENTS + 1):
            (site / str(bitrate) / f"{number}.m4s").write_bytes(bytes(bitrate * SEGMENT_MS // 8000))
    return site


def emulated(laboratory: Path, site: Path, server: str, client: list[str | Path]) -> tuple[int, Any, str]:
    """Exit status, what the client printed as JSON, and standard error."""
    words: list[str | Path] = [laboratory, "emu", "run", site.parent / "two-radios.toml", "--sdn", "--json"]
    return outcome([*words, f"--server={server}", "--", "python3", "-c", *client])


def outcome(words: list[str | Path]) -> tuple[int, Any, str]:
    """Exit status, standard output as JSON, and standard error."""
    # The laboratory makes a sandbox of its own in the emulated network.
    environment = {name: value for name, value in os.environ.items() if name != sandbox.MARK}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode, json.loads(done.stdout or "null"), done.stderr


def test_a_scenario_with_switches_and_a_controller(laboratory: Path, site: Path) -> None:
    server = f"exec python3 -m http.server --directory '{site}' 8080 >&2"
    status, found, errors = emulated(laboratory, site, server, [LOOK])
    assert status == 7, errors
    assert found["answers"] == ["it's here"] * 2
    ends = [(path["local"], path["remote"]) for path in found["paths"]]
    assert ends == [("10.77.1.2", "10.77.1.1"), ("10.77.2.2", "10.77.2.1")]
    wifi, lte = found["paths"]
    assert wifi["up"]
    assert lte["up"]
    assert min(wifi["rtt_ms"], lte["rtt_ms"]) >= RTT_MS * 0.95 - 0.3
    assert not set(wifi["via"]) & set(lte["via"]), "each radio has its own switches"
    assert json.loads(errors.splitlines()[-1])["seconds"] > 0


def test_the_decision_engine_plays_over_the_kernels_mptcp_on_both_paths(
    laboratory: Path, program: Path, site: Path
) -> None:
    key = site.parent / "key"
    subprocess.run([program, "keygen", "--shared", "--out", key], check=True, capture_output=True)
    serve = f"'{program}' dash serve '{site}' --listen 0.0.0.0:8080 --quic 10.77.1.1:7001"
    server = f"exec {serve} --shared-key '{key}' >&2"
    status, found, errors = emulated(laboratory, site, server, [PLAY, program, key])
    assert status == 0, errors
    outcome = found["outcome"]
    assert outcome["transports"] == ["mptcp"], outcome["events"]
    assert found["joined"] >= 1
    qoe = outcome["qoe"]
    assert [segment["segment"] for segment in qoe["segments"]] == list(range(SEGMENTS))
    assert qoe["stalls"] == 0
    start = outcome["events"][0]
    # The faster one is first, and both have the same delay.
    assert start["decision"] in ("start on MPTCP over p1, p2", "start on MPTCP over p2, p1")
    assert all(path["rtt_ms"] >= RTT_MS * 0.95 - 0.3 for path in start["paths"]), start


def test_the_experiment_plays_a_title_behind_switches_and_in_the_simulator(laboratory: Path, tmp_path: Path) -> None:
    (tmp_path / "short.toml").write_text(PAPER)
    words: list[str | Path] = [laboratory, "reproduce", tmp_path / "short.toml", "--world", "emu", "--json"]
    status, found, errors = outcome([*words, "--out", tmp_path / "out"])
    assert status == 0, errors
    [sample] = found["samples"]
    metrics = sample["metrics"]
    for name in ("start_up", "buffer", "throughput", "efficiency"):
        [real], [simulated] = metrics[name], metrics[f"simulated_{name}"]
        assert real > 0, metrics
        assert simulated > 0, metrics
    # The first segment takes a round trip of 120 ms and 22.5 kB at 2.6 Mbit/s at least.
    assert metrics["start_up"][0] > 0.12 + 22_500 * 8 / 2.6e6, metrics
    assert metrics["efficiency"][0] < 100, metrics
    assert sample["audit"]["attempts"] >= 1, sample
