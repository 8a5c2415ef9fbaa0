"""A TCP connection whose bytes come with the time at which the kernel received them.

asyncio's own transports say nothing of that time: a busy controller would take its own waiting for the path's delay.
"""

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import Callable
from typing import Protocol

SO_TIMESTAMPNS = 35
READ_BYTES = 65536
# Not believed when it differs more from the time of reading: the clock was set, or the kernel gives no time.
OLDEST_SECONDS = 5.0


class Reader(Protocol):
    """Gets what arrives."""

    def connection_made(self, stream: "Stream") -> None: ...

    def data_received(self, data: bytes, came: float) -> None: ...

    def connection_lost(self) -> None: ...


class Stream:
    """Reads when there is something; writes at once, and keeps what the socket does not take."""

    def __init__(self, connected: socket.socket, reader: Reader, clock: Callable[[], float]) -> None:
        self._socket = connected
        self._reader = reader
        self._clock = clock
        self._unsent = bytearray()
        self._loop = asyncio.get_running_loop()
        self._closed = False
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._loop.add_reader(connected, self._readable)
        reader.connection_made(self)

    @property
    def peer(self) -> str:
        try:
            name = self._socket.getpeername()
        except OSError:
            return "a peer that left"
        return f"{name[0]}:{name[1]}"

    @property
    def unsent(self) -> int:
        return len(self._unsent)

    def write(self, data: bytes) -> None:
        if self._closed:
            return
        if self._unsent:
            self._unsent += data
            return
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            # The reading side hears of the end.
            return
        if sent < len(data):
            self._unsent += data[sent:]
            self._loop.add_writer(self._socket, self._writable)

    def abort(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()

    def _writable(self) -> None:
        with contextlib.suppress(OSError):
            del self._unsent[: self._socket.send(self._unsent)]
        if not self._unsent:
            self._loop.remove_writer(self._socket)

    def _readable(self) -> None:
        try:
            data, ancillary, _, _ = self._socket.recvmsg(READ_BYTES, 128)
        except BlockingIOError:
            return
        except OSError:
            data, ancillary = b"", []
        if data:
            self._reader.data_received(data, self._clock() - _waited(ancillary))
        else:
            self.abort()
            self._reader.connection_lost()


def _waited(ancillary: list[tuple[int, int, bytes]]) -> float:
    """Seconds between the arrival of the last byte in the kernel and this moment."""
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS) and len(data) >= 16:
            seconds, nanoseconds = struct.unpack("qq", data[:16])
            waited = time.time() - (int(seconds) + int(nanoseconds) / 1e9)
            return waited if 0.0 <= waited <= OLDEST_SECONDS else 0.0
    return 0.0
