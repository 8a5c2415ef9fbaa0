"""Ethernet frames that the controller sends and reads: LLDP, ARP, and its own probes. Pure functions of bytes.

Sources: IEEE 802.1AB (LLDP), RFC 826 and RFC 5227 (ARP and ARP probes). Readers return None for what is malformed
or not theirs.
"""

import struct
from dataclasses import dataclass
from ipaddress import IPv4Address

ETH_ARP = 0x0806
ETH_IPV4 = 0x0800
ETH_LLDP = 0x88CC
# IEEE 802 Local Experimental Ethertype 1.
ETH_PROBE = 0x88B5

BROADCAST = b"\xff" * 6
LLDP_MULTICAST = bytes.fromhex("0180c200000e")
# Locally administered addresses. ARP probes carry their number in the last two bytes of the asking address, so that
# the answer, sent to that address, names its question.
ASKING_PREFIX = bytes.fromhex("027472690000")
PREFIX_MASK = bytes.fromhex("ffffffff0000")
FORWARD_PREFIX = bytes.fromhex("027472700000")
BACK_PREFIX = bytes.fromhex("027472710000")
SOURCE = bytes.fromhex("027472720000")

# Identifies one run of the controller in the frames that it sends to itself.
NONCE_BYTES = 8


def mac_text(mac: bytes) -> str:
    return mac.hex(":")


def numbered(prefix: bytes, number: int) -> bytes:
    """The address of `prefix` with `number`, 0 to 65535, in its last two bytes."""
    return prefix[:4] + struct.pack("!H", number)


def number_of(prefix: bytes, mac: bytes) -> int | None:
    return int.from_bytes(mac[4:], "big") if mac[:4] == prefix[:4] else None


def is_own(mac: bytes) -> bool:
    return mac[:4] in (ASKING_PREFIX[:4], FORWARD_PREFIX[:4], BACK_PREFIX[:4], SOURCE[:4])


@dataclass(frozen=True)
class Ethernet:
    destination: bytes
    source: bytes
    kind: int
    payload: bytes


def read_ethernet(frame: bytes) -> Ethernet | None:
    if len(frame) < 14:
        return None
    (kind,) = struct.unpack_from("!H", frame, 12)
    return Ethernet(frame[:6], frame[6:12], kind, frame[14:])


def _ethernet(destination: bytes, source: bytes, kind: int, payload: bytes) -> bytes:
    return (destination + source + struct.pack("!H", kind) + payload).ljust(60, b"\0")


@dataclass(frozen=True)
class Arp:
    """`sender_ip` is 0.0.0.0 in an ARP probe (RFC 5227)."""

    request: bool
    sender_mac: bytes
    sender_ip: IPv4Address
    target_mac: bytes
    target_ip: IPv4Address

    def frame(self, destination: bytes) -> bytes:
        kind = 1 if self.request else 2
        payload = (
            struct.pack("!HHBBH", 1, ETH_IPV4, 6, 4, kind)
            + self.sender_mac
            + self.sender_ip.packed
            + self.target_mac
            + self.target_ip.packed
        )
        return _ethernet(destination, self.sender_mac, ETH_ARP, payload)


def read_arp(payload: bytes) -> Arp | None:
    if len(payload) < 28:
        return None
    hardware, protocol, mac_length, ip_length, kind = struct.unpack_from("!HHBBH", payload)
    if (hardware, protocol, mac_length, ip_length) != (1, ETH_IPV4, 6, 4) or kind not in (1, 2):
        return None
    return Arp(
        request=kind == 1,
        sender_mac=payload[8:14],
        sender_ip=IPv4Address(payload[14:18]),
        target_mac=payload[18:24],
        target_ip=IPv4Address(payload[24:28]),
    )


def read_ipv4_source(payload: bytes) -> IPv4Address | None:
    if len(payload) < 20 or payload[0] >> 4 != 4:
        return None
    return IPv4Address(payload[12:16])


def arp_probe(number: int, target: IPv4Address, target_mac: bytes | None) -> bytes:
    """Asks whether `target` is there without changing any neighbour table; the answer comes to the asking address."""
    asking = numbered(ASKING_PREFIX, number)
    return Arp(True, asking, IPv4Address(0), bytes(6), target).frame(target_mac or BROADCAST)


def _tlv(kind: int, value: bytes) -> bytes:
    return struct.pack("!H", kind << 9 | len(value)) + value


def lldp(dpid: int, port: int, nonce: bytes) -> bytes:
    """Announces port `port` of switch `dpid`. The nonce, in an organisation's field, tells our frames from others."""
    payload = (
        _tlv(1, b"\x07" + dpid.to_bytes(8, "big"))
        + _tlv(2, b"\x07" + port.to_bytes(4, "big"))
        + _tlv(3, (5).to_bytes(2, "big"))
        + _tlv(127, SOURCE[:3] + b"\x01" + nonce)
        + _tlv(0, b"")
    )
    return _ethernet(LLDP_MULTICAST, SOURCE, ETH_LLDP, payload)


def read_lldp(payload: bytes, nonce: bytes) -> tuple[int, int] | None:
    """Switch and port that sent it, when this run of the controller made it."""
    fields: dict[int, bytes] = {}
    at = 0
    while at + 2 <= len(payload):
        (head,) = struct.unpack_from("!H", payload, at)
        kind, length = head >> 9, head & 0x1FF
        value = payload[at + 2 : at + 2 + length]
        if kind == 0:
            break
        if len(value) != length:
            return None
        fields.setdefault(kind, value)
        at += 2 + length
    chassis, port = fields.get(1, b""), fields.get(2, b"")
    if fields.get(127) != SOURCE[:3] + b"\x01" + nonce or len(chassis) != 9 or len(port) != 5:
        return None
    return int.from_bytes(chassis[1:], "big"), int.from_bytes(port[1:], "big")


def probe(destination: bytes, number: int, nonce: bytes) -> bytes:
    return _ethernet(destination, SOURCE, ETH_PROBE, nonce + struct.pack("!I", number))


def read_probe(payload: bytes, nonce: bytes) -> int | None:
    """Number of the probe, when this run of the controller made it."""
    if len(payload) < NONCE_BYTES + 4 or payload[:NONCE_BYTES] != nonce:
        return None
    return int.from_bytes(payload[NONCE_BYTES : NONCE_BYTES + 4], "big")
