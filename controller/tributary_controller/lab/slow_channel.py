"""Forwards TCP connections with a delay each way: a control channel to switches that are far away.

A process of its own: `python -m tributary_controller.lab.slow_channel PORT TARGET_PORT SECONDS`, all on 127.0.0.1.
"""

import asyncio
import contextlib
import os
import selectors
import sys


async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    """Bytes keep their order, since each waits equally long."""
    loop = asyncio.get_running_loop()
    while data := await reader.read(65536):
        loop.call_later(delay, writer.write, data)
    loop.call_later(delay, writer.close)


async def serve(port: int, target: int, delay: float) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            # As if nobody listened: the switch tries again.
            writer.close()
            return
        with contextlib.suppress(OSError):
            await asyncio.gather(forward(reader, far_writer, delay), forward(far_reader, writer, delay))

    server = await asyncio.start_server(accept, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


def main() -> None:
    port, target, seconds = sys.argv[1:]
    # On a busy machine the delay must stay what it is said to be.
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    # `select` waits in microseconds, asyncio's usual `epoll` in milliseconds.
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    loop.run_until_complete(serve(int(port), int(target), float(seconds)))


if __name__ == "__main__":
    main()
