"""What `ip` and `ss` of iproute2 print, as plain values. Pure functions; unknown lines are left out, never a fault.

Written against iproute2 6.1 and Linux 6.18; both add fields at times, so fields are looked up by name.
"""

import json
import re
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Any

from tributary_controller.backend import Address

# A socket's limits: a flow with this many timeouts in a row, or with one and no answer for so long, is dead.
DEAD_BACKOFF = 2
DEAD_SILENCE_MS = 600


@dataclass(frozen=True)
class Subflow:
    """An established subflow of an MPTCP connection. `rtt_ms` is the kernel's smoothed one, None before a sample."""

    local: Address
    remote: Address
    ports: tuple[int, int]
    rtt_ms: float | None
    sent_bytes: int
    received_bytes: int
    sent_segments: int
    retransmitted: int
    backoff: int
    silence_ms: int

    @property
    def dead(self) -> bool:
        return self.backoff >= DEAD_BACKOFF or (self.backoff >= 1 and self.silence_ms >= DEAD_SILENCE_MS)


@dataclass(frozen=True)
class Endpoint:
    """An address that the path manager may use."""

    number: int
    address: Address
    flags: frozenset[str]


@dataclass(frozen=True)
class Device:
    """A network interface that is up or not, for one of its addresses."""

    name: str
    up: bool


def read_subflows(text: str) -> list[Subflow]:
    """From `ss -tinHO`: one line a socket."""
    subflows = (_subflow(line) for line in text.splitlines() if "tcp-ulp-mptcp" in line)
    return [subflow for subflow in subflows if subflow is not None]


def _subflow(line: str) -> Subflow | None:
    words = line.split()
    if len(words) < 6 or words[0] != "ESTAB":
        return None
    local, remote = _endpoint(words[3]), _endpoint(words[4])
    if local is None or remote is None:
        return None
    rtt = re.search(r" rtt:(\d+(?:\.\d+)?)/", line)
    retransmitted = re.search(r" retrans:\d+/(\d+)", line)
    silence = min(_number(line, "lastrcv"), _number(line, "lastack"))
    return Subflow(
        local=local[0],
        remote=remote[0],
        ports=(local[1], remote[1]),
        rtt_ms=float(rtt[1]) if rtt else None,
        sent_bytes=_number(line, "bytes_acked"),
        received_bytes=_number(line, "bytes_received"),
        sent_segments=_number(line, "data_segs_out"),
        retransmitted=int(retransmitted[1]) if retransmitted else 0,
        backoff=_number(line, "backoff"),
        silence_ms=silence,
    )


def _number(line: str, name: str) -> int:
    found = re.search(rf" {name}:(\d+)", line)
    return int(found[1]) if found else 0


def _endpoint(text: str) -> tuple[Address, int] | None:
    """For example 10.77.2.2%eth1:58551 or [fd77:2::2]:443."""
    host, _, port = text.rpartition(":")
    host = host.partition("%")[0] if not host.startswith("[") else host[1:].partition("]")[0].partition("%")[0]
    try:
        address = ip_address(host)
        number = int(port)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address, number


def read_endpoints(text: str) -> list[Endpoint]:
    """From `ip -j mptcp endpoint show`."""
    found = []
    for one in _objects(text):
        try:
            flags = frozenset(name for name, value in one.items() if value is True)
            found.append(Endpoint(int(one["id"]), ip_address(one["address"]), flags))
        except (KeyError, ValueError, TypeError):
            continue
    return found


def read_devices(text: str) -> dict[Address, Device]:
    """From `ip -j address show`: the device of each address of this host."""
    found: dict[Address, Device] = {}
    for one in _objects(text):
        flags = one.get("flags", [])
        up = isinstance(flags, list) and "UP" in flags and "LOWER_UP" in flags
        addresses = one.get("addr_info", [])
        for entry in addresses if isinstance(addresses, list) else []:
            try:
                found[ip_address(entry["local"])] = Device(str(one["ifname"]), up)
            except (KeyError, ValueError, TypeError):
                continue
    return found


def _objects(text: str) -> list[dict[str, Any]]:
    try:
        parsed = json.loads(text or "[]")
    except ValueError:
        return []
    return [one for one in parsed if isinstance(one, dict)] if isinstance(parsed, list) else []
