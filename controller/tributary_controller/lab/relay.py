"""Delays, and on command drops, every frame between pairs of interfaces. For kernels without netem.

A process of its own, `python -m tributary_controller.lab.relay A:B:SECONDS...`; the delay holds for each direction.
Commands on standard input, one a line, with the pair's index: `cut 0`, `mend 0`, `delay 0 0.01`. Each is answered by
a line `done`.
"""

import contextlib
import heapq
import os
import select
import socket
import struct
import sys
import time
from dataclasses import dataclass

ETH_P_ALL = 3
SO_TIMESTAMPNS = 35
PACKET_IGNORE_OUTGOING = 23
FRAME_LIMIT = 65536
# Frames waiting in one direction; more are dropped, as by a queue.
QUEUE_LIMIT = 20000


@dataclass
class Pair:
    ends: tuple[socket.socket, socket.socket]
    delay: float
    cut: bool = False


def opened(interface: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    end.setsockopt(263, PACKET_IGNORE_OUTGOING, 1)  # 263 is SOL_PACKET
    end.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    end.bind((interface, 0))
    end.setblocking(False)
    return end


class Relay:
    def __init__(self, pairs: list[Pair]) -> None:
        self.pairs = pairs
        self._waiting: list[tuple[float, int, socket.socket, bytes]] = []
        self._count = 0
        self._where = {pair.ends[side]: (pair, pair.ends[1 - side]) for pair in pairs for side in (0, 1)}

    def run(self) -> None:
        """Until standard input ends."""
        while True:
            wait = max(self._waiting[0][0] - time.time(), 0.0) if self._waiting else None
            ready, _, _ = select.select([*self._where, sys.stdin.fileno()], [], [], wait)
            for source in ready:
                if isinstance(source, socket.socket):
                    self._receive(source)
                elif line := sys.stdin.readline():
                    self._command(line.split())
                else:
                    return
            self._send_due()

    def _receive(self, source: socket.socket) -> None:
        pair, other = self._where[source]
        with contextlib.suppress(BlockingIOError, OSError):
            for _ in range(64):
                frame, ancillary, _, _ = source.recvmsg(FRAME_LIMIT, 64)
                # Counted from the moment the kernel received it: waiting for this process is part of the delay.
                came = next((_seconds(data) for _, kind, data in ancillary if kind == SO_TIMESTAMPNS), time.time())
                if not pair.cut and len(self._waiting) < QUEUE_LIMIT:
                    self._count += 1
                    heapq.heappush(self._waiting, (came + pair.delay, self._count, other, frame))

    def _send_due(self) -> None:
        now = time.time()
        while self._waiting and self._waiting[0][0] <= now:
            _, _, end, frame = heapq.heappop(self._waiting)
            # An interface that is down loses the frame, as a cable would.
            with contextlib.suppress(OSError):
                end.send(frame)

    def _command(self, words: list[str]) -> None:
        match words:
            case ["cut", index]:
                pair = self.pairs[int(index)]
                pair.cut = True
                self._waiting = [one for one in self._waiting if one[2] not in pair.ends]
                heapq.heapify(self._waiting)
            case ["mend", index]:
                self.pairs[int(index)].cut = False
            case ["delay", index, seconds]:
                self.pairs[int(index)].delay = float(seconds)
            case _:
                sys.exit(f"relay: no such command: {' '.join(words)}")
        print("done", flush=True)


def _seconds(data: bytes) -> float:
    seconds, nanoseconds = struct.unpack("qq", data[:16])
    return int(seconds) + int(nanoseconds) / 1e9


def main() -> None:
    pairs = []
    for text in sys.argv[1:]:
        left, right, delay = text.split(":")
        pairs.append(Pair((opened(left), opened(right)), float(delay)))
    # On a busy machine the delay must stay what it is said to be.
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    print("ready", flush=True)
    Relay(pairs).run()


if __name__ == "__main__":
    main()
