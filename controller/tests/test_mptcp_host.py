"""The MPTCP backend with the kernel's own MPTCP between two namespaces."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from ipaddress import ip_address

import pytest

from tributary_controller.backend import PathState
from tributary_controller.mptcp.kernel import Kernel, command

SERVER = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
s.bind(("10.77.1.1", 5000)); s.listen(); print("ready", flush=True)
c, _ = s.accept()
while d := c.recv(65536): c.sendall(d)
"""

pytestmark = pytest.mark.usefixtures("in_sandbox")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    """To a server in a namespace, over the first of two links."""
    ip("netns", "add", "peer")
    server = None
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
        run = ["ip", "netns", "exec", "peer", sys.executable, "-c", SERVER]
        server = subprocess.Popen(run, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP) as client:
            client.connect(("10.77.1.1", 5000))
            yield client
    finally:
        if server is not None:
            server.terminate()
            server.wait()
        ip("netns", "delete", "peer")
        subprocess.run(["ip", "mptcp", "endpoint", "flush"], check=True)


def exchange(client: socket.socket) -> None:
    client.sendall(b"x" * 1000)
    received = 0
    while received < 1000:
        received += len(client.recv(65536))


async def until(kernel: Kernel, client: socket.socket, wanted: dict[str, tuple[bool, bool]]) -> list[PathState]:
    """Polls until the paths, by local address, are (enabled, up) as wanted; fails after ten seconds."""
    for _ in range(200):
        exchange(client)
        kernel.handle_snapshot(await kernel.refresh())
        paths = kernel.paths()
        if {path.local: (path.enabled, path.up) for path in paths} == wanted:
            return paths
        await asyncio.sleep(0.05)
    raise AssertionError(kernel.paths())


def test_a_path_is_added_measured_removed_and_dies_with_its_device(connection: socket.socket) -> None:
    async def run() -> None:
        kernel = Kernel()
        (first,) = await until(kernel, connection, {"10.77.1.2": (True, True)})
        assert first.rtt_ms is not None
        assert first.via == ("m1",)
        added, created = await kernel.add(ip_address("10.77.2.2"), ip_address("10.77.2.1"))
        assert created
        assert not added.up, "nothing has measured it"
        assert '"10.77.2.2"' in await command(["ip", "-j", "mptcp", "endpoint", "show"])
        removed = await kernel.remove(first.id)
        assert not removed.enabled
        assert not [s for s in (await kernel.refresh()).subflows if str(s.local) == "10.77.1.2"]
        ip("link", "set", "m2", "down")
        kernel.handle_snapshot(await kernel.refresh())
        second = next(path for path in kernel.paths() if path.id == added.id)
        assert second.reason == "m2 is down or has no carrier"

    asyncio.run(run())
