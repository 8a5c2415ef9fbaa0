"""Switches and hosts in virtual time: what a fabric would send to the controller for each of its packet-outs.

It follows no flow rules: a probe of a route comes back after the delays of that route's links. Rules are tested with
Open vSwitch.
"""

import heapq
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import cast

from tributary_controller.measure import PROBE_SECONDS
from tributary_controller.openflow import frames, wire
from tributary_controller.openflow.network import Network, Wanted
from tributary_controller.openflow.switch import Connection
from tributary_controller.openflow.topology import Place, route_links

CONTROL_DELAY = 0.004
# Message types and a command of OpenFlow 1.3.
ECHO_REQUEST = 2
PACKET_OUT = 13
FLOW_MOD = 14
DELETE = 3


class FakeConnection:
    """Stands for `Connection`; gives packet-outs to the fabric."""

    def __init__(self, fabric: "Fabric", dpid: int, peer: str) -> None:
        self.fabric = fabric
        self.dpid: int | None = dpid
        self.peer = peer
        self.closed = False
        self.reason = ""
        self.heard = fabric.now
        # Command and cookie.
        self.flow_mods: list[tuple[int, int]] = []
        self._xid = 0

    def next_xid(self) -> int:
        self._xid += 1
        return self._xid

    def send(self, message: bytes) -> None:
        if message[1] == PACKET_OUT:
            (length,) = struct.unpack_from("!H", message, 16)
            actions = message[24 : 24 + length]
            ports = [port for _, _, port in struct.iter_unpack("!HHI8x", actions)]
            self.fabric.handle_packet_out(self, ports, message[24 + length :])
        elif message[1] == ECHO_REQUEST:
            self.fabric.handle_echo(self, message[8:])
        elif message[1] == FLOW_MOD:
            (cookie,) = struct.unpack_from("!Q", message, 8)
            self.flow_mods.append((message[25], cookie))

    def close(self, reason: str) -> None:
        if not self.closed:
            self.closed, self.reason = True, reason
            self.fabric.network.handle_closed(cast(Connection, self), reason)


@dataclass
class Fabric:
    """`links`: delay in seconds, one way, by place; `hosts`: address by place."""

    links: dict[Place, tuple[Place, float]]
    hosts: dict[Place, str]
    now: float = 100.0
    cut: set[Place] = field(default_factory=set)
    mute: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.network = Network(Wanted(), clock=lambda: self.now)
        self.connections: dict[int, FakeConnection] = {}
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self.heard = self.network.events.listen()

    def start(self) -> None:
        for dpid in sorted({place.dpid for place in [*self.links, *self.hosts]}):
            self.connect(dpid)

    def connect(self, dpid: int, peer: str = "127.0.0.1:1") -> FakeConnection:
        connection = FakeConnection(self, dpid, peer)
        self.network.handle_connected(cast(Connection, connection), wire.Features(dpid, 0))
        if not self.connections.get(dpid):
            self.connections[dpid] = connection
            places = [place for place in [*self.links, *self.hosts] if place.dpid == dpid]
            ports = tuple(wire.Port(place.port, f"port{place.port}", True) for place in places)
            self.give(dpid, wire.Ports(ports, False))
        return connection

    def give(self, dpid: int, message: wire.Message) -> None:
        self.network.handle_message(cast(Connection, self.connections[dpid]), message, self.now)

    def run(self, seconds: float) -> None:
        """Virtual time passes as `server.serve` lets it pass."""
        end = self.now + seconds
        tick = round(self.now * 20)
        while self.now < end:
            tick += 1
            self._run_queue(tick / 20)
            self.now = tick / 20
            for connection in self.connections.values():
                connection.heard = self.now
            self.network.handle_time(self.now)
            if tick % round(PROBE_SECONDS * 20) == 0:
                for key in self.network.prober.targets():
                    self.network.prober.ask(key)
            if tick % 20 == 0:
                self.network.handle_second(self.now)

    def events(self) -> list[str]:
        kinds = []
        while not self.heard._queue.empty():
            kinds.append(self.heard._queue.get_nowait().kind)
        return kinds

    def _run_queue(self, until: float) -> None:
        while self._queue and self._queue[0][0] <= until:
            self.now, _, work = heapq.heappop(self._queue)
            work()

    def _later(self, delay: float, dpid: int, port: int, frame: bytes) -> None:
        self._give_later(delay, dpid, wire.PacketIn(port, frame))

    def handle_echo(self, connection: FakeConnection, data: bytes) -> None:
        self._give_later(0.0, connection.dpid or 0, wire.EchoReply(data))

    def _give_later(self, delay: float, dpid: int, message: wire.Message) -> None:
        self._count += 1

        def work() -> None:
            if dpid in self.connections and not self.connections[dpid].closed:
                self.give(dpid, message)

        heapq.heappush(self._queue, (self.now + CONTROL_DELAY + delay, self._count, work))

    def handle_packet_out(self, connection: FakeConnection, ports: list[int], frame: bytes) -> None:
        dpid = connection.dpid or 0
        ethernet = frames.read_ethernet(frame)
        assert ethernet is not None
        for port in ports:
            place = Place(dpid, port)
            if port == wire.CONTROLLER:
                self._later(0.0, dpid, wire.CONTROLLER, frame)
            elif place in self.hosts:
                self._host_answers(place, frames.read_arp(ethernet.payload))
            elif place in self.links and not self._is_cut(place):
                self._cross(place, ethernet, frame)

    def _host_answers(self, place: Place, arp: frames.Arp | None) -> None:
        address = self.hosts[place]
        if arp is None or not arp.request or str(arp.target_ip) != address or address in self.mute:
            return
        mac = bytes([2, 0, 0, 0, place.dpid, place.port])
        answer = frames.Arp(False, mac, IPv4Address(address), arp.sender_mac, arp.sender_ip)
        self._later(0.0, place.dpid, place.port, answer.frame(arp.sender_mac))

    def _cross(self, place: Place, ethernet: frames.Ethernet, frame: bytes) -> None:
        other, delay = self.links[place]
        number = frames.number_of(frames.FORWARD_PREFIX, ethernet.destination)
        if ethernet.kind == frames.ETH_LLDP:
            self._later(delay, other.dpid, other.port, frame)
        elif number is not None:
            links = route_links(self.network._routing._by_number[number].route)
            if not any(self._is_cut(here) for here, _ in links):
                both_ways = 2 * sum(self.links[here][1] for here, _ in links)
                back = frames.numbered(frames.BACK_PREFIX, number) + frame[6:]
                self._later(both_ways, place.dpid, place.port, back)

    def _is_cut(self, place: Place) -> bool:
        return place in self.cut or self.links[place][0] in self.cut


def diamond() -> Fabric:
    """Client at switch 1, server at switch 4; 10 ms one way through switch 2, 30 ms through switch 3."""
    links: dict[Place, tuple[Place, float]] = {}
    for left, right, delay in (
        ((1, 1), (2, 1), 0.010),
        ((2, 2), (4, 1), 0.0),
        ((1, 2), (3, 1), 0.030),
        ((3, 2), (4, 2), 0.0),
    ):
        links[Place(*left)] = (Place(*right), delay)
        links[Place(*right)] = (Place(*left), delay)
    hosts = {Place(1, 3): "10.0.1.2", Place(1, 4): "10.0.2.2", Place(4, 3): "10.0.1.1", Place(4, 4): "10.0.2.1"}
    return Fabric(links, hosts)
