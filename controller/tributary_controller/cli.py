"""The command `tributary-controller`."""

import argparse
import asyncio
import contextlib
import ipaddress
import logging
import signal
import sys
from collections.abc import AsyncIterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from tributary_controller import access, connections, rest
from tributary_controller.backend import Backend
from tributary_controller.rate_limited import RateLimited

EXAMPLES = """examples:
  tributary-controller --clients 10.0.0.0/28 --servers 10.0.0.16/28
      switches connect to 127.0.0.1:6653, REST on 127.0.0.1:8181; every client with every server is a path
  tributary-controller --path 10.77.1.2=10.77.1.1 --path 10.77.2.2=10.77.2.1
  tributary-controller --backend mptcp
      the subflows of this host's kernel MPTCP; needs the right to change network settings
  curl -H "Authorization: Bearer $(cat FILE)" http://127.0.0.1:8181/v1/paths
      FILE is the token's file, which the controller names when it starts
"""

log = logging.getLogger("tributary_controller")


class Unusable(Exception):
    """The options do not fit together, or something that they name is unusable."""


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="tributary-controller",
        description="Finds, measures, adds and removes network paths, and says so over REST (/openapi.json).",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--backend", choices=["openflow", "mptcp"], default="openflow", help="default: openflow")
    p.add_argument("--listen", default="127.0.0.1:8181", metavar="ADDRESS:PORT", help="REST; default 127.0.0.1:8181")
    p.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file with the token that every request needs, readable by its owner only; made when it does not exist; "
        "default: controller-PORT.token in $XDG_RUNTIME_DIR/tributary, else in /tmp/tributary-UID",
    )
    p.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name or address by which clients call this server, as behind a proxy; may be repeated",
    )
    p.add_argument("--quiet", action="store_true", help="log warnings only")
    group = p.add_argument_group("openflow")
    group.add_argument("--switches", default="127.0.0.1:6653", metavar="ADDRESS:PORT", help="default 127.0.0.1:6653")
    group.add_argument(
        "--path", action="append", default=[], metavar="LOCAL=REMOTE", help="a path to have from the start"
    )
    group.add_argument("--clients", action="append", default=[], metavar="NETWORK", help="hosts there are local ends")
    group.add_argument("--servers", action="append", default=[], metavar="NETWORK", help="hosts there are remote ends")
    return p


def main() -> None:
    arguments = parser().parse_args()
    logging.basicConfig(
        level=logging.WARNING if arguments.quiet else logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    log.addFilter(RateLimited())
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    try:
        asyncio.run(run(arguments))
    except (Unusable, access.BadToken, OSError) as error:
        sys.exit(f"tributary-controller: {error}")


async def run(arguments: argparse.Namespace) -> None:
    """Serves until SIGINT or SIGTERM."""
    host, port = endpoint(arguments.listen, "--listen")
    file = arguments.token_file or access.default_token_file(port)
    allowed = access.Access(access.token_in(file), frozenset(map(hostname, arguments.host)))
    async with (
        started(arguments) as backend,
        connections.serve(rest.application(backend, allowed), host, port) as address,
    ):
        log.info("REST on http://%s:%s, backend %s, token in %s", *address, backend.name, file)
        if not ipaddress.ip_address(host).is_loopback:
            log.warning("REST is not encrypted and others may reach %s: anybody on the way can read the token", host)
        await ended()


@contextlib.asynccontextmanager
async def started(arguments: argparse.Namespace) -> AsyncIterator[Backend]:
    if arguments.backend == "mptcp":
        from tributary_controller.mptcp.kernel import Kernel

        async with Kernel().watched() as kernel:
            yield kernel
        return
    # Only this backend needs os-ken.
    from tributary_controller.openflow.network import Network, Wanted
    from tributary_controller.openflow.server import serve

    wanted = Wanted(networks(arguments.clients, "--clients"), networks(arguments.servers, "--servers"))
    network = Network(wanted)
    host, port = endpoint(arguments.switches, "--switches")
    async with serve(network, host, port) as actual:
        log.info("switches connect to tcp:%s:%d", host, actual)
        for pair in arguments.path:
            await network.add(*addresses(pair))
        yield network


async def ended() -> None:
    done = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, done.set)
    await done.wait()


def endpoint(text: str, option: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        ipaddress.ip_address(host)
        if 0 <= int(port) <= 65535:
            return host, int(port)
    except ValueError:
        pass
    raise Unusable(f"{option} {text!r} is not ADDRESS:PORT; for example 127.0.0.1:8181")


def hostname(text: str) -> str:
    name = text.lower().removeprefix("[").removesuffix("]")
    if not name or any(character in "/@ " for character in name) or (":" in name and text[0] != "["):
        raise Unusable(f"--host {text!r} is not a name or an address; for example controller.example, without a port")
    return name


def networks(texts: list[str], option: str) -> tuple[IPv4Network, ...]:
    try:
        return tuple(IPv4Network(text) for text in texts)
    except ValueError as error:
        raise Unusable(f"{option}: {error}; for example 10.0.0.0/24") from None


def addresses(text: str) -> tuple[IPv4Address, IPv4Address]:
    try:
        local, remote = map(IPv4Address, text.split("="))
        return local, remote
    except ValueError:
        raise Unusable(f"--path {text!r} is not LOCAL=REMOTE; for example 10.0.1.2=10.0.1.1") from None
