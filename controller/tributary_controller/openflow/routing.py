"""Which routes exist and are measured, which one each path uses, and whether a path is up.

Does no I/O of its own: it asks its network to send rules and to publish events.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import Protocol

from tributary_controller.measure import DEAD_SECONDS, Counter
from tributary_controller.openflow import frames, rules, wire
from tributary_controller.openflow.prober import Prober, Sender, Target
from tributary_controller.openflow.topology import Host, Place, Route, Topology, route_links

# A route must answer so long before a path moves to it from one that works.
STEADY_SECONDS = 3.0


@dataclass(eq=False)
class MeasuredRoute:
    """A route with its number, which its probes carry in their addresses."""

    number: int
    route: Route


@dataclass
class Path:
    """A pair of addresses. `installed` is what the switches have rules for, `told` the route of the last event."""

    number: int
    local: IPv4Address
    remote: IPv4Address
    enabled: bool = True
    up: bool = False
    reason: str | None = "not measured yet"
    route: MeasuredRoute | None = None
    measured: float | None = None
    carried: dict[bool, Counter] = field(default_factory=dict)
    installed: tuple[Route, Place, Place] | None = None
    told: Route | None = None

    @property
    def id(self) -> str:
        return f"p{self.number}"


class Surroundings(Protocol):
    """What routing needs of the network."""

    topology: Topology
    prober: Prober
    nonce: bytes
    clock: Callable[[], float]

    def send_to(self, dpid: int, build: Callable[[int], bytes]) -> None: ...

    def prepared(self, dpid: int, frame: bytes, port: int) -> tuple[Sender, bytes] | None: ...

    def all_paths(self) -> list[Path]: ...

    def publish_path(self, kind: str, text: str, path: Path) -> None: ...


class Routing:
    """Routes by their hops; `review` brings everything in line with the topology and the measurements."""

    def __init__(self, network: Surroundings) -> None:
        self._network = network
        self._routes: dict[Route, MeasuredRoute] = {}
        self._by_number: dict[int, MeasuredRoute] = {}
        self._next_number = 1

    def review(self, changed: bool = True, spread: bool = False) -> None:
        """With `changed`, hosts or links may differ from the last time; without, only measurements do. With `spread`,
        paths that share links move to free routes."""
        if spread:
            self._spread()
        if changed:
            self._review_routes()
            self._review_hosts()
        for path in self._network.all_paths():
            self._review_path(path)

    def target_of_frame(self, place: Place, destination: bytes) -> Target | None:
        """The route whose probe ends at this place with this destination address."""
        number = frames.number_of(frames.BACK_PREFIX, destination)
        route = self._by_number.get(number) if number is not None else None
        if route is None or Place(route.route[0].dpid, route.route[0].right or 0) != place:
            return None
        return self._network.prober.target(("route", route.route))

    def rtt_ms(self, path: Path) -> float | None:
        """Sum over the local host's access, the route and the remote host's access; None when one is unknown."""
        if path.route is None or not path.up:
            return None
        delays = [target.answers.delay() for target in self._targets(path.route, path)]
        known = [delay for delay in delays if delay is not None]
        return sum(known) * 1000 if len(known) == len(delays) else None

    def _targets(self, route: MeasuredRoute, path: Path) -> list[Target]:
        keys: list[object] = [("host", path.local), ("host", path.remote)]
        if len(route.route) > 1:
            keys.append(("route", route.route))
        targets = (self._network.prober.target(key) for key in keys)
        return [target for target in targets if target is not None]

    def _review_routes(self) -> None:
        """Keeps the routes that paths need, in the order in which they are found."""
        topology = self._network.topology
        needed: dict[Route, None] = {}
        for path in self._network.all_paths():
            ends = self._ends(path)
            if path.route is not None and not topology.valid(path.route.route):
                path.route = None
            if ends is None:
                continue
            candidates = topology.routes(ends[0].place.dpid, ends[1].place.dpid)
            if path.route is not None and path.route.route in self._routes and path.route.route not in candidates:
                candidates.append(path.route.route)
            needed.update(dict.fromkeys(candidates))
        for route in [route for route in self._routes if route not in needed]:
            self._drop(self._routes.pop(route))
        for route in needed:
            if route not in self._routes:
                self._routes[route] = self._install(route)

    def _install(self, route: Route) -> MeasuredRoute:
        while self._next_number in self._by_number:
            self._next_number = self._next_number % 0xFFFF + 1
        measured = MeasuredRoute(self._next_number, route)
        self._next_number = self._next_number % 0xFFFF + 1
        self._by_number[measured.number] = measured
        for dpid, rule in rules.of_route(measured.number, route):
            self._network.send_to(dpid, _adding(rule))
        out = route[0].right
        if out is not None:
            destination = frames.numbered(frames.FORWARD_PREFIX, measured.number)

            def prepare(number: int, dpid: int = route[0].dpid, port: int = out) -> tuple[Sender, bytes] | None:
                return self._network.prepared(dpid, frames.probe(destination, number, self._network.nonce), port)

            controls = self._network.prober.controls(route[0].dpid)
            self._network.prober.add(("route", route), prepare, controls)
        return measured

    def _drop(self, measured: MeasuredRoute) -> None:
        del self._by_number[measured.number]
        self._network.prober.remove(("route", measured.route))
        for dpid in {hop.dpid for hop in measured.route}:
            self._network.send_to(dpid, _deleting(rules.route_cookie(measured.number)))

    def _review_hosts(self) -> None:
        """Probes the hosts at the ends of paths, from their own switches."""
        topology, prober = self._network.topology, self._network.prober
        wanted = {end for path in self._network.all_paths() for end in (path.local, path.remote)}
        present = {address: topology.hosts[address] for address in wanted if address in topology.hosts}
        for key in prober.targets():
            if isinstance(key, tuple) and key[0] == "host" and key[1] not in present:
                prober.remove(key)
        for address, host in present.items():
            controls = prober.controls(host.place.dpid)

            def prepare(number: int, host: Host = host) -> tuple[Sender, bytes] | None:
                probe = frames.arp_probe(number, host.address, host.mac)
                return self._network.prepared(host.place.dpid, probe, host.place.port)

            prober.add(("host", address), prepare, controls)

    def _ends(self, path: Path) -> tuple[Host, Host] | None:
        hosts = self._network.topology.hosts
        local, remote = hosts.get(path.local), hosts.get(path.remote)
        return (local, remote) if local is not None and remote is not None else None

    def _review_path(self, path: Path) -> None:
        path.route = self._choose(path)
        self._enforce(path)
        reason = self._fault(path)
        up = reason is None
        if up:
            path.measured = time.time() - self._age(path)
        path.reason = reason
        if up != path.up:
            path.up = up
            self._publish_change(path, reason)
        elif up and path.route is not None and path.told != path.route.route:
            self._publish_route(path)

    def _publish_route(self, path: Path) -> None:
        assert path.route is not None, "only a path with a route changes it"
        path.told = path.route.route
        way = " ".join(f"{hop.dpid:x}" for hop in path.route.route)
        self._network.publish_path("path-rerouted", f"path {path.id} goes through switches {way}", path)

    def _publish_change(self, path: Path, reason: str | None) -> None:
        pair = f"{path.local} to {path.remote}"
        if reason is None:
            path.told = path.route.route if path.route is not None else None
            self._network.publish_path("path-up", f"path {path.id} ({pair}) is up", path)
        else:
            self._network.publish_path("path-down", f"path {path.id} ({pair}) is down: {reason}", path)

    def _age(self, path: Path) -> float:
        """Seconds since the older of its answers."""
        assert path.route is not None, "only a path that is up has an age"
        now = self._network.clock()
        return max(target.answers.silent(now) for target in self._targets(path.route, path))

    def _choose(self, path: Path) -> MeasuredRoute | None:
        """The present route until it is dead; then one that is not and shares the fewest links with other paths, then
        the fastest, then the shortest. If all are dead the present one stays."""
        ends = self._ends(path)
        if ends is None:
            return None
        present = path.route if path.route is not None and self._joins(path.route, ends) else None
        if present is not None and not self._dead(present):
            return present
        used = self._used_links(path)
        fitting = [route for route in self._routes.values() if self._joins(route, ends)]

        def cost(route: MeasuredRoute) -> tuple[bool, int, float, int]:
            return self._dead(route), _shared(route, used), self._delay(route), len(route.route)

        best = min(fitting, key=cost, default=None)
        return present if present is not None and best is not None and self._dead(best) else best

    def _spread(self) -> None:
        """Paths that came to share links when a route died leave each other when a route is free again."""
        for path in self._network.all_paths():
            ends = self._ends(path)
            if path.route is None or ends is None or not path.enabled:
                continue
            used = self._used_links(path)
            now = _shared(path.route, used)
            free = [r for r in self._routes.values() if self._joins(r, ends) and self._steady(r)]
            best = min(free, key=lambda route: (_shared(route, used), self._delay(route)), default=None)
            if best is not None and _shared(best, used) < now:
                path.route = best
                self._enforce(path)
                self._publish_route(path)

    def _steady(self, route: MeasuredRoute) -> bool:
        target = self._network.prober.target(("route", route.route))
        if target is None:
            return False
        return target.answers.alive and self._network.clock() - target.answers.alive_since >= STEADY_SECONDS

    def _used_links(self, path: Path) -> set[tuple[Place, Place]]:
        links: set[tuple[Place, Place]] = set()
        for other in self._network.all_paths():
            if other is not path and other.enabled and other.route is not None:
                links.update(route_links(other.route.route))
        return links

    def _joins(self, route: MeasuredRoute, ends: tuple[Host, Host]) -> bool:
        first, last = route.route[0].dpid, route.route[-1].dpid
        return (first, last) == (ends[0].place.dpid, ends[1].place.dpid) and route.route in self._routes

    def _alive(self, route: MeasuredRoute) -> bool:
        if len(route.route) == 1:
            return True
        target = self._network.prober.target(("route", route.route))
        return target is not None and target.answers.alive

    def _dead(self, route: MeasuredRoute) -> bool:
        target = self._network.prober.target(("route", route.route))
        return target is not None and target.answers.dead(self._network.clock())

    def _delay(self, route: MeasuredRoute) -> float:
        target = self._network.prober.target(("route", route.route))
        return (target.answers.delay() or 0.0) if target is not None else 0.0

    def _fault(self, path: Path) -> str | None:
        """Why a path is down, None when it is up."""
        hosts = self._network.topology.hosts
        for address in (path.local, path.remote):
            if address not in hosts:
                return f"host {address} is not seen at any port of a connected switch"
        if path.route is None:
            return "no links join the two hosts' switches"
        for address in (path.local, path.remote):
            target = self._network.prober.target(("host", address))
            if target is None or not target.answers.alive:
                return f"host {address} does not answer ARP"
        if not self._alive(path.route):
            return f"probes through the switches are lost for {DEAD_SECONDS:.1f} s or not yet answered"
        return None

    def _enforce(self, path: Path) -> None:
        """Brings the switches' rules in line with the path's route."""
        ends = self._ends(path)
        wanted = None
        if path.enabled and path.route is not None and ends is not None:
            wanted = (path.route.route, ends[0].place, ends[1].place)
        if wanted == path.installed:
            return
        stale = {hop.dpid for hop in path.installed[0]} if path.installed else set()
        path.installed = wanted
        if wanted is not None and ends is not None:
            # The same match replaces a rule, so no packet finds a switch of both routes without one.
            for dpid, rule in rules.of_path(path.number, wanted[0], *ends):
                self._network.send_to(dpid, _adding(rule))
            stale -= {hop.dpid for hop in wanted[0]}
        for dpid in stale:
            for towards_local in (False, True):
                self._network.send_to(dpid, _deleting(rules.path_cookie(path.number, towards_local)))
        path.carried.clear()


def _shared(route: MeasuredRoute, used: set[tuple[Place, Place]]) -> int:
    return sum(link in used for link in route_links(route.route))


def _adding(rule: wire.Rule) -> Callable[[int], bytes]:
    return lambda xid: wire.add_rule(xid, rule)


def _deleting(cookie: int) -> Callable[[int], bytes]:
    return lambda xid: wire.delete_rules(xid, cookie, rules.MASK_ONE)
