"""Runs a command in network, mount and process namespaces of its own, so that nothing of it outlives it.

`python -m tributary_controller.lab.sandbox COMMAND...`; needs root, or user namespaces, and unshare of util-linux.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

MARK = "TRIBUTARY_CONTROLLER_SANDBOX"
NEEDED = ("unshare", "ip", "ethtool", "ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl")


def inside() -> bool:
    return os.environ.get(MARK) == "1"


def absent() -> list[str]:
    """Programs that the laboratory needs and this machine lacks."""
    return [program for program in NEEDED if shutil.which(program) is None]


EVERYTHING = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def enter(command: list[str], separate: Sequence[str] = EVERYTHING) -> None:
    """Replaces this process by `command` in a sandbox. Returns only by raising OSError."""
    rights = [] if os.geteuid() == 0 else ["--map-root-user"]
    setup = 'mkdir -p /run/netns && mount -t tmpfs none /run/netns && ip link set lo up && exec "$@"'
    os.environ[MARK] = "1"
    os.execvp("unshare", ["unshare", *rights, *separate, "--", "sh", "-c", setup, "sh", *command])


def possible() -> str | None:
    """Why a sandbox cannot be made here, None when it can."""
    lacking = absent()
    if lacking:
        return f"absent programs: {', '.join(lacking)}; scripts/setup --sdn installs them"
    rights = [] if os.geteuid() == 0 else ["--map-root-user"]
    tried = subprocess.run(["unshare", *rights, "--net", "--mount", "--pid", "--fork", "true"], capture_output=True)
    return None if tried.returncode == 0 else "no right to make namespaces; run as root"


def main() -> None:
    reason = possible()
    if reason is not None:
        sys.exit(f"sandbox: {reason}")
    enter(sys.argv[1:])


if __name__ == "__main__":
    main()
