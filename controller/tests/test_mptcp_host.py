"""The MPTCP backend with the kernel's own MPTCP between two namespaces."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from ipaddress import ip_address

import pytest
from conftest import HANG_SECONDS

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


@pytest.fixture
def connection(peer: list[str]) -> Iterator[socket.socket]:
    """To a server in a namespace, over the first of two links."""
    server = subprocess.Popen([*peer, sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP) as client:
            client.connect(("10.77.1.1", 5000))
            yield client
    finally:
        server.terminate()
        server.wait()


def exchange(client: socket.socket) -> None:
    client.sendall(b"x" * 1000)
    received = 0
    while received < 1000:
        received += len(client.recv(65536))


async def until(kernel: Kernel, client: socket.socket, wanted: dict[str, tuple[bool, bool]]) -> list[PathState]:
    """Polls until the paths, by local address, are (enabled, up) as wanted."""
    limit = time.monotonic() + HANG_SECONDS
    while time.monotonic() < limit:
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
        await command(["ip", "link", "set", "m2", "down"])
        kernel.handle_snapshot(await kernel.refresh())
        second = next(path for path in kernel.paths() if path.id == added.id)
        assert second.reason == "m2 is down or has no carrier"

    asyncio.run(run())
