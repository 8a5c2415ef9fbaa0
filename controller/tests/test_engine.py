"""The decision engine of `tributary dash play` against the real controller, which steers the kernel's MPTCP."""

import contextlib
import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from conftest import until

TOKEN = "0123456789abcdef"
REST = "127.0.0.1:8181"
SEGMENTS = 24
KBPS = 800

pytestmark = pytest.mark.usefixtures("in_sandbox")


def shape(device: str, *where: str) -> None:
    """1 Mbit/s: hardly more than the title needs, so that the play buffer stays low."""
    limit = ["rate", "1mbit", "burst", "10kb", "latency", "200ms"]
    subprocess.run(["tc", *where, "qdisc", "add", "dev", device, "root", "tbf", *limit], check=True)


@contextlib.contextmanager
def running(command: list[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def similar(known: list[Any]) -> bool:
    """Both paths are up, and the engine begins with both. On a busy machine one RTT, here a fraction of a millisecond,
    is sometimes many times the other."""
    rtt = [path["rtt_ms"] for path in known if path["up"] and path["rtt_ms"] is not None]
    return len(rtt) == 2 and max(rtt) < 4 * min(rtt)


@pytest.fixture
def network(peer: list[str]) -> list[str]:
    """What runs a command in a namespace with the server, behind two slow links."""
    for number in (1, 2):
        shape(f"n{number}", "-n", "peer")
    return peer


def write_title(directory: Path) -> None:
    """One quality in segments of a second; the player looks at sizes and times only."""
    (directory / "init.mp4").write_bytes(b"init")
    for number in range(1, SEGMENTS + 1):
        (directory / f"{number}.m4s").write_bytes(struct.pack(">I", number) * (KBPS * 1000 // 8 // 4))
    (directory / "manifest.mpd").write_text(
        f"<MPD mediaPresentationDuration='PT{SEGMENTS}S'><Period><AdaptationSet contentType='video'>"
        "<SegmentTemplate timescale='1' duration='1' startNumber='1' initialization='init.mp4' media='$Number$.m4s'/>"
        f"<Representation id='v' bandwidth='{KBPS * 1000}'/></AdaptationSet></Period></MPD>"
    )


def paths() -> dict[str, dict[str, Any]]:
    """The controller's paths by their local address."""
    request = Request(f"http://{REST}/v1/paths?all=true", headers={"Authorization": f"Bearer {TOKEN}"})
    with urlopen(request, timeout=5) as answer:
        return {path["local"]: path for path in json.load(answer)["paths"]}


def test_a_path_dies_in_mid_play_and_the_engine_goes_on_over_quic(
    network: list[str], program: Path, tmp_path: Path
) -> None:
    tributary = str(program)
    title, token, saved = tmp_path / "title", tmp_path / "token", tmp_path / "saved"
    title.mkdir()
    write_title(title)
    token.write_text(TOKEN)
    token.chmod(0o600)
    serve = [*network, tributary, "dash", "serve", str(title), "--json"]
    serve += ["--listen", "0.0.0.0:8080", "--quic", "0.0.0.0:7001"]
    steer = [sys.executable, "-m", "tributary_controller", "--backend", "mptcp", "--listen", REST]
    steer += ["--token-file", str(token), "--quiet"]
    with running(serve) as server, running(steer):
        assert server.stdout is not None
        pin = json.loads(server.stdout.readline())["fingerprint"]
        until("the controller listens", lambda: paths() is not None)
        for number in (1, 2):
            pair = {"local": f"10.77.{number}.2", "remote": f"10.77.{number}.1"}
            headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
            request = Request(f"http://{REST}/v1/paths", json.dumps(pair).encode(), headers)
            urlopen(request, timeout=5).close()
        until("both paths are up with similar round trips", lambda: similar(list(paths().values())))
        play = [tributary, "dash", "play", "http://10.77.1.1:8080/manifest.mpd", "--transport", "engine", "--json"]
        play += ["--controller", f"http://{REST}", "--controller-token", str(token), "--save", str(saved)]
        play += ["--quic", "7001", "--pin", pin, "--congestion", "cubic"]
        with running(play) as player:
            second = "10.77.2.2"
            until("the second path carries media", lambda: (paths()[second]["rate_mbps"] or 0) > 0.3)
            subprocess.run(["ip", "link", "set", "m2", "down"], check=True)
            output, _ = player.communicate(timeout=120)
        removed = paths()[second]
    outcome = json.loads(output)
    decisions = [event["decision"] for event in outcome["events"] if "decision" in event]
    assert decisions[0].startswith("start on MPTCP over "), decisions
    assert any(one.startswith("remove ") for one in decisions), decisions
    assert any(one.startswith("move to QUIC over ") for one in decisions), decisions
    assert outcome["transports"] == ["mptcp", "quic"], outcome["transports"]
    assert not removed["enabled"], "the engine's order has reached the controller"
    assert outcome["given_up"] is None
    expected = b"init" + b"".join((title / f"{number}.m4s").read_bytes() for number in range(1, SEGMENTS + 1))
    assert saved.read_bytes() == expected, "media was lost, doubled or mixed up"
