"""Who may use the REST interface: the token and its file, and the checks of a request's `Host` and `Origin`.

Every request needs the token, because any local user reaches a loopback address. Host and Origin are checked although
a web page does not know the token: a page of another site must not even learn that a controller is here (DNS
rebinding). Not here: limits of connections and time (`connections`).
"""

import contextlib
import hmac
import ipaddress
import os
import re
import secrets
import stat
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from tributary_controller.problem import Problem

TOKEN_BYTES_LIMIT = 1024
# RFC 6750 §2.1.
TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{16,512}=*")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class BadToken(Exception):
    """The file of the token cannot be used; the text names it and says what to do."""


@dataclass(frozen=True)
class Access:
    """`names`: further names or addresses by which clients may call this server, in lower case."""

    token: str = field(repr=False)
    names: frozenset[str] = frozenset()


def default_token_file(port: int) -> Path:
    """In the directory of this user's control sockets (`tributary status`)."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    directory = Path(base) / "tributary" if base else Path(f"/tmp/tributary-{os.geteuid()}")
    return directory / f"controller-{port}.token"


def token_in(file: Path) -> str:
    """The token in a file that only this user can read. A file that does not exist is made, with a new token."""
    try:
        with contextlib.suppress(FileNotFoundError):
            return _read(file)
        try:
            return _made(file)
        except FileExistsError:
            # Another process has made it meanwhile.
            return _read(file)
    except OSError as error:
        raise BadToken(f"token file {file}: {error.strerror}; name another one with --token-file") from None


def _made(file: Path) -> str:
    directory = file.parent
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.stat()
    # Who may write there could replace the file. The sticky bit, as in /tmp, forbids that.
    if found.st_uid not in (0, os.geteuid()) or (found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX):
        raise BadToken(f"token file {file}: other users may write to {directory}; name another one with --token-file")
    token = secrets.token_urlsafe(32)
    # Complete before it has its name: a reader never finds half of it.
    unseen = file.with_name(f".{file.name}.{os.getpid()}")
    unseen.unlink(missing_ok=True)
    opened = os.open(unseen, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(opened, "w") as out:
            out.write(token + "\n")
        os.link(unseen, file)
    finally:
        unseen.unlink()
    return token


def _read(file: Path) -> str:
    # Without O_NONBLOCK a named pipe would stop the start.
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK), "rb") as source:
        found = os.fstat(source.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise BadToken(f"token file {file} is not a file; name another one with --token-file")
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o077:
            raise BadToken(
                f"token file {file} is open to other users; run: chmod 600 {file}, as its owner {os.geteuid()}"
            )
        text = source.read(TOKEN_BYTES_LIMIT).decode(errors="replace").strip()
    if not TOKEN.fullmatch(text):
        raise BadToken(
            f"token file {file} needs one line of at least 16 letters, digits or ._~+/-; "
            "remove it, and the controller makes a new one"
        )
    return text


def checking(access: Access) -> Any:
    """Refuses a request that is not for this server, that a page of another site sends, or that has no token."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = _host(request, access)
        _same_origin(request, host)
        _authorised(request, access.token)
        return await handler(request)

    return check


def _host(request: web.Request, access: Access) -> str:
    """The `Host` field, when it names this server (RFC 9110 §7.4)."""
    given = request.headers.getall("Host", [])
    socket = request.transport.get_extra_info("sockname") if request.transport is not None else None
    if len(given) == 1 and socket is not None and names_this(given[0], str(socket[0]), access.names):
        return given[0].lower()
    name = given[0][:60] if given else ""
    raise Problem(
        421,
        "wrong host",
        f"Host is {name!r}, which is not a name of this server",
        "use the address that the controller listens on, or start it with --host NAME",
    )


def names_this(host: str, socket: str, names: frozenset[str]) -> bool:
    """Whether a `Host` field names the server at this address. The port does not count: it may be forwarded."""
    found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/@\s]+)(:[0-9]{1,5})?", host)
    if found is None:
        return False
    name = found[1].lower().removeprefix("[").removesuffix("]")
    here = ipaddress.ip_address(socket.partition("%")[0])
    if name in names or (name == "localhost" and here.is_loopback):
        return True
    try:
        return ipaddress.ip_address(name) == here
    except ValueError:
        return False


def _same_origin(request: web.Request, host: str) -> None:
    """Browsers send `Origin` with every request of a page except plain reading (RFC 6454 §7)."""
    for origin in request.headers.getall("Origin", []):
        scheme, _, authority = origin.lower().partition("://")
        if scheme not in ("http", "https") or authority != host:
            detail = f"a page of {origin[:60]!r} sent this request"
            raise Problem(403, "foreign origin", detail, "send it from a program, without the header Origin")


def _authorised(request: web.Request, token: str) -> None:
    given = request.headers.get("Authorization", "")
    # Bytes that are not UTF-8 arrive as surrogates.
    if not hmac.compare_digest(given.encode(errors="surrogateescape"), f"Bearer {token}".encode()):
        hint = "send the header 'Authorization: Bearer TOKEN'; the controller's log names the file with the token"
        raise Problem(401, "no access", "the token is absent or wrong", hint)
