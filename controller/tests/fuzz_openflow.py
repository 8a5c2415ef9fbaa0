"""Fuzzes what switches send: framing, messages, and the frames in them, up to the state of the whole backend.

    pip install atheris
    python tests/fuzz_openflow.py DIRECTORY -max_total_time=600

Inputs that reach new code are kept in the directory; the recorded messages are the first. Guided by the
coverage of the controller and of os-ken's parser. No test of pytest: a crash becomes one.
"""

import itertools
import json
import sys
from ipaddress import IPv4Network
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["os_ken.ofproto", "os_ken.lib", "tributary_controller"]):
    from tributary_controller.measure import PROBE_SECONDS
    from tributary_controller.openflow.network import Network, Wanted
    from tributary_controller.openflow.switch import UNSENT_LIMIT, Connection

RECORDED = Path(__file__).parent / "data" / "open-vswitch.hex"
# That of the recorded frames, so that they count as the controller's own.
NONCE = bytes.fromhex("09784fd73e842d9c")
PLACES = 3
LARGEST_RECORD = 255
ANYONE = (IPv4Network("0.0.0.0/0"),)


class Transport:
    """Takes everything."""

    peer = "127.0.0.1:4"
    unsent = 0

    def __init__(self) -> None:
        self.aborted = False

    def write(self, data: bytes) -> None:
        assert 8 <= len(data) < UNSENT_LIMIT
        assert not self.aborted

    def abort(self) -> None:
        assert not self.aborted
        self.aborted = True


def attempt(data: bytes) -> None:
    """Records of a command byte, a length byte, and that many bytes from a switch.

    Command: bits 0-1 the connection, of which 3 stands for an end of the first; bits 2-7 the time before it, in steps
    of 50 ms.
    """
    now = [100.0]
    network = Network(Wanted(clients=ANYONE, servers=ANYONE), clock=lambda: now[0])
    network.nonce = NONCE
    connections: dict[int, tuple[Connection, Transport]] = {}
    ticks = itertools.count(1)
    while len(data) >= 2:
        command, received, data = data[0], data[2 : 2 + data[1]], data[2 + data[1] :]
        for _ in range(command >> 2):
            now[0] += 0.05
            pass_time(network, [connection for connection, _ in connections.values()], now[0], next(ticks))
        place = command & 3
        if place == PLACES:
            if 0 in connections:
                connections.pop(0)[0].connection_lost()
            continue
        if place not in connections or connections[place][1].aborted:
            connections[place] = connection, transport = Connection(network, lambda: now[0]), Transport()
            connection.connection_made(transport)
        connections[place][0].data_received(received, now[0])
    json.dumps([network.health(), [path.document() for path in network.paths()]])


def pass_time(network: Network, connections: list[Connection], now: float, tick: int) -> None:
    """As `server.serve` lets it pass."""
    network.handle_time(now)
    if tick % round(PROBE_SECONDS * 20) == 0:
        for key in network.prober.targets():
            network.prober.ask(key)
    if tick % 20 == 0:
        network.handle_second(now)
        for connection in connections:
            if not connection.closed:
                connection.handle_time(now)


def seeds() -> list[bytes]:
    """The recorded session, as switch 1, and as two switches of which the second has the number 2."""
    messages = [bytes.fromhex(line) for line in RECORDED.read_text().split()]
    pieces = [one[at : at + LARGEST_RECORD] for one in messages for at in range(0, len(one), LARGEST_RECORD)]
    first, second = (b"".join(bytes([4 + place, len(one)]) + one for one in pieces) for place in (0, 1))
    return [first, first + second.replace(bytes([0, 0, 0, 0, 0, 0, 0, 1]), bytes([0, 0, 0, 0, 0, 0, 0, 2]))]


def main() -> None:
    for directory in (Path(word) for word in sys.argv[1:] if not word.startswith("-")):
        if directory.is_dir():
            for number, seed in enumerate(seeds()):
                (directory / f"recorded-{number}").write_bytes(seed)
    atheris.Setup(sys.argv, attempt)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
