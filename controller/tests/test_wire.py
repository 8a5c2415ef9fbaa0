"""Reading and writing OpenFlow messages."""

import contextlib
import random
import struct

import pytest

from tributary_controller.openflow import frames, rules, wire


def test_a_recorded_session_is_read(recorded: list[bytes]) -> None:
    messages = [wire.read(data) for data in recorded]
    assert wire.Features(dpid=1, auxiliary=0) in messages
    (ports,) = [message for message in messages if isinstance(message, wire.Ports)]
    assert {port.name for port in ports.ports} >= {"h0", "l0a"}
    down = [message for message in messages if isinstance(message, wire.PortStatus)]
    assert [(status.port.name, status.port.live) for status in down] == [("h0", True), ("h0", False)]


def test_a_recorded_frame_is_an_lldp_frame_of_another_switch(recorded: list[bytes]) -> None:
    nonce = bytes.fromhex("09784fd73e842d9c")
    packets = [message for message in map(wire.read, recorded) if isinstance(message, wire.PacketIn)]
    links = set()
    for packet in packets:
        ethernet = frames.read_ethernet(packet.frame)
        assert ethernet is not None
        if ethernet.kind == frames.ETH_LLDP:
            links.add((packet.in_port, frames.read_lldp(ethernet.payload, nonce)))
            assert frames.read_lldp(ethernet.payload, bytes(8)) is None, "another controller's nonce"
    assert len(links) == 2
    assert {sender[0] for _, sender in links if sender} == {2, 3}


def test_no_change_of_a_recorded_message_raises_anything_but_malformed(recorded: list[bytes]) -> None:
    dice = random.Random(1)
    refused = 0
    for _ in range(3000):
        data = bytearray(dice.choice(recorded))
        for _ in range(dice.randint(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        if dice.random() < 0.3:
            data = data[: dice.randrange(len(data) + 1)]
            if len(data) >= 4:
                data[2:4] = len(data).to_bytes(2, "big")
        try:
            wire.read(bytes(data))
        except wire.MalformedMessage:
            refused += 1
    assert refused > 300


def flow_statistics(*entries: bytes) -> bytes:
    body = struct.pack("!HHI", 1, 0, 0) + b"".join(entries)
    return struct.pack("!BBHI", wire.VERSION, 19, 8 + len(body), 1) + body


def flow_entry(length: int, cookie: int, count: int, instructions: bytes = b"") -> bytes:
    return struct.pack("!H22xQQQHH4x", length, cookie, 3, count, 1, 4) + instructions


def test_flow_statistics_are_read_and_their_lengths_checked() -> None:
    to_a_port = struct.pack("!HH4xHHIH6x", 4, 24, 0, 16, 1, 0xFFFF)
    data = flow_statistics(flow_entry(56, 7, 1000), flow_entry(80, 8, 2**40, to_a_port))
    assert wire.read(data) == wire.FlowStatistics((wire.FlowCounters(7, 1000), wire.FlowCounters(8, 2**40)))
    assert wire.read(flow_statistics()) == wire.FlowStatistics(())
    for length in (0, 1, 55, 57, 65535):
        with pytest.raises(wire.MalformedMessage, match=f"an entry of {length} bytes"):
            wire.read(flow_statistics(flow_entry(length, 7, 1000)))
    with pytest.raises(wire.MalformedMessage):
        wire.read(flow_statistics(flow_entry(56, 7, 1000)[:40]))


def test_no_length_of_zero_keeps_the_reader_busy() -> None:
    for kind in range(30):
        for part in range(15):
            data = struct.pack("!BBHIHHI", wire.VERSION, kind, 216, 1, part, 0, 0) + bytes(200)
            with contextlib.suppress(wire.MalformedMessage):
                wire.read(data)


def test_other_versions_are_named() -> None:
    with pytest.raises(wire.MalformedMessage, match="version 0x01"):
        wire.read(bytes([1, 2, 0, 8, 0, 0, 0, 1]))
    assert wire.read(bytes([1, 0, 0, 8, 0, 0, 0, 1])) == wire.Hello(1)


def test_every_rule_is_accepted_by_the_writer() -> None:
    for rule in rules.base(metered=True):
        data = wire.add_rule(7, rule)
        assert data[0] == wire.VERSION
        assert int.from_bytes(data[2:4], "big") == len(data)


def test_cookies_name_path_and_direction() -> None:
    assert rules.path_of_cookie(rules.path_cookie(5)) == (5, False)
    assert rules.path_of_cookie(rules.path_cookie(5, towards_local=True)) == (5, True)
    assert rules.path_of_cookie(rules.route_cookie(5)) is None
