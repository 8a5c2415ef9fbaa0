"""The MPTCP backend with recorded output of ip and ss, and commands that fail."""

import asyncio
from ipaddress import ip_address

import pytest
from conftest import DATA

from tributary_controller.mptcp import tools
from tributary_controller.mptcp.echo import echo_request, read_reply
from tributary_controller.mptcp.kernel import FORGET_SECONDS, CommandError, Kernel, Snapshot
from tributary_controller.problem import Problem

FIRST = (ip_address("10.77.1.2"), ip_address("10.77.1.1"))


def read(name: str) -> str:
    return (DATA / name).read_text()


class Host:
    """Answers commands from recordings and keeps those that change something."""

    def __init__(self) -> None:
        self.sockets = read("ss.txt")
        self.orders: list[str] = []
        self.refuses = False
        self.now = 0.0

    async def run(self, words: list[str]) -> str:
        if self.refuses:
            raise CommandError(f"{' '.join(words)}: Operation not permitted")
        if words[0] == "ss":
            return self.sockets
        if "show" in words:
            return read("addresses.json" if "address" in words else "endpoints.json")
        self.orders.append(" ".join(words))
        return ""

    def kernel(self) -> Kernel:
        return Kernel(self.run, lambda: self.now)

    def snapshot(self) -> Snapshot:
        return Snapshot(
            self.now,
            tools.read_subflows(self.sockets),
            tools.read_endpoints(read("endpoints.json")),
            tools.read_devices(read("addresses.json")),
        )


def test_recorded_subflows_are_read() -> None:
    second, first = tools.read_subflows(read("ss.txt"))
    assert (first.local, first.remote) == FIRST
    assert second.local == ip_address("10.77.2.2")
    assert first.rtt_ms is not None
    assert first.sent_bytes > 0
    assert not first.dead
    assert all(subflow.dead for subflow in tools.read_subflows(read("ss-dead.txt")))
    assert tools.read_subflows(read("ss-dead.txt"))[1].retransmitted == 4


def test_ipv6_and_strange_lines() -> None:
    line = read("ss.txt").splitlines()[0]
    six = line.replace("10.77.2.2%c2:", "[fd77::2]%c2:").replace("10.77.1.1:", "[::ffff:10.0.0.1]:")
    (subflow,) = tools.read_subflows(six)
    assert (subflow.local, subflow.remote) == (ip_address("fd77::2"), ip_address("10.0.0.1"))
    for cut in range(len(line)):
        tools.read_subflows(line[:cut] + " tcp-ulp-mptcp")
    for text in ("", "null", "[1, {}]", "{", '[{"addr_info": 3, "flags": 1}]', '[{"addr_info": [{"local": 1}]}]'):
        assert tools.read_endpoints(text) == []
        assert tools.read_devices(text) == {}


def test_paths_come_from_subflows_and_die_with_them() -> None:
    host = Host()
    kernel = host.kernel()
    kernel.handle_snapshot(host.snapshot())
    assert [(path.local, path.up) for path in kernel.paths()] == [("10.77.2.2", True), ("10.77.1.2", True)]
    assert kernel.paths()[1].rtt_ms is not None
    host.sockets = read("ss-dead.txt")
    kernel.handle_snapshot(host.snapshot())
    assert [path.up for path in kernel.paths()] == [False, False]
    assert kernel.paths()[0].reason == "its subflows' data is not acknowledged"
    host.sockets = ""
    host.now = FORGET_SECONDS + 1
    kernel.handle_snapshot(host.snapshot())
    assert kernel.paths() == []


def test_a_device_that_goes_down_takes_its_paths_down() -> None:
    host = Host()
    kernel = host.kernel()
    kernel.handle_snapshot(host.snapshot())
    snapshot = host.snapshot()
    devices = {a: tools.Device(d.name, d.name != "c1") for a, d in snapshot.devices.items()}
    kernel.handle_snapshot(Snapshot(0.3, snapshot.subflows, snapshot.endpoints, devices))
    assert {path.local: path.up for path in kernel.paths()} == {"10.77.1.2": False, "10.77.2.2": True}


def test_adding_and_removing_give_the_kernels_commands() -> None:
    host = Host()
    kernel = host.kernel()
    path, created = asyncio.run(kernel.add(*FIRST))
    assert created
    assert host.orders == ["ip mptcp endpoint add 10.77.1.2 dev c1 subflow"]
    host.orders.clear()
    other, _ = asyncio.run(kernel.add(ip_address("10.77.2.2"), ip_address("10.77.2.1")))
    assert host.orders == [], "its endpoint exists"
    asyncio.run(kernel.remove(other.id))
    assert host.orders == ["ip mptcp endpoint delete id 1"]
    host.orders.clear()
    removed = asyncio.run(kernel.remove(path.id))
    assert host.orders == ["ip mptcp endpoint delete id 0 10.77.1.2"], "the first subflow of a connection"
    assert not removed.enabled
    asyncio.run(kernel.remove(path.id))
    assert len(host.orders) == 1, "removing twice changes nothing"


def test_a_path_is_up_only_when_something_measured_it() -> None:
    host = Host()
    kernel = host.kernel()
    path, _ = asyncio.run(kernel.add(ip_address("10.77.1.2"), ip_address("10.77.1.9")))
    assert not path.up
    assert path.reason is not None
    assert path.reason.startswith("not measured yet")
    for known in kernel.paths():
        assert not known.up or (known.rtt_ms is not None and known.at is not None)


def test_refusals_name_the_thing() -> None:
    host = Host()
    kernel = host.kernel()
    with pytest.raises(Problem, match="9 is not an address of this host"):
        asyncio.run(kernel.add(ip_address("10.0.0.9"), FIRST[1]))
    with pytest.raises(Problem, match="no path 'p9'"):
        asyncio.run(kernel.remove("p9"))
    host.refuses = True
    with pytest.raises(Problem, match="Operation not permitted"):
        asyncio.run(kernel.add(*FIRST))


def test_echo_messages() -> None:
    request = echo_request(4, 7, 9)
    reply = bytes([0x45]) + bytes(19) + b"\0\0" + request[2:]
    assert read_reply(4, 7, reply) == 9
    assert read_reply(4, 8, reply) is None
    assert read_reply(6, 7, b"\x81" + echo_request(6, 7, 10)[1:]) == 10
    for size in range(28):
        assert read_reply(4, 7, reply[:size]) is None
