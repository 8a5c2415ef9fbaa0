"""Options that are refused before anything starts."""

from ipaddress import IPv4Address, IPv4Network

import pytest

from tributary_controller import cli


@pytest.mark.parametrize("text", ["", "8181", "here:8181", "127.0.0.1:x", "127.0.0.1:70000", "127.0.0.1:-1"])
def test_bad_endpoints_are_named(text: str) -> None:
    with pytest.raises(cli.Unusable, match="--listen"):
        cli.endpoint(text, "--listen")


def test_endpoints_networks_and_paths_are_read() -> None:
    assert cli.endpoint("[::1]:80", "--listen") == ("::1", 80)
    assert cli.networks(["10.0.0.0/24"], "--clients") == (IPv4Network("10.0.0.0/24"),)
    assert cli.addresses("10.0.0.1=10.0.0.2") == (IPv4Address("10.0.0.1"), IPv4Address("10.0.0.2"))
    for bad in ("10.0.0.1", "10.0.0.1=x", "a=b=c"):
        with pytest.raises(cli.Unusable, match="LOCAL=REMOTE"):
            cli.addresses(bad)
    with pytest.raises(cli.Unusable, match="--clients"):
        cli.networks(["10.0.0.1/24"], "--clients")
