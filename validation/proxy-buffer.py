#!/usr/bin/env python3
"""How long the proxy holds an application's bytes before they are on their way, and what that costs in goodput.

An application writes records of 1 KB without end through `tributary connect` and `serve` over two emulated radios
(8 and 2 Mbit/s, 20 ms); each record says when it was written. Both ends run on one machine and read one clock. Its
own socket buffer is 16 KiB, so that what is measured is the proxy. Prints one line of JSON for each `--buffer`:
goodput, and the records' delay less the path's 10 ms.

    sudo validation/proxy-buffer.py target/debug/tributary [SECONDS]
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

SCENARIO = """name = "buffer"
description = "two slow radios"
duration = "60 s"
rtt = "20 ms"
[[path]]
name = "fast"
down.rate = "8 Mbit/s"
down.queue = { time = "50 ms" }
[[path]]
name = "slow"
down.rate = "2 Mbit/s"
down.queue = { time = "50 ms" }
"""
RECORD = 1000


def sink(port, seconds, result):
    listener = socket.create_server(("127.0.0.1", port))
    connection, _ = listener.accept()
    delays, total, rest, began = [], 0, b"", time.monotonic()
    while data := connection.recv(1 << 16):
        now = time.monotonic()
        rest += data
        whole = len(rest) // RECORD
        for record in range(whole):
            sent = float(rest[record * RECORD : record * RECORD + 20])
            if now - began > 2:
                delays.append((now - sent) * 1e3)
        if now - began > 2:
            total += whole * RECORD
        rest = rest[whole * RECORD :]
        if now - began > seconds:
            break
    delays.sort()
    at = lambda share: round(delays[int(share * (len(delays) - 1))] - 10)
    outcome = {
        "goodput_mbps": round(total * 8e-6 / (seconds - 2), 2),
        "delay_ms": {"median": at(0.5), "p99": at(0.99), "most": at(1)},
    }
    with open(result, "w") as file:
        json.dump(outcome, file)


def source(port):
    for _ in range(200):
        try:
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 << 10)
            connection.connect(("127.0.0.1", port))
            break
        except OSError:
            time.sleep(0.05)
    try:
        while True:
            connection.sendall(f"{time.monotonic():020.9f}".encode().ljust(RECORD, b"."))
    except OSError:
        pass


def measure(program, buffer, seconds):
    with tempfile.TemporaryDirectory() as work:
        path = lambda name: os.path.join(work, name)
        with open(path("buffer.toml"), "w") as file:
            file.write(SCENARIO)
        subprocess.run([program, "keygen", "--out", path("key")], check=True, stderr=subprocess.DEVNULL)
        me = f"{sys.executable} {os.path.abspath(__file__)}"
        server = (
            f"{program} serve --listen 10.77.1.1:7000 10.77.2.1:7000 --forward 127.0.0.1:9000 --key {path('key')} "
            f"--drain 0 & {me} sink {seconds} {path('result')}; kill %1; wait"
        )
        client = (
            f"{program} connect --path fast=10.77.1.1:7000 --path slow=10.77.2.1:7000 --listen 127.0.0.1:9001 "
            f"--key {path('key')} --buffer {buffer} --drain 0 & {me} source; kill %1; wait"
        )
        subprocess.run(
            [program, "emu", "run", path("buffer.toml"), "--server", server, "--", "sh", "-c", client],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        with open(path("result")) as file:
            return json.load(file)


def main():
    if sys.argv[1] == "sink":
        sink(9000, float(sys.argv[2]), sys.argv[3])
    elif sys.argv[1] == "source":
        source(9001)
    else:
        seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 12
        for buffer in [200, 60000]:
            runs = [measure(os.path.abspath(sys.argv[1]), buffer, seconds) for _ in range(3)]
            runs.sort(key=lambda run: run["goodput_mbps"])
            goodput = statistics.median(run["goodput_mbps"] for run in runs)
            print(json.dumps({"buffer_ms": buffer, "goodput_mbps": goodput, "runs": runs}), flush=True)


if __name__ == "__main__":
    main()
