"""Links, hosts and routes."""

from ipaddress import IPv4Address

from tributary_controller.openflow import rules
from tributary_controller.openflow.topology import (
    HOST_SECONDS,
    HOSTS_OF_PORT,
    LINK_SECONDS,
    Place,
    Topology,
    route_links,
)

HOST = IPv4Address("10.0.0.1")
MAC = b"\x02\0\0\0\0\1"


def diamond() -> Topology:
    """1 - 2 - 4 and 1 - 3 - 4; port 9 of each switch is free."""
    topology = Topology()
    for dpid in (1, 2, 3, 4):
        topology.handle_switch(dpid)
        for port in (1, 2, 9):
            topology.handle_port(Place(dpid, port), True)
    for left, right in (((1, 1), (2, 1)), ((1, 2), (3, 1)), ((2, 2), (4, 1)), ((3, 2), (4, 2))):
        assert topology.handle_link(Place(*left), Place(*right), 0.0)
    return topology


def test_two_routes_share_no_link() -> None:
    routes = diamond().routes(1, 4)
    assert [[hop.dpid for hop in route] for route in routes] == [[1, 2, 4], [1, 3, 4]]
    assert not set(route_links(routes[0])) & set(route_links(routes[1]))


def test_parallel_links_are_two_routes() -> None:
    topology = Topology()
    for dpid in (1, 2):
        topology.handle_switch(dpid)
        for port in (1, 2):
            topology.handle_port(Place(dpid, port), True)
    for port in (1, 2):
        topology.handle_link(Place(1, port), Place(2, port), 0.0)
    assert len(topology.routes(1, 2)) == 2


def test_a_port_that_goes_down_takes_its_link_and_the_routes() -> None:
    topology = diamond()
    route = topology.routes(1, 4)[0]
    topology.handle_port(Place(2, 1), False)
    assert not topology.valid(route)
    assert [[hop.dpid for hop in one] for one in topology.routes(1, 4)] == [[1, 3, 4]]
    topology.handle_switch_gone(3)
    assert topology.routes(1, 4) == []


def test_a_link_without_lldp_is_gone() -> None:
    topology = diamond()
    topology.handle_link(Place(1, 1), Place(2, 1), LINK_SECONDS)
    gone = topology.handle_time(LINK_SECONDS + 0.1)
    assert len(gone) == 3
    assert topology.links[Place(1, 1)] == Place(2, 1)


def test_hosts_are_not_learnt_on_links_and_leave_with_their_port() -> None:
    topology = diamond()
    assert topology.handle_host(HOST, MAC, Place(1, 1), 0.0) == "refused"
    assert topology.handle_host(HOST, MAC, Place(1, 9), 0.0) == "new"
    assert topology.handle_host(HOST, MAC, Place(1, 9), 0.1) == "known"
    assert [host.address for host in topology.handle_port(Place(1, 9), False)] == [HOST]


def test_a_host_may_move_but_not_flap() -> None:
    topology = diamond()
    topology.handle_host(HOST, MAC, Place(1, 9), 0.0)
    assert topology.handle_host(HOST, MAC, Place(4, 9), 0.5) == "flapping"
    assert topology.hosts[HOST].place == Place(1, 9)
    assert topology.handle_host(HOST, MAC, Place(4, 9), 1.5) == "moved"
    assert topology.hosts[HOST].place == Place(4, 9)


def test_a_silent_host_is_forgotten() -> None:
    topology = diamond()
    topology.handle_host(HOST, MAC, Place(1, 9), 0.0)
    topology.handle_host(HOST, MAC, Place(1, 9), 10.0)
    topology.handle_time(HOST_SECONDS + 9.0)
    assert HOST in topology.hosts
    topology.handle_time(HOST_SECONDS + 11.0)
    assert HOST not in topology.hosts


def test_a_port_cannot_invent_hosts_without_end() -> None:
    topology = diamond()
    verdicts = [topology.handle_host(IPv4Address(number), MAC, Place(1, 9), 0.0) for number in range(1, 200)]
    assert verdicts.count("new") == HOSTS_OF_PORT


def test_a_probe_turns_round_at_the_last_switch() -> None:
    route = diamond().routes(1, 4)[0]
    by_switch = [(dpid, rule.output) for dpid, rule in rules.of_route(1, route)]
    assert [dpid for dpid, _ in by_switch] == [1, 2, 2, 4]
    assert rules.of_route(1, diamond().routes(1, 1)[0]) == []
