"""Flow rules that the controller installs, as plain values: discovery, probes of a route, traffic of a path.

A cookie says whose a rule is: 'TR' in the top two bytes, a kind, a number and, for a path, a direction.
"""

from ipaddress import IPv4Address

from tributary_controller.openflow import frames, wire
from tributary_controller.openflow.topology import Host, Route
from tributary_controller.openflow.wire import Rule

COOKIE_OWN = 0x5452 << 48
MASK_OWN = 0xFFFF << 48
MASK_KIND = 0xFFFFFFFF << 32
MASK_ONE = MASK_KIND | 0xFFFFFFFE

BASE = COOKIE_OWN | 1 << 32
ROUTE = COOKIE_OWN | 2 << 32
PATH = COOKIE_OWN | 3 << 32

RuleOfSwitch = tuple[int, Rule]


def route_cookie(number: int) -> int:
    return ROUTE | number << 1


def path_cookie(number: int, towards_local: bool = False) -> int:
    return PATH | number << 1 | towards_local


def path_of_cookie(cookie: int) -> tuple[int, bool] | None:
    """Number of the path and whether the rule carries traffic towards the local host."""
    if cookie & MASK_KIND != PATH:
        return None
    return (cookie & 0xFFFFFFFF) >> 1, bool(cookie & 1)


def base(metered: bool) -> list[Rule]:
    """LLDP and answers to probes reach the controller; ARP and unknown IPv4 too, metered; the rest drops."""
    asking = (frames.mac_text(frames.ASKING_PREFIX), frames.mac_text(frames.PREFIX_MASK))
    return [
        Rule(BASE, 50000, {"eth_type": frames.ETH_LLDP}, wire.CONTROLLER),
        Rule(BASE, 45000, {"eth_type": frames.ETH_ARP, "eth_dst": asking}, wire.CONTROLLER),
        Rule(BASE, 40000, {"eth_type": frames.ETH_PROBE}),
        Rule(BASE, 1000, {"eth_type": frames.ETH_ARP}, wire.CONTROLLER, metered=metered),
        Rule(BASE, 10, {"eth_type": frames.ETH_IPV4}, wire.CONTROLLER, metered=metered),
        Rule(BASE, 0, {}),
    ]


def of_route(number: int, route: Route) -> list[RuleOfSwitch]:
    """A probe goes out at the first switch, turns round at the last and ends at the first, which gives it to the
    controller. A route of one switch has nothing to measure."""
    if len(route) == 1:
        return []
    forward = frames.mac_text(frames.numbered(frames.FORWARD_PREFIX, number))
    back_mac = frames.numbered(frames.BACK_PREFIX, number)
    back = frames.mac_text(back_mac)
    cookie = route_cookie(number)

    def rule(port: int | None, destination: str, output: int | None, turned: bytes | None = None) -> Rule:
        match = {"in_port": port, "eth_type": frames.ETH_PROBE, "eth_dst": destination}
        return Rule(cookie, 42000, match, output, turned)

    rules = [(route[0].dpid, rule(route[0].right, back, wire.CONTROLLER))]
    for hop in route[1:-1]:
        rules.append((hop.dpid, rule(hop.left, forward, hop.right)))
        rules.append((hop.dpid, rule(hop.right, back, hop.left)))
    rules.append((route[-1].dpid, rule(route[-1].left, forward, wire.IN_PORT, back_mac)))
    return rules


def of_path(number: int, route: Route, local: Host, remote: Host) -> list[RuleOfSwitch]:
    """IPv4 between the two hosts, both ways. For each direction the last switch comes first, so that a switch never
    forwards to one that has no rule yet."""
    rules = []
    for hop in reversed(route):
        out = remote.place.port if hop.right is None else hop.right
        rules.append((hop.dpid, _ipv4(path_cookie(number), local.address, remote.address, out)))
    for hop in route:
        out = local.place.port if hop.left is None else hop.left
        rules.append((hop.dpid, _ipv4(path_cookie(number, True), remote.address, local.address, out)))
    return rules


def _ipv4(cookie: int, source: IPv4Address, destination: IPv4Address, output: int) -> Rule:
    match = {"eth_type": frames.ETH_IPV4, "ipv4_src": str(source), "ipv4_dst": str(destination)}
    return Rule(cookie, 30000, match, output)
