"""Runs the OpenFlow backend: accepts switches and keeps the clock. The only part that waits."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

from tributary_controller.measure import PROBE_SECONDS
from tributary_controller.openflow.network import Network
from tributary_controller.openflow.stream import Stream
from tributary_controller.openflow.switch import Connection

log = logging.getLogger("tributary_controller")

# In the order of their arrival.
Connections = dict[Connection, None]

TICK_SECONDS = 0.05
# Of connections, with and without a finished handshake.
SWITCH_LIMIT = 256


@contextlib.asynccontextmanager
async def serve(network: Network, host: str, port: int) -> AsyncIterator[int]:
    """Listens for switches while the block runs; gives the port, which matters when `port` is 0."""
    connections: Connections = {}

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = socket.create_server((host, port), family=family)
    server.setblocking(False)
    works = (_accept(server, network, connections), _ticks(network), _seconds(network, connections), _probes(network))
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield server.getsockname()[1]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        server.close()
        for connection in list(connections):
            connection.close("the controller ends")


async def _accept(server: socket.socket, network: Network, connections: Connections) -> None:
    while True:
        try:
            accepted, _ = await asyncio.get_running_loop().sock_accept(server)
        except OSError as error:
            # For example too many open files: others may end meanwhile.
            log.warning("a switch could not connect: %s", error)
            await asyncio.sleep(1.0)
            continue
        if not _has_room(connections):
            log.warning("a switch could not connect: %d are connected, the most that is supported", SWITCH_LIMIT)
            accepted.close()
            continue
        connection = Connection(network, network.clock)
        connections[connection] = None
        Stream(accepted, connection, network.clock)


def _has_room(connections: Connections) -> bool:
    """Whether one more may connect. At the limit the oldest one without a handshake goes: it may be no switch."""
    for connection in [connection for connection in connections if connection.closed]:
        del connections[connection]
    if len(connections) < SWITCH_LIMIT:
        return True
    strangers = (connection for connection in connections if connection.dpid is None)
    oldest = next(strangers, None)
    if oldest is None:
        return False
    oldest.close("too many connections without an OpenFlow handshake")
    del connections[oldest]
    return True


async def _ticks(network: Network) -> None:
    while True:
        await asyncio.sleep(TICK_SECONDS)
        _guarded(network.handle_time, network.clock())


async def _seconds(network: Network, connections: Connections) -> None:
    while True:
        await asyncio.sleep(1.0)
        now = network.clock()
        for connection in list(connections):
            if connection.closed:
                connections.pop(connection, None)
            else:
                _guarded(connection.handle_time, now)
        _guarded(network.handle_second, now)


async def _probes(network: Network) -> None:
    """Asks every target once in `PROBE_SECONDS`, evenly spread: probes sent together would delay each other."""
    while True:
        keys = network.prober.targets()
        began = network.clock()
        for index, key in enumerate(keys):
            wait = began + index * PROBE_SECONDS / len(keys) - network.clock()
            if wait > 0:
                await asyncio.sleep(wait)
            _guarded(network.prober.ask, key)
        await asyncio.sleep(max(began + PROBE_SECONDS - network.clock(), 0.001))


def _guarded(work: Callable[[Any], object], argument: Any) -> None:
    """One fault must not end the clock; it is logged with its traceback."""
    try:
        work(argument)
    except Exception:
        log.exception("fault in the controller; please report it")
