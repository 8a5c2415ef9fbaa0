"""A program that uses the controller in the laboratory: starts it, asks it, and hears its events."""

import contextlib
import json
import queue
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tributary_controller.lab.network import Lab, LabError

BASE = "http://127.0.0.1:8181"
WAIT_SECONDS = 30.0

Event = tuple[float, str, Any]


def ask(method: str, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(BASE + path, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.load(response)


def all_up(paths: list[Any]) -> bool:
    return len(paths) >= 2 and all(path["up"] and path["rtt_ms"] is not None for path in paths)


@dataclass
class Client:
    """`events`: monotonic time of arrival, kind, data."""

    lab: Lab
    process: subprocess.Popen[str]
    events: "queue.Queue[Event]" = field(default_factory=queue.Queue)

    def listen(self) -> None:
        stream = urllib.request.urlopen(BASE + "/v1/events", timeout=600)
        stream.readline()

        def read() -> None:
            kind = ""
            with contextlib.suppress(OSError):
                for line in stream:
                    if line.startswith(b"event: "):
                        kind = line[7:].decode().strip()
                    elif line.startswith(b"data: "):
                        self.events.put((time.monotonic(), kind, json.loads(line[6:])))

        threading.Thread(target=read, daemon=True).start()

    def wait_for(self, *kinds: str, path: str | None = None) -> Event:
        """The next event of one of these kinds, of one path if it is given. Raises `LabError` after 30 s."""
        until = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                event = self.events.get(timeout=max(until - time.monotonic(), 0.01))
            except queue.Empty:
                raise LabError(f"no event {' or '.join(kinds)} within {WAIT_SECONDS:.0f} s") from None
            if event[1] in kinds and (path is None or event[2]["path"]["id"] == path):
                return event

    def forget_events(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self.events.get_nowait()

    def wait_until(self, holds: Callable[[list[Any]], bool]) -> list[Any]:
        """Asks for the paths until something holds. Raises `LabError` after 30 s."""
        until = time.monotonic() + WAIT_SECONDS
        while True:
            paths: list[Any] = ask("GET", "/v1/paths?all=true")["paths"]
            if holds(paths):
                return paths
            if time.monotonic() > until:
                raise LabError(f"the paths are still {paths}")
            time.sleep(0.05)

    def ping(self, local: str, remote: str, count: int, interval: float) -> subprocess.Popen[str]:
        """Starts pings from the namespace `client`; the result is JSON on its standard output."""
        run = ["ip", "netns", "exec", "client", sys.executable, "-m", "tributary_controller.lab.ping"]
        return subprocess.Popen([*run, local, remote, str(count), str(interval)], stdout=subprocess.PIPE, text=True)

    def reachable(self, local: str, remote: str) -> bool:
        out, _ = self.ping(local, remote, 3, 0.01).communicate()
        return bool(json.loads(out)["received"])


@contextlib.contextmanager
def controlled(lab: Lab, *options: str) -> Iterator[Client]:
    """A controller with its client while the block runs."""
    process = subprocess.Popen([sys.executable, "-m", "tributary_controller", *options], text=True)
    lab.processes.append(process)
    client = Client(lab, process)
    until = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            client.listen()
            break
        except urllib.error.URLError:
            if process.poll() is not None or time.monotonic() > until:
                raise LabError("the controller did not start; it says why above") from None
            time.sleep(0.05)
    yield client
    if process.poll() is not None:
        raise LabError(f"the controller ended by itself with status {process.returncode}")
