"""One switch's connection: framing, handshake, echo, and what to do with a peer that does not speak OpenFlow 1.3.

Knows nothing of topology; hands every message to its owner with the time at which its bytes came.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tributary_controller.openflow import wire

log = logging.getLogger("tributary_controller")

HANDSHAKE_SECONDS = 5.0
# A switch that has sent nothing for so long, in spite of an echo request each second, is gone.
SILENT_SECONDS = 3.0
# Malformed messages that end a connection. Framing is still intact after each.
MALFORMED_LIMIT = 10
# A switch that leaves so much unread is gone.
UNSENT_LIMIT = 1 << 20


class Owner(Protocol):
    """What `Connection` reports to."""

    def handle_connected(self, connection: "Connection", features: wire.Features) -> None: ...

    def handle_message(self, connection: "Connection", message: wire.Message, now: float) -> None: ...

    def handle_closed(self, connection: "Connection", reason: str) -> None: ...

    def handle_malformed(self, connection: "Connection", reason: str) -> None: ...


@dataclass
class _Handshake:
    hello: bool = False
    done: bool = False


class Transport(Protocol):
    """What a connection needs of `stream.Stream`."""

    @property
    def peer(self) -> str: ...

    @property
    def unsent(self) -> int: ...

    def write(self, data: bytes) -> None: ...

    def abort(self) -> None: ...


class Connection:
    """Made for each TCP connection. `dpid` is None until the handshake is done."""

    def __init__(self, owner: Owner, clock: Callable[[], float]) -> None:
        self._owner = owner
        self._clock = clock
        self._transport: Transport | None = None
        self._buffer = bytearray()
        self._handshake = _Handshake()
        self._malformed = 0
        self._xid = 0
        self.closed = False
        self._opened = self.heard = clock()
        self.dpid: int | None = None
        self.peer = "unknown"

    def next_xid(self) -> int:
        self._xid = (self._xid + 1) & 0xFFFFFFFF
        return self._xid

    def send(self, message: bytes) -> None:
        if self._transport is None or self.closed:
            return
        self._transport.write(message)
        if self._transport.unsent > UNSENT_LIMIT:
            self.close("it does not read what is sent to it")

    def close(self, reason: str) -> None:
        """Ends the connection; the owner hears of it at once and only once."""
        if self.closed:
            return
        self.closed = True
        self._owner.handle_closed(self, reason)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: Transport) -> None:
        self._transport = transport
        self.peer = transport.peer
        self.send(wire.hello(self.next_xid()))

    def connection_lost(self) -> None:
        self.close("the connection ended")

    def data_received(self, data: bytes, came: float) -> None:
        """Bytes that arrived at `came`."""
        self.heard = came
        self._buffer += data
        while len(self._buffer) >= wire.HEADER_BYTES and not self.closed:
            length = int.from_bytes(self._buffer[2:4], "big")
            if length < wire.HEADER_BYTES:
                self._owner.handle_malformed(self, f"length field {length} is less than a header")
                return self.close("it sent a message without a valid length")
            if len(self._buffer) < length:
                return None
            message = bytes(self._buffer[:length])
            del self._buffer[:length]
            self._handle(message, came)
        return None

    def handle_time(self, now: float) -> None:
        """Called each second."""
        if not self._handshake.done:
            if now - self._opened > HANDSHAKE_SECONDS:
                self.close(f"no OpenFlow handshake within {HANDSHAKE_SECONDS:.0f} s")
        elif now - self.heard > SILENT_SECONDS:
            self.close(f"silent for {SILENT_SECONDS:.0f} s")
        else:
            self.send(wire.echo_request(self.next_xid(), b""))

    def _handle(self, data: bytes, now: float) -> None:
        try:
            message = wire.read(data)
        except wire.MalformedMessage as error:
            self._malformed += 1
            self._owner.handle_malformed(self, str(error))
            if self._malformed >= MALFORMED_LIMIT or not self._handshake.done:
                self.close(f"malformed messages ({self._malformed}): {error}")
            return
        match message:
            case wire.Hello(version):
                self._handle_hello(version)
            case wire.EchoRequest(xid, payload):
                self.send(wire.echo_reply(xid, payload))
            case _ if not self._handshake.hello:
                self.close("it sent something else before a hello")
            case wire.Features():
                self._handle_features(message)
            case _ if self._handshake.done:
                self._owner.handle_message(self, message, now)
            case _:
                pass

    def _handle_hello(self, version: int) -> None:
        if version < wire.VERSION:
            self.close(f"it speaks OpenFlow version {version:#04x} only; set its protocols to OpenFlow13")
        elif not self._handshake.hello:
            self._handshake.hello = True
            self.send(wire.features_request(self.next_xid()))

    def _handle_features(self, features: wire.Features) -> None:
        if self._handshake.done:
            return
        if features.auxiliary:
            self.close("auxiliary connections are not used")
            return
        self._handshake.done = True
        self.dpid = features.dpid
        self._owner.handle_connected(self, features)
