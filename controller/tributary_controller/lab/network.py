"""Open vSwitch switches with the user-space datapath, hosts in namespaces, links with delay. Only inside a sandbox.

Starts its own ovsdb-server and ovs-vswitchd in a private directory and ends them by process id.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from tributary_controller.lab import sandbox

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
CONTROLLER = "tcp:127.0.0.1:6653"


class LabError(Exception):
    """A program of the laboratory failed; the text has its last words."""


@dataclass
class Link:
    """Two switches. With a delay in seconds, each way, frames go through the relay; with a tunnel, addresses of an
    emulated path, through `lab.tunnel`."""

    left: str
    right: str
    delay: float | None = None
    tunnel: tuple[str, str] | None = None


@dataclass
class Plan:
    """Switches get datapath ids 1, 2, ... in their order. `hosts`: namespace, address with length, switch.
    `server`: process in the emulator's server namespace, for tunnels."""

    switches: list[str]
    links: list[Link]
    hosts: list[tuple[str, str, str]]
    controller: str = CONTROLLER
    mtu: int = 1500
    server: str = ""


# Two paths between two hosts with two interfaces each: through s2 with 5 ms each way, through s3 with 20 ms.
TWO_PATHS = Plan(
    switches=["s1", "s2", "s3", "s4"],
    links=[Link("s1", "s2", 0.005), Link("s1", "s3", 0.020), Link("s2", "s4"), Link("s3", "s4")],
    hosts=[
        ("client", "10.0.1.2/24", "s1"),
        ("client", "10.0.2.2/24", "s1"),
        ("server", "10.0.1.1/24", "s4"),
        ("server", "10.0.2.1/24", "s4"),
    ],
)


@dataclass
class Lab:
    directory: Path
    plan: Plan
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    _logs: dict[int, Path] = field(default_factory=dict)
    relay: subprocess.Popen[str] | None = None
    _undo: list[list[str]] = field(default_factory=list)

    def start(self) -> None:
        self._start_switching()
        relayed, tunnels = self._make_links()
        self._make_hosts()
        if relayed:
            self.relay = self.spawn([sys.executable, "-m", "tributary_controller.lab.relay", *relayed], talk=True)
            self._expect(self.relay, "ready")
        if tunnels:
            tunnel = [sys.executable, "-m", "tributary_controller.lab.tunnel", self.plan.server, *tunnels]
            self._expect(self.spawn(tunnel, talk=True), "ready")

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for words in reversed(self._undo):
            # One end of a pair takes the other with it, and a namespace its interfaces.
            subprocess.run(["ip", *words], capture_output=True)

    def order(self, command: str) -> float:
        """Gives the relay a command; returns the time at which it was given."""
        assert self.relay is not None, "the plan has a link with a delay"
        assert self.relay.stdin is not None, "it was started with a pipe"
        began = time.monotonic()
        self.relay.stdin.write(command + "\n")
        self.relay.stdin.flush()
        self._expect(self.relay, "done")
        return began

    def run(self, *command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, env=self._environment())
        if done.returncode != 0:
            raise LabError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def vsctl(self, *words: str) -> str:
        return self.run("ovs-vsctl", f"--db=unix:{self.directory}/db.sock", "--timeout=10", *words)

    def spawn_in(self, namespace: str, command: list[str]) -> subprocess.Popen[str]:
        return self.spawn(["ip", "netns", "exec", namespace, *command])

    def _environment(self) -> dict[str, str]:
        where = {name: str(self.directory) for name in ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR")}
        return {**os.environ, **where}

    def spawn(self, command: list[str], talk: bool = False) -> subprocess.Popen[str]:
        path = self.directory / f"{Path(command[-1] if talk else command[0]).name}-{len(self.processes)}.log"
        log = path.open("w")
        pipe = subprocess.PIPE if talk else None
        process = subprocess.Popen(
            command,
            env=self._environment(),
            stdin=pipe or subprocess.DEVNULL,
            stdout=pipe or log,
            stderr=log,
            text=True,
        )
        self.processes.append(process)
        self._logs[process.pid] = path
        return process

    def last_words(self, process: subprocess.Popen[str]) -> str:
        """The end of a process's log, which goes with the directory."""
        lines = self._logs[process.pid].read_text(errors="replace").splitlines()
        return "\n".join(["its log ends with:", *lines[-10:]]) if lines else "its log is empty"

    def _expect(self, process: subprocess.Popen[str], word: str) -> None:
        assert process.stdout is not None, "it was started with a pipe"
        line = process.stdout.readline().strip()
        if line != word:
            raise LabError(f"the process said {line!r} in place of {word!r}; {self.last_words(process)}")

    def _start_switching(self) -> None:
        database, socket = self.directory / "conf.db", self.directory / "db.sock"
        self.run("ovsdb-tool", "create", str(database), SCHEMA)
        control = self.directory / "ovsdb.ctl"
        server = self.spawn(
            ["ovsdb-server", str(database), f"--remote=punix:{socket}", f"--unixctl={control}", "--no-chdir"]
        )
        self._until(socket.exists, server, "ovsdb-server")
        self.vsctl("--no-wait", "init")
        switch = self.spawn(
            ["ovs-vswitchd", f"unix:{socket}", f"--unixctl={self.directory}/vswitchd.ctl", "--no-chdir"]
        )
        # This process forwards the frames: on a busy machine its waiting for a processor would look like delay.
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(switch.pid, os.SCHED_FIFO, os.sched_param(1))
        words: list[str] = []
        for number, name in enumerate(self.plan.switches, start=1):
            words += ["--", "add-br", name, "--", "set", "bridge", name, "datapath_type=netdev", "fail-mode=secure"]
            words += ["protocols=OpenFlow13", f"other-config:datapath-id={number:016x}"]
            words += ["--", "set-controller", name, self.plan.controller]
            words += ["--", "set", "controller", name, "connection-mode=out-of-band", "max_backoff=1000"]
        self.vsctl(*words[1:])
        if switch.poll() is not None:
            raise LabError(f"ovs-vswitchd ended at once; {self.last_words(switch)}")

    def _until(self, ready: Callable[[], bool], process: subprocess.Popen[str], name: str) -> None:
        until = time.monotonic() + 10
        while not ready():
            if process.poll() is not None or time.monotonic() > until:
                raise LabError(f"{name} did not start; {self.last_words(process)}")
            time.sleep(0.01)

    def _make_links(self) -> tuple[list[str], list[str]]:
        relayed, tunnels = [], []
        added: list[str] = []
        for index, link in enumerate(self.plan.links):
            if link.delay is None and link.tunnel is None:
                self._veth(f"l{index}a", f"l{index}b")
            else:
                self._veth(f"l{index}a", f"r{index}a")
                self._veth(f"l{index}b", f"r{index}b")
            if link.delay is not None:
                relayed.append(f"r{index}a:r{index}b:{link.delay}")
            elif link.tunnel is not None:
                tunnels.append(":".join([f"r{index}a", *link.tunnel, f"r{index}b"]))
            added += ["--", "add-port", link.left, f"l{index}a", "--", "add-port", link.right, f"l{index}b"]
        self.vsctl(*added[1:])
        return relayed, tunnels

    def _make_hosts(self) -> None:
        for name in dict.fromkeys(name for name, _, _ in self.plan.hosts):
            self.run("ip", "netns", "add", name)
            self._undo.append(["netns", "delete", name])
            self.run("ip", "-n", name, "link", "set", "lo", "up")
            for setting in ("arp_ignore=1", "arp_announce=2"):
                # Each interface answers for its own address only, as two separate radios do.
                self.run("ip", "netns", "exec", name, "sysctl", "-qw", f"net.ipv4.conf.all.{setting}")
        added: list[str] = []
        for index, (name, address, switch) in enumerate(self.plan.hosts):
            self._veth(f"h{index}", f"eth{index}", host=True)
            self.run("ip", "link", "set", f"eth{index}", "netns", name)
            self.run("ip", "-n", name, "addr", "add", address, "dev", f"eth{index}")
            self.run("ip", "-n", name, "link", "set", f"eth{index}", "mtu", str(self.plan.mtu), "up")
            added += ["--", "add-port", switch, f"h{index}"]
        self.vsctl(*added[1:])

    def _veth(self, one: str, other: str, host: bool = False) -> None:
        """A pair of interfaces; with `host`, the other one is a host's, else a switch or a program has it."""
        self.run("ip", "link", "add", one, "type", "veth", "peer", "name", other)
        self._undo.append(["link", "delete", one])
        if host:
            # The user-space datapath forwards frames as they are: checksums must be complete.
            self.run("ethtool", "-K", other, "tx", "off")
        for end in (one, other):
            # This namespace may have the hosts' addresses, as the emulator's has: its kernel must not answer their ARP.
            arp = "on" if host and end == other else "off"
            self.run("ip", "link", "set", end, "addrgenmode", "none", "arp", arp, "up")


@contextlib.contextmanager
def laboratory(plan: Plan) -> Iterator[Lab]:
    """The network of a plan while the block runs."""
    if not sandbox.inside():
        raise LabError("not in a sandbox; run: python -m tributary_controller.lab.sandbox COMMAND")
    with TemporaryDirectory(prefix="tributary-lab-") as directory:
        lab = Lab(Path(directory), plan)
        try:
            lab.start()
            yield lab
        finally:
            lab.stop()
