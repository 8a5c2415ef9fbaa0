"""The connection of a switch: framing, handshake, peers that speak something else."""

import random

from tributary_controller.openflow import wire
from tributary_controller.openflow.switch import HANDSHAKE_SECONDS, SILENT_SECONDS, UNSENT_LIMIT, Connection


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.aborted = False
        self.unsent = 0
        self.peer = "127.0.0.1:4"

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def abort(self) -> None:
        self.aborted = True


class Owner:
    def __init__(self) -> None:
        self.log: list[str] = []
        self.messages: list[wire.Message] = []

    def handle_connected(self, _connection: Connection, features: wire.Features) -> None:
        self.log.append(f"connected {features.dpid:x}")

    def handle_message(self, _connection: Connection, message: wire.Message, _now: float) -> None:
        self.messages.append(message)

    def handle_closed(self, _connection: Connection, reason: str) -> None:
        self.log.append(f"closed: {reason}")

    def handle_malformed(self, _connection: Connection, _reason: str) -> None:
        self.log.append("malformed")


def connected() -> tuple[Connection, Owner, Transport, list[float]]:
    now = [0.0]
    owner, transport = Owner(), Transport()
    connection = Connection(owner, lambda: now[0])
    connection.connection_made(transport)
    return connection, owner, transport, now


def test_a_recorded_session_in_pieces_of_any_size(recorded: list[bytes]) -> None:
    dice = random.Random(3)
    for _ in range(20):
        connection, owner, _, _ = connected()
        data = b"".join(recorded)
        while data:
            size = dice.randint(1, 200)
            connection.data_received(data[:size], 0.0)
            data = data[size:]
        assert owner.log == ["connected 1"]
        assert len(owner.messages) == sum(message[1] not in (0, 3, 6) for message in recorded) + sum(
            message[1] == 3 for message in recorded
        )


def test_random_bytes_end_the_connection_once() -> None:
    dice = random.Random(4)
    for _ in range(200):
        connection, owner, transport, _ = connected()
        for _ in range(20):
            connection.data_received(dice.randbytes(dice.randint(1, 4000)), 0.0)
        connection.connection_lost()
        assert transport.aborted
        assert sum(line.startswith("closed") for line in owner.log) == 1
        assert not owner.messages


def test_an_older_version_is_refused_with_the_way_out() -> None:
    connection, owner, _, _ = connected()
    connection.data_received(bytes([1, 0, 0, 8, 0, 0, 0, 1]), 0.0)
    assert owner.log == ["closed: it speaks OpenFlow version 0x01 only; set its protocols to OpenFlow13"]


def test_something_before_the_hello_is_refused(recorded: list[bytes]) -> None:
    connection, owner, _, _ = connected()
    connection.data_received(next(message for message in recorded if message[1] == 6), 0.0)
    assert owner.log == ["closed: it sent something else before a hello"]


def test_silence_ends_it() -> None:
    connection, owner, _, now = connected()
    now[0] = HANDSHAKE_SECONDS + 0.1
    connection.handle_time(now[0])
    assert owner.log == ["closed: no OpenFlow handshake within 5 s"]


def test_a_silent_switch_is_asked_and_then_closed(recorded: list[bytes]) -> None:
    connection, owner, transport, now = connected()
    for message in recorded:
        connection.data_received(message, 0.0)
    connection.handle_time(1.0)
    assert transport.written[-1][1] == 2, "an echo request"
    now[0] = SILENT_SECONDS + 0.1
    connection.handle_time(now[0])
    assert owner.log[-1] == "closed: silent for 3 s"


def test_a_switch_that_does_not_read_is_closed(recorded: list[bytes]) -> None:
    connection, owner, transport, _ = connected()
    transport.unsent = UNSENT_LIMIT + 1
    for message in recorded[:2]:
        connection.data_received(message, 0.0)
    assert "it does not read" in owner.log[-1]


def test_ten_malformed_messages_end_it(recorded: list[bytes]) -> None:
    connection, owner, transport, _ = connected()
    for message in recorded:
        connection.data_received(message, 0.0)
    bad = bytes([4, 10, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0])
    for _ in range(9):
        connection.data_received(bad, 0.0)
    assert not transport.aborted
    connection.data_received(bad, 0.0)
    assert transport.aborted
    assert owner.log.count("malformed") == 10
