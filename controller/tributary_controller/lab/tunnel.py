"""Carries Ethernet frames over the paths of `tributary-lab emu`, whose links are IP only: one UDP datagram for each
frame.

A process of its own in the emulator's client namespace, `python -m tributary_controller.lab.tunnel SERVER_PID PATH...`.
PATH is NEAR:CLIENT_ADDRESS:SERVER_ADDRESS:FAR; frames of interface NEAR leave as datagrams on the client's side, cross
the emulated link, and come out at interface FAR, and the other way round. Both interfaces are in this namespace; the
sockets of the server's side are made in the namespace of process SERVER_PID.
"""

import contextlib
import ctypes
import os
import select
import socket
import sys

from tributary_controller.lab.relay import opened

PORT = 6081
FRAME_LIMIT = 65536
CLONE_NEWNET = 0x40000000


def enter_network_of(process: str) -> None:
    """The network namespace of a process becomes this one's."""
    _set_namespace(f"/proc/{process}/ns/net")


def _set_namespace(path: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "rb") as namespace:
        if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)


def datagrams(local: str, remote: str) -> socket.socket:
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    end.bind((local, PORT))
    end.connect((remote, PORT))
    end.setblocking(False)
    return end


def forward(pairs: dict[socket.socket, socket.socket]) -> None:
    """Until the process is ended."""
    while True:
        ready, _, _ = select.select(list(pairs), [], [])
        for source in ready:
            # A full queue, a path that is down or a peer that is not there yet: the frame is lost.
            with contextlib.suppress(OSError):
                for _ in range(64):
                    pairs[source].send(source.recv(FRAME_LIMIT))


def main() -> None:
    process, *paths = sys.argv[1:]
    described = [path.split(":") for path in paths]
    pairs: dict[socket.socket, socket.socket] = {}
    for near, client, server, _ in described:
        frames, sent = opened(near), datagrams(client, server)
        pairs[frames], pairs[sent] = sent, frames
    far_frames = [opened(far) for *_, far in described]
    enter_network_of(process)
    for (_, client, server, _), frames in zip(described, far_frames, strict=True):
        sent = datagrams(server, client)
        pairs[frames], pairs[sent] = sent, frames
    print("ready", flush=True)
    forward(pairs)


if __name__ == "__main__":
    main()
