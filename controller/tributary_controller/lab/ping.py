"""Median round-trip time by ICMP echo, with the kernel's receive time stamps: the truth that the controller is held to.

`python -m tributary_controller.lab.ping LOCAL REMOTE COUNT INTERVAL` prints JSON. Needs the right to open raw sockets.
"""

import json
import os
import select
import socket
import struct
import sys
import time
from statistics import median

from tributary_controller.mptcp.echo import echo_request, read_reply

SO_TIMESTAMPNS = 35
WAIT_SECONDS = 2.0


def measure(local: str, remote: str, count: int, interval: float) -> list[float]:
    """Round-trip times in milliseconds of the echoes that came back."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as sock:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        sock.bind((local, 0))
        sent: dict[int, float] = {}
        times: list[float] = []
        identity = os.getpid() & 0xFFFF
        for number in range(count):
            message = echo_request(4, identity, number)
            sent[number] = time.time()
            sock.sendto(message, (remote, 0))
            until = sent[number] + interval
            last = number == count - 1
            while (wait := (sent[number] + WAIT_SECONDS if last and sent else until) - time.time()) > 0:
                if not select.select([sock], [], [], wait)[0]:
                    break
                answer, ancillary, _, _ = sock.recvmsg(2048, 64)
                came = struct.unpack("qq", ancillary[0][2][:16])
                which = read_reply(4, identity, answer)
                if which is not None:
                    times.append((came[0] + came[1] / 1e9 - sent[which]) * 1000)
                    if last and len(times) == count:
                        return times
        return times


def main() -> None:
    local, remote, count, interval = sys.argv[1:]
    times = measure(local, remote, int(count), float(interval))
    print(json.dumps({"sent": int(count), "received": len(times), "median_ms": median(times) if times else None}))


if __name__ == "__main__":
    main()
