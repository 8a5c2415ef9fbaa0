"""Switches, a controller, a client and a server over the links of an emulated network; runs a command on the client.

    tributary-lab emu run SCENARIO --server 'exec PYTHON -m tributary_controller.lab.stay' -- \\
        PYTHON -m tributary_controller.lab.emulated [--server COMMAND] -- COMMAND...

Each path of the scenario is a link between two switches, one at the client's radio and one at the server's: as in life,
a radio cannot use another one's link. `tributary-lab emu run --sdn` gives these commands. The client's command finds
the emulator's variables, the controller's REST interface at TRIBUTARY_CONTROLLER, and the file with its token at
TRIBUTARY_CONTROLLER_TOKEN. Ends with the command's exit status.
"""

import argparse
import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tributary_controller.lab import sandbox
from tributary_controller.lab.network import Lab, LabError, Link, Plan, laboratory

# Between the switches and the controller, which runs beside the client.
SWITCH_SIDE, CONTROLLER_SIDE = "10.76.0.1", "10.76.0.2"
REST = "http://127.0.0.1:8181"
# What is left of 1500 bytes after the datagram around a frame.
HOST_MTU = 1400
WAIT_SECONDS = 20.0
PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def parent(process: str) -> str:
    """The parent's process id, as /proc counts."""
    # The second field, a name in parentheses, may contain spaces.
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1]


def server_process() -> str:
    """The process of `lab.stay`. The emulator is the parent of both sides, and starts the server's first."""
    own, emulator = Path("/proc/self").resolve().name, parent("self")
    for directory in Path("/proc").glob("[0-9]*"):
        # A process may end meanwhile.
        with contextlib.suppress(OSError):
            stays = b"tributary_controller.lab.stay" in (directory / "cmdline").read_bytes()
            if stays and directory.name != own and parent(directory.name) == emulator:
                return directory.name
    raise LabError("the server's side is absent; use `tributary-lab emu run --sdn`, which starts both sides")


def scenario_paths() -> list[tuple[str, str]]:
    """Addresses of client and server on each path."""
    names = os.environ.get("TRIBUTARY_PATHS", "").split()
    if not names:
        raise LabError("not in an emulated network; run this by: tributary-lab emu run SCENARIO -- ...")
    labels = [name.upper().replace("-", "_") for name in names]
    return [(os.environ[f"TRIBUTARY_CLIENT_{label}"], os.environ[f"TRIBUTARY_SERVER_{label}"]) for label in labels]


def plan(paths: list[tuple[str, str]], server: str) -> Plan:
    hosts, links, switches = [], [], []
    for number, (client, remote) in enumerate(paths, start=1):
        near, far = f"near{number}", f"far{number}"
        switches += [near, far]
        hosts += [("client", f"{client}/24", near), ("server", f"{remote}/24", far)]
        links.append(Link(near, far, tunnel=(client, remote)))
    return Plan(switches, links, hosts, f"tcp:{CONTROLLER_SIDE}:6653", HOST_MTU, server)


def mptcp_on_every_path(lab: Lab, paths: list[tuple[str, str]]) -> None:
    """Connections of the kernel's MPTCP begin on one path; the server then announces its addresses on the others."""
    # A kernel without MPTCP refuses; everything else works there.
    with contextlib.suppress(LabError):
        for host in ("client", "server"):
            lab.run("ip", "-n", host, "mptcp", "limits", "set", "subflows", "8", "add_addr_accepted", "8")
        for _, address in paths:
            lab.run("ip", "-n", "server", "mptcp", "endpoint", "add", address, "signal")


@contextlib.contextmanager
def started(paths: list[tuple[str, str]]) -> Iterator[tuple[Lab, subprocess.Popen[str], Path]]:
    """The laboratory, its controller, and the file with the controller's token."""
    with laboratory(plan(paths, server_process())) as lab:
        lab.run("ip", "link", "add", "control0", "type", "veth", "peer", "name", "control1", "netns", "client")
        lab.run("ip", "address", "add", f"{SWITCH_SIDE}/30", "dev", "control0")
        lab.run("ip", "link", "set", "control0", "up")
        lab.run("ip", "-n", "client", "address", "add", f"{CONTROLLER_SIDE}/30", "dev", "control1")
        lab.run("ip", "-n", "client", "link", "set", "control1", "up")
        mptcp_on_every_path(lab, paths)
        pairs = [f"--path={client}={remote}" for client, remote in paths]
        token_file = lab.directory / "controller.token"
        command = [sys.executable, "-m", "tributary_controller", "--switches", f"{CONTROLLER_SIDE}:6653", *pairs]
        yield lab, lab.spawn_in("client", [*command, f"--token-file={token_file}"]), token_file


# Asks for the paths at the URL, with the token in the file.
ASK = """
import pathlib, sys, urllib.request
token = pathlib.Path(sys.argv[2]).read_text().strip()
request = urllib.request.Request(sys.argv[1] + "/v1/paths", headers={"Authorization": "Bearer " + token})
print(urllib.request.urlopen(request, timeout=5).read().decode())
"""


def wait_until_up(lab: Lab, controller: subprocess.Popen[str], token_file: Path) -> list[Any]:
    """Asks as the command will ask. A path that the scenario starts dead is not waited for beyond the limit."""
    until = time.monotonic() + WAIT_SECONDS
    paths: list[Any] = []
    while time.monotonic() < until:
        with contextlib.suppress(LabError):
            answer = lab.run("ip", "netns", "exec", "client", sys.executable, "-c", ASK, REST, str(token_file))
            paths = json.loads(answer)["paths"]
            if all(path["up"] for path in paths):
                break
        time.sleep(0.1)
    if not paths:
        raise LabError(f"the controller does not answer; {lab.last_words(controller)}")
    return paths


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tributary_controller.lab.emulated", description=__doc__)
    options.add_argument("--server", help="shell command for the server, ended when the client's command ends")
    options.add_argument("command", nargs="+")
    arguments = options.parse_args()
    lacking = sandbox.absent()
    if lacking:
        sys.exit(f"emulated: absent programs: {', '.join(lacking)}; scripts/setup --sdn installs them")
    if not sandbox.inside():
        sandbox.enter([sys.executable, "-m", "tributary_controller.lab.emulated", *sys.argv[1:]], ["--mount"])
    die_with_parent()
    try:
        with started(scenario_paths()) as (lab, controller, token_file):
            for path in wait_until_up(lab, controller, token_file):
                rtt = "unknown" if path["rtt_ms"] is None else f"{path['rtt_ms']:.1f} ms"
                state = "up" if path["up"] else f"down: {path['reason']}"
                print(f"{path['id']} {path['local']} to {path['remote']}: {state}, RTT {rtt}", file=sys.stderr)
            os.environ["TRIBUTARY_CONTROLLER"] = REST
            os.environ["TRIBUTARY_CONTROLLER_TOKEN"] = str(token_file)
            if arguments.server is not None:
                # Its output goes where the emulator's goes, as without switches.
                words = ["ip", "netns", "exec", "server", "sh", "-c", arguments.server]
                lab.processes.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, text=True))
            status = subprocess.run(["ip", "netns", "exec", "client", *arguments.command]).returncode
    except LabError as error:
        sys.exit(f"emulated: {error}")
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
