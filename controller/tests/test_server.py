"""The port for switches, over real sockets: anybody who reaches it can connect."""

import asyncio

import pytest
from conftest import HANG_SECONDS

from tributary_controller.openflow import server
from tributary_controller.openflow.network import Network, Wanted


def test_strangers_do_not_keep_a_switch_out(recorded: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SWITCH_LIMIT", 3)
    handshake = b"".join(message for message in recorded if message[1] in (0, 6))

    async def run() -> None:
        network = Network(Wanted())
        heard = network.events.listen()
        async with server.serve(network, "127.0.0.1", 0) as port:

            async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                # The controller's hello.
                await reader.readexactly(8)
                return reader, writer

            strangers = [await connect() for _ in range(3)]
            switch = await connect()
            assert await strangers[0][0].read() == b"", "the oldest one goes"
            switch[1].write(handshake)
            while (await heard.next()).kind != "switch-connected":
                pass
            later = [await connect() for _ in range(4)]
            assert await strangers[1][0].read() == b""
            assert not switch[0].at_eof()
            for _, writer in [*strangers, switch, *later]:
                writer.close()

    asyncio.run(asyncio.wait_for(run(), HANG_SECONDS))
