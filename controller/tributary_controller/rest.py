"""The REST interface on aiohttp: requests in, calls of a backend out. Knows nothing of OpenFlow or MPTCP."""

import asyncio
import contextlib
import json
import logging
from ipaddress import ip_address

from aiohttp import web

from tributary_controller.access import Access, Handler, checking
from tributary_controller.backend import Address, Backend
from tributary_controller.connections import Connection, Limits
from tributary_controller.events import LISTENER_LIMIT
from tributary_controller.openapi import DOCUMENT
from tributary_controller.problem import Problem

log = logging.getLogger("tributary_controller")

# The largest request has two addresses.
BODY_LIMIT = 16 * 1024
# A comment line on the event stream at this interval finds listeners that went away.
KEEP_ALIVE_SECONDS = 15.0

BACKEND = web.AppKey("backend", Backend)
LIMITS = web.AppKey("limits", Limits)


def application(backend: Backend, access: Access, limits: Limits | None = None) -> web.Application:
    """The web application; `connections.serve` serves it."""
    app = web.Application(client_max_size=BODY_LIMIT, middlewares=[_serving, _problems, checking(access), _accepted])
    app[BACKEND] = backend
    app[LIMITS] = limits or Limits()
    app.router.add_get("/v1/paths", _list)
    app.router.add_post("/v1/paths", _add)
    app.router.add_delete("/v1/paths/{id}", _remove)
    app.router.add_get("/v1/health", _health)
    app.router.add_get("/v1/events", _events)
    app.router.add_get("/openapi.json", _openapi)
    return app


def _respond(status: int, document: object, kind: str = "application/json") -> web.Response:
    # allow_nan=False: a NaN is a fault of ours and must not reach a client.
    return web.Response(status=status, text=json.dumps(document, allow_nan=False) + "\n", content_type=kind)


def _problem(problem: Problem) -> web.Response:
    return _respond(problem.status, problem.document(), "application/problem+json")


@web.middleware
async def _serving(request: web.Request, handler: Handler) -> web.StreamResponse:
    connection = request.protocol
    with connection.serves() if isinstance(connection, Connection) else contextlib.nullcontext():
        return await handler(request)


@web.middleware
async def _accepted(request: web.Request, handler: Handler) -> web.StreamResponse:
    if isinstance(request.protocol, Connection):
        request.protocol.accepted = True
    return await handler(request)


@web.middleware
async def _problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except Problem as problem:
        return _problem(problem)
    except web.HTTPRequestEntityTooLarge:
        return _problem(
            Problem(413, "body too large", f"more than {BODY_LIMIT} bytes", 'send {"local", "remote"} only')
        )
    except web.HTTPException as refusal:
        where = f"{request.method} {request.path[:100]}"
        return _problem(Problem(refusal.status, refusal.reason, where, "GET /openapi.json lists every request"))
    except asyncio.CancelledError:
        raise
    except Exception:
        log.exception("fault while answering %s %s", request.method, request.path[:100])
        detail = "a fault of the controller; its log has the traceback"
        return _problem(Problem(500, "internal error", detail, "please report it with the log"))


async def _list(request: web.Request) -> web.StreamResponse:
    everything = request.query.get("all", "false")
    if everything not in ("true", "false"):
        raise Problem(400, "bad request", f"all={everything[:40]!r}", "use all=true or all=false")
    paths = request.app[BACKEND].paths()
    return _respond(200, {"paths": [path.document() for path in paths if path.enabled or everything == "true"]})


async def _add(request: web.Request) -> web.StreamResponse:
    local, remote = await _pair(request)
    path, created = await request.app[BACKEND].add(local, remote)
    return _respond(201 if created else 200, path.document())


async def _pair(request: web.Request) -> tuple[Address, Address]:
    example = 'send for example {"local": "10.0.1.2", "remote": "10.0.1.1"}'
    # A page of another site cannot send this type without asking first (CORS).
    if request.content_type != "application/json":
        raise Problem(415, "wrong type", f"Content-Type is {request.content_type[:60]!r}", "use application/json")
    seconds = request.app[LIMITS].body_seconds
    try:
        async with asyncio.timeout(seconds):
            text = await request.text()
        body = json.loads(text)
    except TimeoutError:
        detail = f"the body was not complete after {seconds:g} s"
        raise Problem(408, "too slow", detail, "send the whole request at once") from None
    except (ValueError, RecursionError) as error:
        raise Problem(400, "bad request", f"the body is not JSON: {str(error)[:100]}", example) from None
    if not isinstance(body, dict) or set(body) != {"local", "remote"}:
        raise Problem(400, "bad request", "the body needs the fields 'local' and 'remote' and no others", example)
    local, remote = (_address(body[field], field) for field in ("local", "remote"))
    if local.version != remote.version:
        raise Problem(400, "bad request", f"{local} and {remote} are of different families", "use two of one family")
    if local == remote:
        raise Problem(400, "bad request", f"local and remote are both {local}", example)
    return local, remote


def _address(value: object, field: str) -> Address:
    try:
        if isinstance(value, str):
            address = ip_address(value)
            if not (address.is_multicast or address.is_unspecified):
                return address
    except ValueError:
        pass
    raise Problem(400, "bad request", f"{field} is {str(value)[:60]!r}", "give one host's IPv4 or IPv6 address as text")


async def _remove(request: web.Request) -> web.StreamResponse:
    path = await request.app[BACKEND].remove(request.match_info["id"])
    return _respond(200, path.document())


async def _health(request: web.Request) -> web.StreamResponse:
    backend = request.app[BACKEND]
    return _respond(200, {"backend": backend.name, **backend.health()})


async def _openapi(_request: web.Request) -> web.StreamResponse:
    return _respond(200, DOCUMENT)


async def _events(request: web.Request) -> web.StreamResponse:
    bus = request.app[BACKEND].events
    if bus.full():
        raise Problem(503, "too many listeners", f"{LISTENER_LIMIT} read the events", "close one, or ask GET /v1/paths")
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    listener = bus.listen()
    seconds = request.app[LIMITS].write_seconds

    async def tell(text: str) -> None:
        """Raises TimeoutError for a listener that does not read: it would keep its place for ever."""
        async with asyncio.timeout(seconds):
            await response.write(text.encode())

    try:
        await response.prepare(request)
        await tell(": connected\n\n")
        told = 0
        while True:
            try:
                event = await asyncio.wait_for(listener.next(), KEEP_ALIVE_SECONDS)
            except TimeoutError:
                await tell(": still here\n\n")
                continue
            if listener.lost > told:
                lost, told = listener.lost - told, listener.lost
                await tell(f'event: lost\ndata: {{"count": {lost}}}\n\n')
            data = json.dumps({"at": round(event.at, 3), **event.data}, allow_nan=False)
            await tell(f"id: {event.number}\nevent: {event.kind}\ndata: {data}\n\n")
    except ConnectionResetError:
        pass
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
    finally:
        bus.forget(listener)
    return response
