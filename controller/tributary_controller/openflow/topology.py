"""The graph of switches, ports, links and hosts, and the routes through it. Sans-IO; no measurements.

A route is a sequence of hops, one for each switch, from the local host's switch to the remote host's.
"""

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Address

# Routes kept and measured between two switches.
ROUTES_OF_PAIR = 4
# A host that changes its port more often than once in this time stays where it was seen first.
MOVE_SECONDS = 1.0
# Protect against a port that invents hosts.
HOSTS_OF_PORT = 64
# A host that has sent nothing for so long is forgotten; the ends of paths answer probes all the time.
HOST_SECONDS = 600.0
# A link whose LLDP frames stay away so long is gone. Probes notice a dead one earlier.
LINK_SECONDS = 5.0


@dataclass(frozen=True, order=True)
class Place:
    """A port of a switch."""

    dpid: int
    port: int

    def __str__(self) -> str:
        return f"switch {self.dpid:x} port {self.port}"


@dataclass(frozen=True, order=True)
class Hop:
    """One switch of a route: in by `left` and out by `right`, seen from the local host; None at the ends."""

    dpid: int
    left: int | None
    right: int | None


Route = tuple[Hop, ...]


@dataclass
class Host:
    address: IPv4Address
    mac: bytes
    place: Place
    moved: float
    seen: float


@dataclass
class Topology:
    """Mutated by what switches report; read by route computation."""

    ports: dict[int, dict[int, bool]] = field(default_factory=dict)
    links: dict[Place, Place] = field(default_factory=dict)
    hosts: dict[IPv4Address, Host] = field(default_factory=dict)
    _seen: dict[Place, float] = field(default_factory=dict)

    def handle_switch(self, dpid: int) -> None:
        self.ports.setdefault(dpid, {})

    def handle_switch_gone(self, dpid: int) -> list[Host]:
        """Hosts that went with it."""
        self.ports.pop(dpid, None)
        for place in [place for place, other in self.links.items() if dpid in (place.dpid, other.dpid)]:
            self._unlink(place)
        return self._drop_hosts(lambda host: host.place.dpid == dpid)

    def handle_port(self, place: Place, live: bool) -> list[Host]:
        """A port's state; returns hosts lost with it."""
        if place.dpid not in self.ports:
            return []
        self.ports[place.dpid][place.port] = live
        if live:
            return []
        self._unlink(place)
        return self._drop_hosts(lambda host: host.place == place)

    def handle_port_gone(self, place: Place) -> list[Host]:
        lost = self.handle_port(place, False)
        self.ports.get(place.dpid, {}).pop(place.port, None)
        return lost

    def handle_link(self, here: Place, there: Place, now: float) -> bool:
        """An LLDP frame from `here` arrived at `there`. True when the link is new."""
        if here == there or not (self.live(here) and self.live(there)):
            return False
        self._seen[here] = self._seen[there] = now
        if self.links.get(here) == there and self.links.get(there) == here:
            return False
        self._unlink(here)
        self._unlink(there)
        self.links[here] = there
        self.links[there] = here
        self._drop_hosts(lambda host: host.place in (here, there))
        self._seen[here] = self._seen[there] = now
        return True

    def handle_time(self, now: float) -> list[tuple[Place, Place]]:
        """Removes links that LLDP confirms no more and returns them; forgets hosts of long ago."""
        self._drop_hosts(lambda host: now - host.seen > HOST_SECONDS)
        gone = [(here, there) for here, there in self.links.items() if here < there]
        gone = [link for link in gone if now - self._seen[link[0]] > LINK_SECONDS]
        for here, _ in gone:
            self._unlink(here)
        return gone

    def handle_host(self, address: IPv4Address, mac: bytes, place: Place, now: float) -> str:
        """A frame from a host arrived at an edge port. Returns what that means: "known", "new", "moved", "flapping" or
        "refused"."""
        if not self.is_edge(place):
            return "refused"
        host = self.hosts.get(address)
        if host is None:
            if sum(other.place == place for other in self.hosts.values()) >= HOSTS_OF_PORT:
                return "refused"
            self.hosts[address] = Host(address, mac, place, now, now)
            return "new"
        if host.place == place and host.mac == mac:
            host.seen = now
            return "known"
        if now - host.moved < MOVE_SECONDS:
            return "flapping"
        host.mac, host.place, host.moved, host.seen = mac, place, now, now
        return "moved"

    def live(self, place: Place) -> bool:
        return self.ports.get(place.dpid, {}).get(place.port, False)

    def is_edge(self, place: Place) -> bool:
        return self.live(place) and place not in self.links

    def edges(self) -> list[Place]:
        everything = (Place(dpid, port) for dpid, ports in sorted(self.ports.items()) for port in sorted(ports))
        return [place for place in everything if self.is_edge(place)]

    def valid(self, route: Route) -> bool:
        """All its switches and links are there."""
        if any(hop.dpid not in self.ports for hop in route):
            return False
        return all(self.links.get(here) == there for here, there in route_links(route))

    def routes(self, start: int, end: int) -> list[Route]:
        """Up to `ROUTES_OF_PAIR` routes, shortest first, each avoiding the links of those before where it can."""
        if start not in self.ports or end not in self.ports:
            return []
        if start == end:
            return [(Hop(start, None, None),)]
        uses: dict[Place, int] = {}
        found: list[Route] = []
        for _ in range(ROUTES_OF_PAIR):
            route = self._shortest(start, end, uses)
            if route is None or route in found:
                break
            found.append(route)
            for here, there in route_links(route):
                uses[here] = uses.get(here, 0) + 1
                uses[there] = uses.get(there, 0) + 1
        return found

    def _shortest(self, start: int, end: int, uses: dict[Place, int]) -> Route | None:
        leaving: dict[int, list[tuple[Place, Place]]] = {}
        for here, there in sorted(self.links.items()):
            leaving.setdefault(here.dpid, []).append((here, there))
        queue: list[tuple[int, tuple[tuple[Place, Place], ...]]] = [(0, ())]
        done: set[int] = set()
        while queue:
            cost, links = heapq.heappop(queue)
            at = links[-1][1].dpid if links else start
            if at == end:
                return _hops(start, links)
            if at in done:
                continue
            done.add(at)
            for here, there in leaving.get(at, []):
                if there.dpid not in done:
                    heapq.heappush(queue, (cost + 1 + 10 * uses.get(here, 0), (*links, (here, there))))
        return None

    def _unlink(self, place: Place) -> None:
        other = self.links.pop(place, None)
        self._seen.pop(place, None)
        if other is not None and self.links.get(other) == place:
            del self.links[other]
            self._seen.pop(other, None)

    def _drop_hosts(self, gone: Callable[[Host], bool]) -> list[Host]:
        lost = [host for host in self.hosts.values() if gone(host)]
        for host in lost:
            del self.hosts[host.address]
        return lost


def _hops(start: int, links: tuple[tuple[Place, Place], ...]) -> Route:
    lefts = [None, *(there.port for _, there in links)]
    rights = [*(here.port for here, _ in links), None]
    dpids = [start, *(there.dpid for _, there in links)]
    return tuple(Hop(dpid, left, right) for dpid, left, right in zip(dpids, lefts, rights, strict=True))


def route_links(route: Route) -> list[tuple[Place, Place]]:
    """Links of a route, each from the local side's port to the remote side's."""
    links = []
    for left, right in itertools.pairwise(route):
        assert left.right is not None, "only the last hop has no next one"
        assert right.left is not None, "only the first hop has no previous one"
        links.append((Place(left.dpid, left.right), Place(right.dpid, right.left)))
    return links
