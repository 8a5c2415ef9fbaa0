"""Frames that the controller makes are read back; what others send never raises."""

import random
from ipaddress import IPv4Address

from tributary_controller.openflow import frames

NONCE = b"12345678"


def test_lldp_round_trip() -> None:
    ethernet = frames.read_ethernet(frames.lldp(0xABC, 7, NONCE))
    assert ethernet is not None
    assert frames.read_lldp(ethernet.payload, NONCE) == (0xABC, 7)
    assert frames.read_lldp(ethernet.payload, b"87654321") is None


def test_an_arp_probe_has_its_number_in_the_asking_address() -> None:
    ethernet = frames.read_ethernet(frames.arp_probe(513, IPv4Address("10.0.0.1"), None))
    assert ethernet is not None
    arp = frames.read_arp(ethernet.payload)
    assert arp is not None
    assert arp.request
    assert int(arp.sender_ip) == 0
    assert frames.number_of(frames.ASKING_PREFIX, arp.sender_mac) == 513


def test_probe_round_trip() -> None:
    ethernet = frames.read_ethernet(frames.probe(frames.numbered(frames.FORWARD_PREFIX, 3), 99, NONCE))
    assert ethernet is not None
    assert frames.read_probe(ethernet.payload, NONCE) == 99
    assert frames.read_probe(ethernet.payload, b"87654321") is None
    assert frames.number_of(frames.FORWARD_PREFIX, ethernet.destination) == 3
    assert frames.number_of(frames.BACK_PREFIX, ethernet.destination) is None


def test_random_bytes_are_refused_or_read() -> None:
    dice = random.Random(2)
    for _ in range(5000):
        data = dice.randbytes(dice.randrange(80))
        frames.read_ethernet(data)
        frames.read_arp(data)
        frames.read_ipv4_source(data)
        assert frames.read_lldp(data, NONCE) is None
        assert frames.read_probe(data, NONCE) is None
