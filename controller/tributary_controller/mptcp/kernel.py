"""The backend over the kernel's MPTCP: endpoints by `ip mptcp`, subflows by `ss`, idle paths by ICMP echo.

A path is a pair of addresses. The kernel's path manager takes local addresses only: adding or removing a path adds or
removes the local address for every server.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path as File

from tributary_controller.backend import Address, PathState
from tributary_controller.events import EventBus
from tributary_controller.measure import PROBE_SECONDS, Counter, one_way
from tributary_controller.mptcp import tools
from tributary_controller.mptcp.echo import Echo
from tributary_controller.mptcp.tools import Device, Endpoint, Subflow
from tributary_controller.problem import Problem, too_many_paths, unknown_path

log = logging.getLogger("tributary_controller")

POLL_SECONDS = 0.25
COMMAND_SECONDS = 5.0
PATH_LIMIT = 256
# A path that was found by its subflows is forgotten when none has used it for this time.
FORGET_SECONDS = 60.0
# A subflow that is still seen right after its path was removed is closing.
CLOSING_SECONDS = 1.0
# Loss is reported only for paths with at least this many data segments in ten seconds.
FEWEST_SEGMENTS = 200

Run = Callable[[list[str]], Awaitable[str]]


class CommandError(Exception):
    """A command failed; the text has the command and what it said."""


@dataclass
class Path:
    number: int
    local: Address
    remote: Address
    asked: bool
    seen: float
    enabled: bool = True
    removed: float = 0.0
    up: bool = False
    reason: str | None = "not measured yet"
    measured: float | None = None
    subflows: list[Subflow] = field(default_factory=list)
    echo: Echo | None = None
    device: Device | None = None
    sent: Counter = field(default_factory=lambda: Counter(6))
    received: Counter = field(default_factory=lambda: Counter(6))
    segments: Counter = field(default_factory=lambda: Counter(41))
    retransmitted: Counter = field(default_factory=lambda: Counter(41))

    @property
    def id(self) -> str:
        return f"p{self.number}"


@dataclass(frozen=True)
class Snapshot:
    """What the kernel has at one moment."""

    at: float
    subflows: list[Subflow]
    endpoints: list[Endpoint]
    devices: dict[Address, Device]


class Kernel:
    """All state of the backend. `handle_snapshot` is where the kernel's state comes in."""

    name = "mptcp"

    def __init__(self, run: Run | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.events = EventBus()
        self._run = run or command
        self._clock = clock
        self._paths: dict[tuple[Address, Address], Path] = {}
        self._next = 1
        self._last: Snapshot | None = None
        self._fault: str | None = "not read yet"
        self._echo_fault = False

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator["Kernel"]:
        """Watches the kernel while the block runs."""
        tasks = [asyncio.create_task(self._poll()), asyncio.create_task(self._ask())]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for path in self._paths.values():
                if path.echo is not None:
                    path.echo.close()

    # The interface of `Backend`.

    def paths(self) -> list[PathState]:
        return [self._state(path) for path in self._paths.values()]

    async def add(self, local: Address, remote: Address) -> tuple[PathState, bool]:
        snapshot = await self.refresh()
        device = snapshot.devices.get(local)
        if device is None:
            here = ", ".join(sorted(str(address) for address in snapshot.devices if not address.is_loopback))
            raise Problem(409, "no such address here", f"{local} is not an address of this host", f"use one of: {here}")
        if (local, remote) not in self._paths and len(self._paths) >= PATH_LIMIT:
            raise too_many_paths(PATH_LIMIT)
        if all(endpoint.address != local for endpoint in snapshot.endpoints):
            await self._order(["ip", "mptcp", "endpoint", "add", str(local), "dev", device.name, "subflow"])
        known = self._paths.get((local, remote))
        path = known or self._new_path(local, remote, asked=True)
        path.asked = True
        if not path.enabled:
            path.enabled = True
            self._publish("path-added", f"path {path.id} is in use again", path)
        self.handle_snapshot(await self.refresh())
        return self._state(path), known is None

    async def remove(self, path_id: str) -> PathState:
        path = next((path for path in self._paths.values() if path.id == path_id), None)
        if path is None:
            raise unknown_path(path_id, [path.id for path in self._paths.values()])
        if not path.enabled:
            return self._state(path)
        snapshot = await self.refresh()
        numbers = [endpoint.number for endpoint in snapshot.endpoints if endpoint.address == path.local]
        if numbers:
            await self._order(["ip", "mptcp", "endpoint", "delete", "id", str(numbers[0])])
        elif any(subflow.local == path.local for subflow in snapshot.subflows):
            # A connection's first subflow has no endpoint; the kernel knows it as number 0 with its address.
            await self._order(["ip", "mptcp", "endpoint", "delete", "id", "0", str(path.local)])
        for other in self._paths.values():
            if other.local == path.local and other.enabled:
                other.enabled, other.removed = False, self._clock()
                self._publish("path-removed", f"path {other.id} is removed", other)
        return self._state(path)

    def health(self) -> dict[str, object]:
        return {
            "ok": self._fault is None,
            "reason": self._fault,
            "endpoints": [str(endpoint.address) for endpoint in self._last.endpoints] if self._last else [],
            "subflows": len(self._last.subflows) if self._last else 0,
        }

    # What the kernel says.

    async def refresh(self) -> Snapshot:
        """Reads the kernel's state. Raises `Problem` when a command fails."""
        at = self._clock()
        try:
            subflows, endpoints, devices = await asyncio.gather(
                self._run(["ss", "-tinHO"]),
                self._run(["ip", "-j", "mptcp", "endpoint", "show"]),
                self._run(["ip", "-j", "address", "show"]),
            )
        except CommandError as error:
            raise Problem(503, "kernel not readable", str(error), _advice()) from None
        return Snapshot(at, tools.read_subflows(subflows), tools.read_endpoints(endpoints), tools.read_devices(devices))

    def handle_snapshot(self, snapshot: Snapshot) -> None:
        """Takes the kernel's state in; publishes what changed."""
        self._last = snapshot
        users: dict[tuple[Address, Address], list[Subflow]] = {}
        for subflow in snapshot.subflows:
            users.setdefault((subflow.local, subflow.remote), []).append(subflow)
        for pair in users:
            if pair not in self._paths and len(self._paths) < PATH_LIMIT:
                self._new_path(*pair, asked=False)
        for key, path in list(self._paths.items()):
            path.subflows = users.get(key, [])
            path.device = snapshot.devices.get(path.local)
            if path.subflows:
                self._handle_use(path, snapshot.at)
            elif not path.asked and path.enabled and snapshot.at - path.seen > FORGET_SECONDS:
                self._forget(path)
                continue
            self._review(path)

    def _handle_use(self, path: Path, now: float) -> None:
        path.seen = now
        if not path.enabled and now - path.removed > CLOSING_SECONDS:
            path.enabled = True
            self._publish("path-added", f"path {path.id} is used by a new connection", path)
        readings = (
            (path.sent, sum(subflow.sent_bytes for subflow in path.subflows)),
            (path.received, sum(subflow.received_bytes for subflow in path.subflows)),
            (path.segments, sum(subflow.sent_segments for subflow in path.subflows)),
            (path.retransmitted, sum(subflow.retransmitted for subflow in path.subflows)),
        )
        for counter, value in readings:
            counter.handle_reading(now, value)

    def _new_path(self, local: Address, remote: Address, asked: bool) -> Path:
        if len(self._paths) >= PATH_LIMIT:
            raise too_many_paths(PATH_LIMIT)
        path = self._paths[local, remote] = Path(self._next, local, remote, asked, self._clock())
        self._next += 1
        self._publish("path-added", f"path {path.id}: {local} to {remote}", path)
        return path

    def _forget(self, path: Path) -> None:
        del self._paths[path.local, path.remote]
        if path.echo is not None:
            path.echo.close()
        self._publish("path-removed", f"path {path.id}: no connection uses it", path)

    # Measurement.

    def _review(self, path: Path) -> None:
        reason = self._death(path)
        up = reason is None
        if self._answered(path) or self._fresh(path) or (up and path.measured is None):
            path.measured = time.time()
        path.reason = reason
        if up != path.up:
            path.up = up
            text = f"path {path.id} ({path.local} to {path.remote}) is {'up' if up else f'down: {reason}'}"
            self._publish("path-up" if up else "path-down", text, path)

    def _death(self, path: Path) -> str | None:
        """Why a path is down, None when nothing says so."""
        if path.device is None:
            return f"{path.local} is no longer an address of this host"
        if not path.device.up:
            return f"{path.device.name} is down or has no carrier"
        if self._fresh(path):
            return None
        if path.subflows and all(subflow.dead for subflow in path.subflows):
            return "its subflows' data is not acknowledged"
        if path.echo is not None and path.echo.answered and path.echo.answers.dead(self._clock()):
            return f"{path.remote} does not answer echo requests any more"
        if self._known_rtt_ms(path) is None:
            return f"not measured yet: no connection uses it, and {path.remote} has not answered echo requests"
        return None

    def _answered(self, path: Path) -> bool:
        return path.echo is not None and path.echo.answers.alive

    def _fresh(self, path: Path) -> bool:
        """A subflow got something within the last poll or two."""
        return any(subflow.silence_ms < 2 * POLL_SECONDS * 1000 and subflow.backoff == 0 for subflow in path.subflows)

    def _rtt_ms(self, path: Path) -> float | None:
        return self._known_rtt_ms(path) if path.up else None

    def _known_rtt_ms(self, path: Path) -> float | None:
        """Of the subflows while they carry data; otherwise of the echo requests; otherwise the subflows' last."""
        fresh = [s.rtt_ms for s in path.subflows if s.rtt_ms is not None and s.silence_ms < 1000 and s.sent_segments]
        if fresh:
            return sum(fresh) / len(fresh)
        delay = path.echo.answers.delay() if path.echo is not None else None
        if delay is not None:
            return delay * 1000
        old = [subflow.rtt_ms for subflow in path.subflows if subflow.rtt_ms is not None]
        return sum(old) / len(old) if old else None

    def _state(self, path: Path) -> PathState:
        rates = [rate for rate in (path.sent.per_second(), path.received.per_second()) if rate is not None]
        return PathState(
            id=path.id,
            local=str(path.local),
            remote=str(path.remote),
            rtt_ms=self._rtt_ms(path),
            loss=self._loss(path),
            random_loss=one_way(path.echo.answers.lost_beside_short_queue() if path.echo is not None else None),
            rate_mbps=max(rates) * 8 / 1e6 if rates and path.subflows else None,
            up=path.up,
            at=path.measured,
            enabled=path.enabled,
            reason=path.reason,
            via=(path.device.name,) if path.device is not None else (),
        )

    def _loss(self, path: Path) -> float | None:
        # Full: a counter that began anew covers the same readings as the other again.
        full = path.segments.full() and path.retransmitted.full()
        if path.subflows and full and path.segments.grown() >= FEWEST_SEGMENTS:
            return min(path.retransmitted.grown() / path.segments.grown(), 1.0)
        return one_way(path.echo.answers.lost() if path.echo is not None else None)

    def _publish(self, kind: str, text: str, path: Path) -> None:
        self.events.publish(kind, text, path=self._state(path).document())

    # Work that waits.

    async def _poll(self) -> None:
        while True:
            try:
                self.handle_snapshot(await self.refresh())
                self._report(_disabled())
            except Problem as problem:
                self._report(f"{problem.detail}; {problem.hint}")
            except Exception:
                log.exception("fault in the controller; please report it")
            await asyncio.sleep(POLL_SECONDS)

    def _report(self, fault: str | None) -> None:
        if fault != self._fault:
            self._fault = fault
            if fault is not None:
                self.events.publish("kernel-unusable", fault)

    async def _ask(self) -> None:
        while True:
            for path in list(self._paths.values()):
                self._open_echo(path)
                if path.echo is not None:
                    path.echo.ask()
                    path.echo.answers.handle_time(self._clock())
            await asyncio.sleep(PROBE_SECONDS)

    def _open_echo(self, path: Path) -> None:
        if path.echo is not None or path.device is None:
            return
        try:
            path.echo = Echo(path.local, path.remote, path.device.name, self._clock)
        except OSError as error:
            if not self._echo_fault:
                self._echo_fault = True
                text = f"no echo requests from {path.local}: {error}; RTT is known only while a connection uses a path"
                self.events.publish("echo-unusable", text, local=str(path.local))

    async def _order(self, words: list[str]) -> None:
        try:
            await self._run(words)
        except CommandError as error:
            raise Problem(409, "the kernel refused", str(error), _advice()) from None


def _advice() -> str:
    return "run the controller as root (CAP_NET_ADMIN), with iproute2 5.15 or newer, on Linux 5.15 or newer"


def _disabled() -> str | None:
    try:
        enabled = File("/proc/sys/net/mptcp/enabled").read_text().strip() == "1"
    except OSError:
        return "this kernel has no MPTCP; use one built with CONFIG_MPTCP"
    return None if enabled else "MPTCP is switched off; run: sysctl net.mptcp.enabled=1"


async def command(words: list[str]) -> str:
    """Runs a command of this host and returns what it prints. Raises `CommandError`."""
    try:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
    except OSError as error:
        raise CommandError(f"{words[0]}: {error.strerror}") from None
    try:
        out, err = await asyncio.wait_for(process.communicate(), COMMAND_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise CommandError(f"{' '.join(words)}: no answer within {COMMAND_SECONDS:.0f} s") from None
    if process.returncode != 0:
        raise CommandError(f"{' '.join(words)}: {err.decode(errors='replace').strip()[:200]}")
    return out.decode(errors="replace")
