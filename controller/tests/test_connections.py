"""Limits of time and number on the connections of REST clients, over real sockets.

Each test waits for what the server does; the limit of `held` only ends a test that hangs.
"""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable

import pytest
from conftest import HANG_SECONDS
from test_rest import TOKEN, Pretended

from tributary_controller import rest
from tributary_controller.access import Access
from tributary_controller.connections import Limits, serve

HEAD = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
GET = f"GET /v1/paths HTTP/1.1\r\n{HEAD}\r\n".encode()
# Never reached in a test.
LONG = 3600.0

Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Peer]]


def held(work: Callable[[Connect, Pretended], Awaitable[None]], **limits: float) -> None:
    """Runs `work` with a server of these limits; times that are not given are never reached."""
    times = dict.fromkeys(("head_seconds", "body_seconds", "write_seconds"), LONG)
    chosen = Limits(**{**times, **limits})  # type: ignore[arg-type]

    async def run() -> None:
        backend = Pretended()
        writers = []
        async with serve(rest.application(backend, Access(TOKEN), chosen), "127.0.0.1", 0, chosen) as (host, port):

            async def connect() -> Peer:
                reader, writer = await asyncio.open_connection(host, port)
                writers.append(writer)
                return reader, writer

            await work(connect, backend)
            for writer in writers:
                writer.close()

    asyncio.run(asyncio.wait_for(run(), HANG_SECONDS))


async def answer(reader: asyncio.StreamReader) -> tuple[int, object]:
    """Status and JSON of the next response."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower().splitlines()
    [length] = [int(line.partition(":")[2]) for line in head if line.startswith("content-length:")]
    return int(head[0].split()[1]), json.loads(await reader.readexactly(length))


async def asked(peer: Peer) -> int:
    peer[1].write(GET)
    status, _ = await answer(peer[0])
    return status


async def refused(peer: Peer, status: int) -> dict[str, str]:
    """The problem that is the connection's last word."""
    got, problem = await answer(peer[0])
    assert got == status
    assert isinstance(problem, dict)
    assert problem["hint"]
    assert await peer[0].read() == b""
    return problem


async def is_cut(reader: asyncio.StreamReader) -> bool:
    with contextlib.suppress(ConnectionResetError):
        return await reader.read() == b""
    return True


def test_a_head_that_stays_incomplete_is_refused_in_time() -> None:
    async def work(connect: Connect, _: Pretended) -> None:
        for part in (b"GET /v1/pa", b"GET /v1/paths HTTP/1.1\r\nHost: localhost\r\nX: y"):
            peer = await connect()
            peer[1].write(part)
            problem = await refused(peer, 408)
            assert "head" in problem["detail"]

    held(work, head_seconds=0.05)


def test_a_connection_without_a_request_ends_before_its_first_and_after_its_last() -> None:
    async def work(connect: Connect, _: Pretended) -> None:
        assert await is_cut((await connect())[0])
        peer = await connect()
        assert await asked(peer) == 200
        assert await is_cut(peer[0])

    held(work, head_seconds=0.05)


def test_a_body_that_stays_incomplete_is_refused_in_time() -> None:
    async def work(connect: Connect, backend: Pretended) -> None:
        peer = await connect()
        post = f"POST /v1/paths HTTP/1.1\r\n{HEAD}Content-Type: application/json\r\nContent-Length: 99\r\n\r\n"
        peer[1].write(post.encode() + b'{"local": ')
        status, problem = await answer(peer[0])
        assert status == 408
        assert isinstance(problem, dict)
        assert "body" in problem["detail"]
        assert await is_cut(peer[0])
        assert not backend.known

    held(work, body_seconds=0.05)


def test_a_body_that_nobody_reads_does_not_hold_the_connection() -> None:
    async def work(connect: Connect, _: Pretended) -> None:
        peer = await connect()
        peer[1].write(b"DELETE /v1/paths/p1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{")
        status, _problem = await answer(peer[0])
        assert status == 401
        assert await is_cut(peer[0])

    held(work, body_seconds=0.05)


@pytest.mark.parametrize("limit", ["connections", "per_source"])
def test_connections_that_send_nothing_do_not_keep_others_out(limit: str) -> None:
    async def work(connect: Connect, _: Pretended) -> None:
        friend = await connect()
        assert await asked(friend) == 200
        silent = [await connect() for _ in range(8)]
        silent[0][1].write(b"GET /v1/pa")
        assert await asked(await connect()) == 200
        # Those that waited longest went first, and the one with an accepted request stays.
        assert await is_cut(silent[0][0])
        assert await asked(friend) == 200

    held(work, **{limit: 4})


def test_a_connection_beyond_the_limit_is_told_when_every_other_one_is_in_use() -> None:
    async def work(connect: Connect, _: Pretended) -> None:
        for _number in range(3):
            reader, writer = await connect()
            writer.write(f"GET /v1/events HTTP/1.1\r\n{HEAD}\r\n".encode())
            await reader.readuntil(b": connected\n\n")
        problem = await refused(await connect(), 503)
        assert "close one" in problem["hint"]

    held(work, connections=3)


def test_a_listener_that_does_not_read_loses_its_place() -> None:
    async def work(connect: Connect, backend: Pretended) -> None:
        reader, writer = await connect()
        writer.write(f"GET /v1/events HTTP/1.1\r\n{HEAD}\r\n".encode())
        await reader.readuntil(b": connected\n\n")
        # asyncio stops to read the socket when nobody takes the bytes from the reader.
        while not backend.events.empty():
            backend.events.publish("test", "x" * 100_000)
            await asyncio.sleep(0)

    held(work, write_seconds=0.05)


def test_bytes_that_are_not_http_are_answered_with_a_problem() -> None:
    async def work(connect: Connect, _: Pretended) -> None:
        for junk in (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"GET / HTTP/1.1\r\nHost\r\n\r\n", b"GET /" + b"x" * 20_000):
            peer = await connect()
            peer[1].write(junk)
            await refused(peer, 400)

    held(work)
