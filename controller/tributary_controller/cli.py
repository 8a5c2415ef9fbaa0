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

from aiohttp import web

from tributary_controller import rest
from tributary_controller.backend import Backend

EXAMPLES = """examples:
  tributary-controller --clients 10.0.0.0/28 --servers 10.0.0.16/28
      switches connect to 127.0.0.1:6653, REST on 127.0.0.1:8181; every client with every server is a path
  tributary-controller --path 10.77.1.2=10.77.1.1 --path 10.77.2.2=10.77.2.1
  tributary-controller --backend mptcp
      the subflows of this host's kernel MPTCP; needs the right to change network settings
  curl http://127.0.0.1:8181/v1/paths
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
        help="file with the token; required unless --listen is a loopback address",
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
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    try:
        asyncio.run(run(arguments))
    except (Unusable, OSError) as error:
        sys.exit(f"tributary-controller: {error}")


async def run(arguments: argparse.Namespace) -> None:
    """Serves until SIGINT or SIGTERM."""
    host, port = endpoint(arguments.listen, "--listen")
    token = read_token(arguments.token_file, host)
    async with started(arguments) as backend:
        runner = web.AppRunner(rest.application(backend, token), shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
            address = runner.addresses[0]
            log.info("REST on http://%s:%s, backend %s", address[0], address[1], backend.name)
            await ended()
        finally:
            await runner.cleanup()


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


def read_token(file: Path | None, host: str) -> str | None:
    if file is not None:
        token = file.read_text().strip()
        if len(token) < 16:
            raise Unusable(
                f"--token-file {file}: give at least 16 characters, for example: openssl rand -hex 16 > {file}"
            )
        return token
    if not ipaddress.ip_address(host).is_loopback:
        raise Unusable(
            f"--listen {host} is reachable from other machines; add --token-file FILE, or listen on 127.0.0.1"
        )
    return None


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
