"""Connections of REST clients: how many there may be, and how long each may wait.

A connection waits or serves. It waits until the head of a request is complete, for `head_seconds` at most. At a limit
the connection that has waited longest goes, one without an accepted request first; so connections that send nothing
cannot keep out one that does. Not here: what is served (`rest`), and who may ask (`access`).
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, cast

from aiohttp import web

from tributary_controller.problem import Problem


@dataclass(frozen=True)
class Limits:
    """`body_seconds`: for a body, after its head. `write_seconds`: for an event, until the listener's kernel has it."""

    connections: int = 256
    # More than the events' listeners: on a loopback address all clients are one source.
    per_source: int = 128
    head_seconds: float = 10.0
    body_seconds: float = 10.0
    write_seconds: float = 30.0


class Connections:
    """Every open connection of a server."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._open: dict[Connection, None] = {}

    def admit(self, connection: "Connection") -> bool:
        """Makes room for a connection; False when every other one serves a request."""
        same = [other for other in self._open if other.source == connection.source]
        full = same if len(same) >= self.limits.per_source else list(self._open)
        if full is same or len(full) >= self.limits.connections:
            idle = [other for other in full if not other.serving]
            if not idle:
                return False
            min(idle, key=lambda other: (other.accepted, other.since)).end()
        self._open[connection] = None
        return True

    def forget(self, connection: "Connection") -> None:
        self._open.pop(connection, None)


class Connection(web.RequestHandler):
    """One TCP connection."""

    def __init__(self, connections: Connections, manager: Any, **more: Any) -> None:
        super().__init__(manager, **more)
        self._connections = connections
        self._real: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        # Bytes came since the last head was complete.
        self._begun = False
        self.source = ""
        self.serving = False
        # A request on it was accepted.
        self.accepted = False
        self.since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._real = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.source = str(peer[0]) if peer else "a local socket"
        if not self._connections.admit(self):
            detail = f"{self._connections.limits.connections} in all or {self._connections.limits.per_source} of you"
            self._say(Problem(503, "too many connections", detail, "close one, or try again later"))
            return
        self._wait()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._begun = True
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.forget(self)
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def end(self) -> None:
        """Ends it at once; what is not sent yet is lost."""
        self._connections.forget(self)
        if self._real is not None:
            self._real.abort()

    @contextlib.contextmanager
    def serves(self) -> Iterator[None]:
        """While a request is answered."""
        if self._timer is not None:
            self._timer.cancel()
        self.serving, self._begun = True, False
        try:
            yield
        finally:
            self.serving = False
            self._wait()

    def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        self.since = loop.time()
        self._timer = loop.call_later(self._connections.limits.head_seconds, self._too_late)

    def _too_late(self) -> None:
        if self._begun and self._real is not None and self._real.get_write_buffer_size() == 0:
            detail = f"the head of a request was not complete after {self._connections.limits.head_seconds:g} s"
            self._say(Problem(408, "too slow", detail, "send the whole request at once"))
        else:
            self.end()

    def _say(self, problem: Problem) -> None:
        """Answers without a request, and closes."""
        body = json.dumps(problem.document()).encode() + b"\n"
        head = f"HTTP/1.1 {problem.status} {problem.title}\r\nContent-Type: application/problem+json\r\n"
        head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        if self._real is not None:
            self._real.write(head.encode() + body)
            self._real.close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What aiohttp answers by itself: to bytes that are not HTTP."""
        if status < 500:
            problem = Problem(status, "bad request", (message or "not HTTP")[:200], "send an HTTP/1.1 request")
        else:
            self.log_exception("fault while answering", exc_info=exc)
            problem = Problem(status, "internal error", "a fault of the controller", "please report it with its log")
        answer = web.json_response(problem.document(), status=status, content_type="application/problem+json")
        answer.force_close()
        return answer


@contextlib.asynccontextmanager
async def serve(
    app: web.Application, host: str, port: int, limits: Limits | None = None
) -> AsyncIterator[tuple[str, int]]:
    """Listens while the block runs; gives the address and the port, which matters when `port` is 0."""
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    connections = Connections(limits or Limits())
    loop = asyncio.get_running_loop()
    seconds = connections.limits.body_seconds

    def connected() -> Connection:
        return Connection(connections, runner.server, loop=loop, lingering_time=seconds)

    try:
        server = await loop.create_server(connected, host, port, reuse_address=True)
        async with server:
            address = server.sockets[0].getsockname()
            yield address[0], address[1]
            server.close()
            await runner.cleanup()
    finally:
        await runner.cleanup()
