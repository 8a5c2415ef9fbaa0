"""The controller with Open vSwitch: four switches, two routes of different delay, hosts in namespaces."""

from collections.abc import Iterator
from typing import Any

import pytest

from tributary_controller.lab.client import Client, all_up, controlled
from tributary_controller.lab.network import TWO_PATHS, laboratory

PATHS = [("10.0.1.2", "10.0.1.1"), ("10.0.2.2", "10.0.2.1")]


@pytest.fixture(scope="module")
def network() -> Iterator[Client]:
    with laboratory(TWO_PATHS) as lab, controlled(lab, *(f"--path={one}={other}" for one, other in PATHS)) as client:
        yield client


pytestmark = pytest.mark.usefixtures("in_sandbox")


def apart(paths: list[Any]) -> bool:
    """Whether both paths are up, each on a route of its own.

    Paths come up on the first route that is found. One of them moves to the other route when that is found.
    """
    return all_up(paths) and paths[0]["via"] != paths[1]["via"]


def test_paths_are_found_on_different_routes_with_their_delays(network: Client) -> None:
    paths = network.wait_until(apart)
    assert [(path["local"], path["remote"]) for path in paths] == PATHS
    rtt = {tuple(path["via"]): path["rtt_ms"] for path in paths}
    # The delay that the relay adds is a lower bound on any machine. How near RTT is to the truth is measured by
    # `python -m tributary_controller.bench`.
    assert rtt[("1", "2", "4")] >= 10 * 0.95 - 0.3
    assert rtt[("1", "3", "4")] >= 40 * 0.95 - 0.3
    assert all(network.reachable(*pair) for pair in PATHS)


def test_traffic_is_counted(network: Client) -> None:
    network.wait_until(all_up)
    pinging = network.ping(*PATHS[0], 300, 0.01)
    paths = network.wait_until(lambda paths: (paths[0]["rate_mbps"] or 0) > 0.01)
    assert (paths[1]["rate_mbps"] or 0) < paths[0]["rate_mbps"]
    pinging.communicate(timeout=30)


def test_a_removed_path_carries_nothing_and_is_measured_further(network: Client) -> None:
    network.wait_until(all_up)
    assert network.ask("DELETE", "/v1/paths/p2")["enabled"] is False
    assert [path["id"] for path in network.ask("GET", "/v1/paths")["paths"]] == ["p1"]
    assert not network.reachable(*PATHS[1])
    assert network.wait_until(all_up)[1]["enabled"] is False
    network.ask("POST", "/v1/paths", {"local": PATHS[1][0], "remote": PATHS[1][1]})
    network.wait_until(all_up)
    assert network.reachable(*PATHS[1])


def test_a_dead_route_is_left_and_dead_paths_are_told(network: Client) -> None:
    cut = next(path["id"] for path in network.wait_until(apart) if path["via"] == ["1", "2", "4"])
    network.forget_events()
    network.lab.order("cut 0")
    _, _, moved = network.wait_for("path-rerouted", path=cut)
    assert moved["path"]["via"] == ["1", "3", "4"]
    assert all(network.reachable(*pair) for pair in PATHS)
    network.lab.order("cut 1")
    down = {network.wait_for("path-down")[2]["path"]["id"] for _ in PATHS}
    assert down == {"p1", "p2"}
    assert not network.reachable(*PATHS[0])
    network.lab.order("mend 0")
    network.lab.order("mend 1")
    # Both routes are used again.
    network.wait_until(apart)


def test_a_port_that_goes_down_and_a_switch_that_leaves(network: Client) -> None:
    network.wait_until(all_up)
    network.lab.run("ip", "link", "set", "l2a", "down")
    # The other end of the pair goes down with it; either may be told first.
    assert "(l2" in network.wait_for("port-down")[2]["message"]
    network.wait_until(lambda paths: all_up(paths) and all(path["via"] == ["1", "3", "4"] for path in paths))
    network.lab.run("ip", "link", "set", "l2a", "up")
    network.lab.vsctl("del-controller", "s4")
    assert network.wait_for("switch-disconnected")[2]["dpid"] == "0000000000000004"
    paths = network.wait_until(lambda paths: not any(path["up"] for path in paths))
    assert "not seen" in paths[0]["reason"]
    network.lab.vsctl("set-controller", "s4", TWO_PATHS.controller)
    network.wait_until(apart)


def test_a_second_switch_with_the_same_datapath_id_is_refused(network: Client) -> None:
    network.wait_until(all_up)
    words = ["add-br", "s9", "--", "set", "bridge", "s9", "datapath_type=netdev", "protocols=OpenFlow13"]
    words += ["other-config:datapath-id=0000000000000001", "--", "set-controller", "s9", TWO_PATHS.controller]
    network.lab.vsctl(*words)
    message = network.wait_for("switch-refused")[2]["message"]
    assert "other-config:datapath-id" in message
    network.lab.vsctl("del-br", "s9")
    network.wait_until(all_up)
    assert network.ask("GET", "/v1/health")["ok"]
