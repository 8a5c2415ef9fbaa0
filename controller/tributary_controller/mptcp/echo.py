"""ICMP echo over one path: RTT, loss and death while no connection uses it, or while one only receives."""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Callable

from tributary_controller.backend import Address
from tributary_controller.measure import Answers

SO_BINDTODEVICE = 25


class Echo:
    """Sends from `local` on its device to `remote`. One raw socket; `close` ends it."""

    def __init__(self, local: Address, remote: Address, device: str, clock: Callable[[], float]) -> None:
        """Raises OSError without the right to open raw sockets, or when the address is gone."""
        self.answers = Answers()
        self.answered = False
        self._clock = clock
        self._version = local.version
        self._identity = int.from_bytes(os.urandom(2), "big")
        self._number = 0
        family = socket.AF_INET if local.version == 4 else socket.AF_INET6
        protocol = socket.IPPROTO_ICMP if local.version == 4 else socket.IPPROTO_ICMPV6
        self._socket = socket.socket(family, socket.SOCK_RAW, protocol)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, device.encode())
            self._socket.bind((str(local), 0))
            self._socket.connect((str(remote), 0))
            self._socket.setblocking(False)
        except OSError:
            self._socket.close()
            raise
        asyncio.get_running_loop().add_reader(self._socket, self._receive)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()

    def ask(self) -> None:
        self._number = (self._number + 1) & 0xFFFF
        message = echo_request(self._version, self._identity, self._number)
        self.answers.handle_sent(self._number, self._clock())
        # A device that is down, or a route that is missing, is a lost probe.
        with contextlib.suppress(OSError):
            self._socket.send(message)

    def _receive(self) -> None:
        try:
            data = self._socket.recv(2048)
        except OSError:
            # For example host unreachable: the probe is lost.
            return
        number = read_reply(self._version, self._identity, data)
        if number is not None:
            self.answered = True
            self.answers.handle_answer(number, self._clock())


def echo_request(version: int, identity: int, number: int) -> bytes:
    """ICMP (RFC 792) or ICMPv6 (RFC 4443), whose checksum the kernel fills in."""
    if version == 6:
        return struct.pack("!BBHHH", 128, 0, 0, identity, number)
    head = struct.pack("!BBHHH", 8, 0, 0, identity, number)
    return struct.pack("!BBHHH", 8, 0, checksum(head), identity, number)


def checksum(data: bytes) -> int:
    """RFC 1071, of an even number of bytes."""
    total = 0
    for (word,) in struct.iter_unpack("!H", data):
        total += word
    while total >> 16:
        total = (total >> 16) + (total & 0xFFFF)
    return ~total & 0xFFFF


def read_reply(version: int, identity: int, data: bytes) -> int | None:
    """Number of the echo that this answers. IPv4's raw sockets give the IP header too."""
    at = (data[0] & 15) * 4 if version == 4 and data else 0
    if len(data) < at + 8:
        return None
    kind, code, _, answered, number = struct.unpack_from("!BBHHH", data, at)
    wanted = 0 if version == 4 else 129
    return int(number) if (kind, code, answered) == (wanted, 0, identity) else None
