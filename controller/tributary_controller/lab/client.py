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
from pathlib import Path
from typing import Any

from tributary_controller.lab.network import Lab, LabError

BASE = "http://127.0.0.1:8181"
WAIT_SECONDS = 30.0

Event = tuple[float, str, Any]


def all_up(paths: list[Any]) -> bool:
    return len(paths) >= 2 and all(path["up"] and path["rtt_ms"] is not None for path in paths)


@dataclass
class Client:
    """`events`: monotonic time of arrival, kind, data."""

    lab: Lab
    process: subprocess.Popen[str]
    token_file: Path
    events: "queue.Queue[Event]" = field(default_factory=queue.Queue)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        with self._open(method, path, body, 10) as response:
            return json.load(response)

    def _open(self, method: str, path: str, body: object, seconds: float) -> Any:
        data = None if body is None else json.dumps(body).encode()
        # Until the controller has made the file, it cannot be asked either.
        token = self.token_file.read_text().strip() if self.token_file.exists() else ""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        return urllib.request.urlopen(
            urllib.request.Request(BASE + path, data, headers, method=method), timeout=seconds
        )

    def listen(self) -> None:
        stream = self._open("GET", "/v1/events", None, 600)
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
            paths: list[Any] = self.ask("GET", "/v1/paths?all=true")["paths"]
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
    token_file = lab.directory / "controller.token"
    command = [sys.executable, "-m", "tributary_controller", "--token-file", str(token_file), *options]
    process = subprocess.Popen(command, text=True)
    lab.processes.append(process)
    client = Client(lab, process, token_file)
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
