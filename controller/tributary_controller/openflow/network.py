"""The OpenFlow backend: switches connect to it, it finds hosts, links and paths, measures them and installs flows.

Paths are pairs of addresses. Between two switches up to four routes are measured; a path uses one of them and changes
to another when its own dies. What it does not do: IPv6, VLANs, subnets behind a router.
"""

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from tributary_controller.backend import Address, PathState
from tributary_controller.events import EventBus
from tributary_controller.measure import Counter, LinkLoss, one_way
from tributary_controller.openflow import frames, rules, wire
from tributary_controller.openflow.prober import Prober, Target
from tributary_controller.openflow.routing import Path, Routing
from tributary_controller.openflow.switch import Connection
from tributary_controller.openflow.topology import Place, Topology, route_links
from tributary_controller.problem import Problem, too_many_paths, unknown_path

log = logging.getLogger("tributary_controller")

PATH_LIMIT = 256
SWITCH_LIMIT = 256
# Addresses whose flapping was told; beyond it all may be told again.
FLAPPING_LIMIT = 1000
# A tick later than this means that the program itself was stopped: deaths are judged at the next one.
LATE_SECONDS = 0.25


@dataclass
class Switch:
    """A connected switch."""

    connection: Connection
    metered: bool = True
    meter_xid: int = -1


@dataclass(frozen=True)
class Wanted:
    """Paths that are made without being asked for: each client in `clients` with each server in `servers`."""

    clients: tuple[IPv4Network, ...] = ()
    servers: tuple[IPv4Network, ...] = ()

    def is_client(self, address: IPv4Address) -> bool:
        return any(address in network for network in self.clients)

    def is_server(self, address: IPv4Address) -> bool:
        return any(address in network for network in self.servers)


class Network:
    """All state of the backend. Driven by connections, by REST calls, and by `handle_time` and `ask`."""

    name = "openflow"

    def __init__(self, wanted: Wanted, clock: Callable[[], float] = time.monotonic) -> None:
        self.events = EventBus()
        self.clock = clock
        self.topology = Topology()
        self.prober = Prober(clock)
        self.nonce = os.urandom(frames.NONCE_BYTES)
        self._wanted = wanted
        self._switches: dict[int, Switch] = {}
        self._rivals: list[tuple[Connection, wire.Features, float]] = []
        self._routing = Routing(self)
        self._paths: dict[tuple[IPv4Address, IPv4Address], Path] = {}
        self._link_loss: dict[Place, LinkLoss] = {}
        self._next_path = 1
        self._flapping: dict[IPv4Address, float] = {}
        self._malformed = 0
        self._last_tick = clock()

    # The interface of `Backend`.

    def paths(self) -> list[PathState]:
        return [self._state(path) for path in self._paths.values()]

    async def add(self, local: Address, remote: Address) -> tuple[PathState, bool]:
        if not isinstance(local, IPv4Address) or not isinstance(remote, IPv4Address):
            raise Problem(409, "family not supported", f"{local} is IPv6", "the openflow backend needs IPv4 addresses")
        known = self._paths.get((local, remote))
        path = known or self._new_path(local, remote)
        if known is not None and not known.enabled:
            known.enabled = True
            self.publish_path("path-added", f"path {path.id} is in use again", path)
        self._routing.review()
        return self._state(path), known is None

    async def remove(self, path_id: str) -> PathState:
        for path in self._paths.values():
            if path.id == path_id:
                if path.enabled:
                    path.enabled = False
                    self._routing.review()
                    self.publish_path("path-removed", f"path {path.id} is removed", path)
                return self._state(path)
        raise unknown_path(path_id, [path.id for path in self._paths.values()])

    def health(self) -> dict[str, object]:
        switches = [
            {
                "dpid": f"{dpid:016x}",
                "peer": switch.connection.peer,
                "ports": len(self.topology.ports.get(dpid, {})),
                "control_rtt_ms": _milliseconds(self.prober.target(("echo", dpid))),
            }
            for dpid, switch in sorted(self._switches.items())
        ]
        links = [f"{here} - {there}" for here, there in sorted(self.topology.links.items()) if here < there]
        hosts = {str(host.address): str(host.place) for host in self.topology.hosts.values()}
        return {
            "ok": bool(switches),
            "reason": None if switches else "no switch is connected; point one here: ovs-vsctl set-controller",
            "switches": switches,
            "links": links,
            "hosts": hosts,
            "malformed_messages": self._malformed,
        }

    # Time.

    def handle_time(self, now: float) -> None:
        """Called about twenty times a second."""
        late, self._last_tick = now - self._last_tick > LATE_SECONDS, now
        if late:
            return
        died = self.prober.handle_time(now)
        gone = self.topology.handle_time(now)
        for here, there in gone:
            self._publish_link("link-lost", here, there)
        self._routing.review(changed=died or bool(gone))

    def handle_second(self, now: float) -> None:
        """Called each second: statistics, link discovery, connections that went silent, hosts that are looked for."""
        for connection, features, since in list(self._rivals):
            if now - since > 1.0:
                self._rivals.remove((connection, features, since))
                self._settle(connection, features)
        for dpid, switch in list(self._switches.items()):
            connection = switch.connection
            connection.send(wire.port_statistics_request(connection.next_xid()))
            mask = rules.MASK_KIND
            connection.send(wire.flow_statistics_request(connection.next_xid(), rules.PATH, mask))
            for port in self.topology.ports.get(dpid, {}):
                self._announce(Place(dpid, port))
        for address in {end for pair in self._paths for end in pair}:
            if address not in self.topology.hosts:
                self._look_for(address)
        self._routing.review(changed=False, spread=True)

    # Switches.

    def handle_connected(self, connection: Connection, features: wire.Features) -> None:
        first = self._switches.get(features.dpid)
        if first is None:
            if len(self._switches) >= SWITCH_LIMIT:
                connection.close(f"{SWITCH_LIMIT} switches are connected, which is the limit")
                return
            self._welcome(connection, features)
            return
        # Either two switches have the same datapath id, or the first one's connection is dead and nobody has noticed.
        # An echo tells: the first has one second to say something.
        first.connection.send(wire.echo_request(first.connection.next_xid(), b""))
        self._rivals.append((connection, features, self.clock()))

    def _settle(self, rival: Connection, features: wire.Features) -> None:
        first = self._switches.get(features.dpid)
        if first is None or rival.closed:
            if not rival.closed:
                self._welcome(rival, features)
            return
        if self.clock() - first.connection.heard < 1.0:
            message = (
                f"{rival.peer} says it is switch {features.dpid:x}, which is connected from {first.connection.peer}; "
                "give each bridge its own other-config:datapath-id"
            )
            self.events.publish("switch-refused", message, dpid=f"{features.dpid:016x}", peer=rival.peer)
            rival.close("its datapath id is in use")
            return
        first.connection.close("silent, and the switch connected again")
        self._welcome(rival, features)

    def _welcome(self, connection: Connection, features: wire.Features) -> None:
        dpid = features.dpid
        self._switches[dpid] = switch = Switch(connection)
        self.topology.handle_switch(dpid)
        connection.send(wire.delete_rules(connection.next_xid(), rules.COOKIE_OWN, rules.MASK_OWN))
        connection.send(wire.delete_meter(connection.next_xid()))
        switch.meter_xid = connection.next_xid()
        connection.send(wire.add_meter(switch.meter_xid))
        self._install_base(switch)
        connection.send(wire.ports_request(connection.next_xid()))
        self.prober.add(("echo", dpid), lambda number: self._echo_probe(dpid, number))
        self.prober.add(("loop", dpid), lambda number: self._loop_probe(dpid, number))
        message = f"switch {dpid:x} is connected from {connection.peer}"
        self.events.publish("switch-connected", message, dpid=f"{dpid:016x}", peer=connection.peer)

    def _install_base(self, switch: Switch) -> None:
        for rule in rules.base(switch.metered):
            switch.connection.send(wire.add_rule(switch.connection.next_xid(), rule))

    def handle_closed(self, connection: Connection, reason: str) -> None:
        self._rivals = [rival for rival in self._rivals if rival[0] is not connection]
        dpid = connection.dpid
        if dpid is None or dpid not in self._switches or self._switches[dpid].connection is not connection:
            log.info("connection from %s closed: %s", connection.peer, reason)
            return
        del self._switches[dpid]
        self.prober.remove(("echo", dpid))
        self.prober.remove(("loop", dpid))
        lost = self.topology.handle_switch_gone(dpid)
        message = f"switch {dpid:x} is disconnected: {reason}"
        self.events.publish("switch-disconnected", message, dpid=f"{dpid:016x}", reason=reason)
        for host in lost:
            self.events.publish(
                "host-lost", f"host {host.address} went with switch {dpid:x}", address=str(host.address)
            )
        self._routing.review(changed=True)

    def handle_malformed(self, connection: Connection, reason: str) -> None:
        self._malformed += 1
        who = connection.peer if connection.dpid is None else f"switch {connection.dpid:x}"
        self.events.publish("malformed", f"malformed OpenFlow message from {who}: {reason}", peer=connection.peer)

    def send_to(self, dpid: int, build: Callable[[int], bytes]) -> None:
        """Sends to a switch that is connected; `build` gets the message's number."""
        switch = self._switches.get(dpid)
        if switch is not None:
            switch.connection.send(build(switch.connection.next_xid()))

    def connected(self, dpid: int) -> bool:
        return dpid in self._switches

    # Messages.

    def handle_message(self, connection: Connection, message: wire.Message, now: float) -> None:
        dpid = connection.dpid
        if dpid is None or dpid not in self._switches or self._switches[dpid].connection is not connection:
            return
        match message:
            case wire.EchoReply(data):
                echo = self.prober.target(("echo", dpid))
                self.prober.handle_answer(int.from_bytes(data, "big"), now, lambda target: target is echo)
            case wire.PacketIn(in_port, frame):
                self._handle_frame(Place(dpid, in_port), frame, now)
            case wire.Ports(ports):
                for port in ports:
                    self._handle_port(dpid, port)
            case wire.PortStatus(deleted, port):
                self._handle_port(dpid, port, deleted)
            case wire.PortStatistics(counters):
                for one in counters:
                    self._handle_port_counters(Place(dpid, one.port), one, now)
            case wire.FlowStatistics(counters):
                self._handle_flow_counters(dpid, counters, now)
            case wire.Refusal():
                self._handle_refusal(self._switches[dpid], dpid, message)
            case _:
                pass

    def _handle_refusal(self, switch: Switch, dpid: int, refusal: wire.Refusal) -> None:
        if refusal.xid == switch.meter_xid and switch.metered:
            switch.metered = False
            self._install_base(switch)
            text = f"switch {dpid:x} has no meters: hosts can send any number of frames to the controller"
        else:
            text = f"switch {dpid:x} refused a message: OpenFlow error type {refusal.kind} code {refusal.code}"
        self.events.publish("switch-refusal", text, dpid=f"{dpid:016x}", type=refusal.kind, code=refusal.code)

    def _handle_port(self, dpid: int, port: wire.Port, deleted: bool = False) -> None:
        if not 0 < port.number <= wire.LARGEST_PORT:
            return
        place = Place(dpid, port.number)
        before = self.topology.ports.get(dpid, {}).get(port.number)
        live = port.live and not deleted
        lost = self.topology.handle_port_gone(place) if deleted else self.topology.handle_port(place, live)
        if before is not None and before != live:
            state = "up" if live else "down"
            self.events.publish(f"port-{state}", f"{place} ({port.name}) is {state}", place=str(place))
        for host in lost:
            self.events.publish("host-lost", f"host {host.address} went with {place}", address=str(host.address))
        if live:
            self._announce(place)
        if before != live:
            self._routing.review(changed=True)

    def _announce(self, place: Place) -> None:
        if self.topology.live(place):
            frame = frames.lldp(place.dpid, place.port, self.nonce)
            self._frame_out(place, frame)

    def _frame_out(self, place: Place, frame: bytes) -> None:
        self.send_to(place.dpid, lambda xid: wire.packet_out(xid, frame, [place.port]))

    def _handle_frame(self, place: Place, frame: bytes, now: float) -> None:
        ethernet = frames.read_ethernet(frame)
        if ethernet is None:
            return
        if ethernet.kind == frames.ETH_PROBE:
            self._handle_probe(place, ethernet, now)
        elif ethernet.kind == frames.ETH_LLDP:
            self._handle_lldp(place, ethernet, now)
        elif ethernet.kind == frames.ETH_ARP:
            self._handle_arp(place, ethernet, now)
        elif ethernet.kind == frames.ETH_IPV4:
            address = frames.read_ipv4_source(ethernet.payload)
            if address is not None:
                self._learn(address, ethernet.source, place, now)

    def _handle_lldp(self, place: Place, ethernet: frames.Ethernet, now: float) -> None:
        sender = frames.read_lldp(ethernet.payload, self.nonce)
        if sender is not None and self.topology.handle_link(Place(*sender), place, now):
            self._publish_link("link-found", Place(*sender), place)
            self._routing.review(changed=True)

    def _publish_link(self, kind: str, here: Place, there: Place) -> None:
        verb = "found" if kind == "link-found" else "lost"
        self.events.publish(kind, f"link {verb}: {here} - {there}", ends=[str(here), str(there)])

    def _handle_probe(self, place: Place, ethernet: frames.Ethernet, now: float) -> None:
        number = frames.read_probe(ethernet.payload, self.nonce)
        if number is None:
            return
        if place.port == wire.CONTROLLER:
            wanted = self.prober.target(("loop", place.dpid))
        else:
            wanted = self._routing.target_of_frame(place, ethernet.destination)
        self.prober.handle_answer(number, now, lambda target: target is wanted)

    # Hosts.

    def _handle_arp(self, place: Place, ethernet: frames.Ethernet, now: float) -> None:
        arp = frames.read_arp(ethernet.payload)
        if arp is None or not self.topology.is_edge(place):
            return
        if int(arp.sender_ip) != 0:
            self._learn(arp.sender_ip, arp.sender_mac, place, now)
        number = frames.number_of(frames.ASKING_PREFIX, ethernet.destination)
        if number is not None:
            self._handle_host_answer(place, arp, number, now)
        elif arp.request:
            self._answer_arp(place, arp)
        else:
            host = self.topology.hosts.get(arp.target_ip)
            if host is not None:
                self._frame_out(host.place, arp.frame(host.mac))

    def _handle_host_answer(self, place: Place, arp: frames.Arp, number: int, now: float) -> None:
        host = self.topology.hosts.get(arp.sender_ip)
        wanted = self.prober.target(("host", arp.sender_ip))
        if host is not None and host.place == place:
            self.prober.handle_answer(number, now, lambda target: target is wanted)

    def _answer_arp(self, place: Place, arp: frames.Arp) -> None:
        host = self.topology.hosts.get(arp.target_ip)
        if host is not None:
            if host.place != place:
                answer = frames.Arp(False, host.mac, host.address, arp.sender_mac, arp.sender_ip)
                self._frame_out(place, answer.frame(arp.sender_mac))
            return
        for edge in self.topology.edges():
            if edge != place:
                self._frame_out(edge, arp.frame(frames.BROADCAST))

    def _learn(self, address: IPv4Address, mac: bytes, place: Place, now: float) -> None:
        if mac[0] & 1 or frames.is_own(mac) or address.is_multicast or address.is_loopback or not int(address):
            return
        verdict = self.topology.handle_host(address, mac, place, now)
        if len(self._flapping) > FLAPPING_LIMIT:
            self._flapping.clear()
        if verdict == "flapping" and now - self._flapping.get(address, -10.0) >= 10.0:
            self._flapping[address] = now
            text = f"host {address} is seen at {place} and elsewhere within a second; one address, two hosts?"
            self.events.publish("host-flapping", text, address=str(address), place=str(place))
        if verdict not in ("new", "moved"):
            return
        kind = "host-found" if verdict == "new" else "host-moved"
        text = f"host {address} is at {place}"
        self.events.publish(kind, text, address=str(address), mac=frames.mac_text(mac), place=str(place))
        if verdict == "moved":
            self.prober.remove(("host", address))
        self._pair(address)
        self._routing.review(changed=True)

    def _pair(self, address: IPv4Address) -> None:
        hosts = list(self.topology.hosts)
        if self._wanted.is_client(address):
            pairs = [(address, server) for server in hosts if self._wanted.is_server(server)]
        elif self._wanted.is_server(address):
            pairs = [(client, address) for client in hosts if self._wanted.is_client(client)]
        else:
            return
        for pair in pairs:
            if pair not in self._paths and len(self._paths) < PATH_LIMIT:
                self._new_path(*pair)

    def _look_for(self, address: IPv4Address) -> None:
        frame = frames.arp_probe(0, address, None)
        for edge in self.topology.edges():
            self._frame_out(edge, frame)

    # Paths.

    def _new_path(self, local: IPv4Address, remote: IPv4Address) -> Path:
        if len(self._paths) >= PATH_LIMIT:
            raise too_many_paths(PATH_LIMIT)
        path = Path(self._next_path, local, remote)
        self._next_path += 1
        self._paths[local, remote] = path
        self._look_for(local)
        self._look_for(remote)
        self.publish_path("path-added", f"path {path.id}: {local} to {remote}", path)
        return path

    def all_paths(self) -> list[Path]:
        return list(self._paths.values())

    def publish_path(self, kind: str, text: str, path: Path) -> None:
        self.events.publish(kind, text, path=self._state(path).document())

    def _state(self, path: Path) -> PathState:
        rates = [rate for rate in (counter.per_second() for counter in path.carried.values()) if rate is not None]
        return PathState(
            id=path.id,
            local=str(path.local),
            remote=str(path.remote),
            rtt_ms=self._routing.rtt_ms(path),
            loss=self._loss(path),
            random_loss=self._random_loss(path),
            rate_mbps=max(rates) * 8 / 1e6 if rates and path.enabled else None,
            up=path.up,
            at=path.measured,
            enabled=path.enabled,
            reason=path.reason,
            via=tuple(f"{hop.dpid:x}" for hop in path.route.route) if path.route else (),
        )

    def _loss(self, path: Path) -> float | None:
        """From the counters of the links where they have seen enough packets, otherwise from probes."""
        if path.route is None:
            return None
        arrived = {True: 1.0, False: 1.0}
        counted = False
        for here, there in route_links(path.route.route):
            for side, place in ((True, here), (False, there)):
                lost = self._link_loss[place].lost() if place in self._link_loss else None
                counted = counted or lost is not None
                arrived[side] *= 1 - (lost or 0.0)
        if counted:
            return 1 - min(arrived.values())
        target = self.prober.target(("route", path.route.route))
        return one_way(target.answers.lost() if target is not None else None)

    def _random_loss(self, path: Path) -> float | None:
        target = self.prober.target(("route", path.route.route)) if path.route is not None else None
        return one_way(target.answers.lost_beside_short_queue() if target is not None else None)

    # Counters.

    def _handle_port_counters(self, place: Place, one: wire.PortCounters, now: float) -> None:
        other = self.topology.links.get(place)
        if other is None:
            self._link_loss.pop(place, None)
            return
        self._link_loss.setdefault(place, LinkLoss()).handle_sent(now, one.sent)
        self._link_loss.setdefault(other, LinkLoss()).handle_received(now, one.received)

    def _handle_flow_counters(self, dpid: int, counters: tuple[wire.FlowCounters, ...], now: float) -> None:
        paths = {path.number: path for path in self._paths.values()}
        for one in counters:
            which = rules.path_of_cookie(one.cookie)
            path = paths.get(which[0]) if which is not None else None
            if which is None or path is None or path.route is None or path.route.route[0].dpid != dpid:
                continue
            path.carried.setdefault(which[1], Counter()).handle_reading(now, one.bytes)

    def _loop_probe(self, dpid: int, number: int) -> tuple[Connection, bytes] | None:
        return self.prepared(dpid, frames.probe(frames.SOURCE, number, self.nonce), wire.CONTROLLER)

    def _echo_probe(self, dpid: int, number: int) -> tuple[Connection, bytes] | None:
        switch = self._switches.get(dpid)
        if switch is None:
            return None
        return switch.connection, wire.echo_request(switch.connection.next_xid(), number.to_bytes(2, "big"))

    def prepared(self, dpid: int, frame: bytes, port: int) -> tuple[Connection, bytes] | None:
        """A frame for one port, ready to be written."""
        switch = self._switches.get(dpid)
        if switch is None:
            return None
        return switch.connection, wire.packet_out(switch.connection.next_xid(), frame, [port])


def _milliseconds(target: Target | None) -> float | None:
    delay = target.answers.delay() if target is not None else None
    return None if delay is None else round(delay * 1000, 3)
