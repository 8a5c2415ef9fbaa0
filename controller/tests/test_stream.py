"""The socket under a switch's connection: real TCP on this machine."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable

from conftest import HANG_SECONDS

from tributary_controller.openflow.stream import Stream


class Reader:
    def __init__(self) -> None:
        self.stream: Stream | None = None
        self.received: list[tuple[bytes, float]] = []
        self.something = asyncio.Event()
        self.lost = asyncio.Event()

    def connection_made(self, stream: Stream) -> None:
        self.stream = stream

    def data_received(self, data: bytes, came: float) -> None:
        self.received.append((data, came))
        self.something.set()

    def connection_lost(self) -> None:
        self.lost.set()


def connected(work: Callable[[Stream, Reader, socket.socket], Awaitable[None]]) -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            far = socket.create_connection(server.getsockname())
            near, _ = server.accept()
            reader = Reader()
            stream = Stream(near, reader, time.monotonic)
            with contextlib.closing(far):
                await asyncio.wait_for(work(stream, reader, far), HANG_SECONDS)
            stream.abort()

    asyncio.run(run())


def test_time_is_that_of_arrival_and_not_of_reading() -> None:
    async def work(_stream: Stream, reader: Reader, far: socket.socket) -> None:
        # The kernel switches time stamps on a little after the first socket asks for them.
        for _ in range(100):
            reader.something.clear()
            far.sendall(b"x")
            sent = time.monotonic()
            # The loop is busy with something else: reading happens 20 ms after the arrival.
            while time.monotonic() < sent + 0.02:
                pass
            await reader.something.wait()
            data, came = reader.received[-1]
            assert data == b"x"
            if came < sent + 0.02:
                return
        raise AssertionError("no arrival was stamped by the kernel")

    connected(work)


def test_what_the_socket_does_not_take_is_kept_and_sent_in_order() -> None:
    async def work(stream: Stream, _reader: Reader, far: socket.socket) -> None:
        sent = b"".join(number.to_bytes(4, "big") for number in range(2_000_000))
        for at in range(0, len(sent), 100_000):
            stream.write(sent[at : at + 100_000])
        assert stream.unsent > 0
        far.setblocking(False)
        received = b""
        while len(received) < len(sent):
            received += await asyncio.get_running_loop().sock_recv(far, 1 << 20)
        assert received == sent
        assert stream.unsent == 0

    connected(work)


def test_an_end_is_told_and_writing_after_it_does_nothing() -> None:
    async def work(stream: Stream, reader: Reader, far: socket.socket) -> None:
        far.close()
        await reader.lost.wait()
        stream.write(b"nobody")
        assert stream.unsent == 0

    connected(work)
