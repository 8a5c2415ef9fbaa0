"""The OpenFlow backend with a fabric in virtual time: discovery, RTT, death, change of route, bad input."""

import asyncio
from ipaddress import ip_address

import pytest
from fabric import DELETE, Fabric, diamond

from tributary_controller.backend import PathState
from tributary_controller.openflow import frames, rules, wire
from tributary_controller.openflow.network import PATH_LIMIT
from tributary_controller.openflow.topology import Place
from tributary_controller.problem import Problem


def add(fabric: Fabric, local: str, remote: str) -> PathState:
    path, _ = asyncio.run(fabric.network.add(ip_address(local), ip_address(remote)))
    return path


def state(fabric: Fabric, path_id: str) -> PathState:
    return next(path for path in fabric.network.paths() if path.id == path_id)


@pytest.fixture
def two_paths() -> Fabric:
    fabric = diamond()
    fabric.start()
    add(fabric, "10.0.1.2", "10.0.1.1")
    add(fabric, "10.0.2.2", "10.0.2.1")
    fabric.run(5.0)
    fabric.events()
    return fabric


def test_paths_take_different_routes_and_rtt_is_exact(two_paths: Fabric) -> None:
    first, second = two_paths.network.paths()
    assert first.up
    assert second.up
    by_route = {path.via: path.rtt_ms for path in (first, second)}
    assert by_route[("1", "2", "4")] == pytest.approx(20.0)
    assert by_route[("1", "3", "4")] == pytest.approx(60.0)


def test_a_silent_death_changes_the_route_within_a_second_and_back_when_it_is_mended(two_paths: Fabric) -> None:
    path = next(path for path in two_paths.network.paths() if "2" in path.via)
    two_paths.cut.add(Place(1, 1))
    two_paths.run(0.95)
    assert two_paths.events() == ["path-rerouted"]
    moved = state(two_paths, path.id)
    assert moved.via == ("1", "3", "4")
    assert moved.up
    two_paths.cut.clear()
    two_paths.run(6.0)
    assert "path-rerouted" in two_paths.events()
    assert {path.via for path in two_paths.network.paths()} == {("1", "2", "4"), ("1", "3", "4")}


def test_the_death_of_every_route_is_told_within_a_second(two_paths: Fabric) -> None:
    two_paths.cut |= {Place(1, 1), Place(1, 2)}
    two_paths.run(0.95)
    assert two_paths.events().count("path-down") == 2
    first = two_paths.network.paths()[0]
    assert first.rtt_ms is None
    assert first.reason is not None
    assert "lost" in first.reason
    two_paths.cut.clear()
    two_paths.run(1.0)
    assert two_paths.events().count("path-up") == 2


def test_a_port_that_goes_down_counts_at_once(two_paths: Fabric) -> None:
    two_paths.give(1, wire.PortStatus(False, wire.Port(1, "port1", False)))
    assert two_paths.events() == ["port-down", "path-rerouted"]


def test_a_host_that_stops_answering_takes_its_path_down(two_paths: Fabric) -> None:
    two_paths.mute.add("10.0.1.1")
    two_paths.run(0.95)
    assert two_paths.events() == ["path-down"]
    assert state(two_paths, "p1").reason == "host 10.0.1.1 does not answer ARP"


def test_a_removed_path_is_measured_further_and_has_no_rules(two_paths: Fabric) -> None:
    removed = asyncio.run(two_paths.network.remove("p1"))
    assert not removed.enabled
    for towards_local in (False, True):
        assert (DELETE, rules.path_cookie(1, towards_local)) in two_paths.connections[4].flow_mods
    two_paths.run(2.0)
    measured = state(two_paths, "p1")
    assert measured.up
    assert measured.rtt_ms is not None
    path, created = asyncio.run(two_paths.network.add(ip_address("10.0.1.2"), ip_address("10.0.1.1")))
    assert path.enabled
    assert not created


def test_a_switch_that_leaves_and_returns(two_paths: Fabric) -> None:
    two_paths.connections.pop(4).close("test")
    events = two_paths.events()
    assert events.count("path-down") == 2
    assert "switch-disconnected" in events
    two_paths.connect(4)
    two_paths.run(3.0)
    assert all(path.up for path in two_paths.network.paths())


def test_two_switches_with_one_datapath_id_the_living_one_stays(two_paths: Fabric) -> None:
    rival = two_paths.connect(1, peer="127.0.0.1:999")
    two_paths.run(3.0)
    assert rival.closed
    assert rival.reason == "its datapath id is in use"
    assert "switch-refused" in two_paths.events()
    assert all(path.up for path in two_paths.network.paths())


def test_a_switch_that_comes_again_replaces_its_dead_connection(two_paths: Fabric) -> None:
    dead = two_paths.connections.pop(1)
    two_paths.connect(1, peer="127.0.0.1:999")
    two_paths.run(3.0)
    assert dead.closed
    assert two_paths.network._switches[1].connection.peer == "127.0.0.1:999"


def test_garbage_in_packet_in_changes_nothing(two_paths: Fabric) -> None:
    before = dict(two_paths.network.topology.hosts)
    asking = frames.numbered(frames.ASKING_PREFIX, 1)
    cut = (asking + bytes(6) + b"\x08\x06short", bytes(12) + b"\x88\xcc\xff\xff")
    for frame in (b"", b"\0" * 13, b"\xff" * 1500, *cut):
        two_paths.give(1, wire.PacketIn(3, frame))
        two_paths.give(1, wire.PacketIn(wire.CONTROLLER, frame))
        two_paths.give(1, wire.PacketIn(0, frame))
    assert dict(two_paths.network.topology.hosts) == before


def test_a_forged_probe_is_no_answer(two_paths: Fabric) -> None:
    number = two_paths.network.prober._number
    forged = frames.probe(frames.numbered(frames.BACK_PREFIX, 1), number, b"notmine!")
    rtt = state(two_paths, "p1").rtt_ms
    for _ in range(50):
        two_paths.give(1, wire.PacketIn(1, forged))
    assert state(two_paths, "p1").rtt_ms == rtt


def test_an_address_that_flaps_is_named_once(two_paths: Fabric) -> None:
    arp = frames.Arp(True, b"\x02\0\0\0\0\x77", ip_address("10.0.1.2"), bytes(6), ip_address("10.0.9.9"))  # type: ignore[arg-type]
    mine = frames.Arp(True, b"\x02\0\0\0\1\3", ip_address("10.0.1.2"), bytes(6), ip_address("10.0.9.9"))  # type: ignore[arg-type]
    for _ in range(100):
        two_paths.give(4, wire.PacketIn(4, arp.frame(frames.BROADCAST)))
        two_paths.give(1, wire.PacketIn(3, mine.frame(frames.BROADCAST)))
    events = two_paths.events()
    assert events.count("host-flapping") == 1
    assert events.count("host-moved") <= 1


def test_a_stopped_program_does_not_declare_everything_dead(two_paths: Fabric) -> None:
    two_paths.now += 30.0
    two_paths.network.handle_time(two_paths.now)
    assert "path-down" not in two_paths.events()


def test_unknown_ids_and_too_many_paths_are_refused(two_paths: Fabric) -> None:
    with pytest.raises(Problem, match="known: p1, p2"):
        asyncio.run(two_paths.network.remove("p99"))
    for number in range(PATH_LIMIT - 2):
        add(two_paths, str(ip_address("10.9.0.0") + number), "10.0.1.1")
    with pytest.raises(Problem, match="too many paths"):
        add(two_paths, "10.8.0.1", "10.0.1.1")
    with pytest.raises(Problem, match="IPv6"):
        add(two_paths, "fd77::1", "fd77::2")


def test_a_path_between_hosts_of_one_switch_has_the_hosts_delay() -> None:
    fabric = Fabric({}, {Place(1, 1): "10.0.0.1", Place(1, 2): "10.0.0.2"})
    fabric.start()
    add(fabric, "10.0.0.1", "10.0.0.2")
    fabric.run(3.0)
    (path,) = fabric.network.paths()
    assert path.up
    assert path.via == ("1",)
    assert path.rtt_ms == pytest.approx(0.0)
