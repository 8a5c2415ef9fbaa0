"""The REST interface, held to its own OpenAPI document."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import jsonschema
import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient, TestServer
from openapi_spec_validator import validate

from tributary_controller import rest
from tributary_controller.access import Access
from tributary_controller.backend import Address, PathState
from tributary_controller.events import LISTENER_LIMIT, QUEUE_LIMIT, EventBus
from tributary_controller.openapi import DOCUMENT
from tributary_controller.problem import unknown_path

PAIR = {"local": "10.0.0.2", "remote": "10.0.0.1"}


class Pretended:
    """A backend without a network."""

    name = "openflow"

    def __init__(self) -> None:
        self.events = EventBus()
        self.known: dict[tuple[str, str], PathState] = {}
        self.faulty = False

    def paths(self) -> list[PathState]:
        if self.faulty:
            raise RuntimeError("a fault")
        return list(self.known.values())

    async def add(self, local: Address, remote: Address) -> tuple[PathState, bool]:
        pair = (str(local), str(remote))
        new = pair not in self.known
        path_id = f"p{len(self.known) + 1}" if new else self.known[pair].id
        self.known[pair] = PathState(path_id, *pair, 12.34567, 0.0, 0.0, None, True, 1.0, True, None, ("1",))
        self.events.publish("path-added", "a path", path=self.known[pair].document())
        return self.known[pair], new

    async def remove(self, path_id: str) -> PathState:
        for pair, path in self.known.items():
            if path.id == path_id:
                self.known[pair] = PathState(path.id, *pair, None, None, None, None, False, None, False, "removed", ())
                return self.known[pair]
        raise unknown_path(path_id, [path.id for path in self.known.values()])

    def health(self) -> dict[str, object]:
        return {"ok": True, "reason": None}


Client = TestClient[Any, Any]


TOKEN = "0123456789abcdef"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def served(work: Callable[[Client, Pretended], Awaitable[None]], headers: dict[str, str] = BEARER) -> None:
    async def run() -> None:
        backend = Pretended()
        server = TestServer(rest.application(backend, Access(TOKEN, frozenset({"controller.example"}))))
        async with TestClient(server, headers=headers) as client:
            await work(client, backend)

    asyncio.run(run())


async def checked(response: ClientResponse, path: str) -> Any:
    """The body, after it is held to the schema that the document has for this answer."""
    answers = DOCUMENT["paths"][path][response.method.lower()]["responses"]
    content = answers[str(response.status)]["content"]
    body = await response.json(content_type=None)
    jsonschema.validate(body, {**content[response.content_type]["schema"], "components": DOCUMENT["components"]})
    return body


def test_the_document_is_valid_and_names_every_route() -> None:
    validate(DOCUMENT)

    async def work(client: Client, _backend: Pretended) -> None:
        assert await (await client.get("/openapi.json")).json() == DOCUMENT
        routes = {
            (route.method.lower(), route.resource.canonical)
            for route in client.app.router.routes()
            if route.resource is not None and route.method != "HEAD"
        }
        named = {(method, path) for path, methods in DOCUMENT["paths"].items() for method in methods}
        assert routes == named

    served(work)


def test_paths_are_added_listed_and_removed() -> None:
    async def work(client: Client, _backend: Pretended) -> None:
        added = await client.post("/v1/paths", json=PAIR)
        assert added.status == 201
        assert (await checked(added, "/v1/paths"))["rtt_ms"] == 12.346
        assert (await client.post("/v1/paths", json=PAIR)).status == 200
        listed = await checked(await client.get("/v1/paths"), "/v1/paths")
        assert [path["id"] for path in listed["paths"]] == ["p1"]
        removed = await checked(await client.delete("/v1/paths/p1"), "/v1/paths/{id}")
        assert removed["enabled"] is False
        assert await checked(await client.get("/v1/paths"), "/v1/paths") == {"paths": []}
        everything = await checked(await client.get("/v1/paths?all=true"), "/v1/paths")
        assert [path["id"] for path in everything["paths"]] == ["p1"]
        await checked(await client.get("/v1/health"), "/v1/health")

    served(work)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        "null",
        "[" * 5000,
        '{"local": "10.0.0.2"}',
        '{"local": "10.0.0.2", "remote": "10.0.0.1", "more": 1}',
        '{"local": 7, "remote": "10.0.0.1"}',
        '{"local": "10.0.0.2", "remote": "10.0.0.300"}',
        '{"local": "10.0.0.2", "remote": "fd77::1"}',
        '{"local": "10.0.0.2", "remote": "10.0.0.2"}',
        '{"local": "0.0.0.0", "remote": "10.0.0.1"}',
        '{"local": "224.0.0.1", "remote": "10.0.0.1"}',
    ],
)
def test_a_bad_body_is_refused_with_a_hint(body: str) -> None:
    async def work(client: Client, backend: Pretended) -> None:
        response = await client.post("/v1/paths", data=body, headers={"Content-Type": "application/json"})
        assert response.status == 400
        assert (await checked(response, "/v1/paths"))["hint"]
        assert not backend.known

    served(work)


def test_other_refusals_name_the_thing() -> None:
    async def work(client: Client, _backend: Pretended) -> None:
        huge = await client.post("/v1/paths", data=b'"' + b"x" * 100_000, headers={"Content-Type": "application/json"})
        assert huge.status == 413
        await checked(huge, "/v1/paths")
        other = await client.post("/v1/paths", data=json.dumps(PAIR), headers={"Content-Type": "text/plain"})
        assert other.status == 415
        await checked(other, "/v1/paths")
        unknown = await client.delete("/v1/paths/p7")
        assert unknown.status == 404
        assert "'p7'" in (await checked(unknown, "/v1/paths/{id}"))["detail"]
        assert (await client.get("/v1/paths?all=perhaps")).status == 400
        for response in (await client.get("/nowhere"), await client.put("/v1/paths")):
            assert response.status in (404, 405)
            assert (await response.json(content_type=None))["hint"] == "GET /openapi.json lists every request"

    served(work)


def test_a_fault_of_ours_is_a_problem_document() -> None:
    async def work(client: Client, backend: Pretended) -> None:
        backend.faulty = True
        response = await client.get("/v1/paths")
        assert response.status == 500
        assert "fault" in (await response.json(content_type=None))["detail"]

    served(work)


def test_a_token_is_asked_for_everywhere() -> None:
    async def work(client: Client, backend: Pretended) -> None:
        for path in ("/v1/paths", "/v1/health", "/v1/events", "/openapi.json"):
            refused = await client.get(path)
            assert refused.status == 401
            await checked(refused, path)
            assert (await client.get(path, headers={"Authorization": "Bearer wrong"})).status == 401
        refused = await client.post("/v1/paths", json=PAIR)
        assert refused.status == 401
        await checked(refused, "/v1/paths")
        assert (await client.delete("/v1/paths/p1")).status == 401
        assert not backend.known
        assert (await client.get("/v1/paths", headers=BEARER)).status == 200
        # A client library would encode the header; this byte is not UTF-8.
        reader, writer = await asyncio.open_connection(client.host, client.port)
        writer.write(b"GET /v1/paths HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \xff\r\n\r\n")
        assert b" 401 " in await reader.readline()
        writer.close()

    served(work, headers={})


def test_a_name_that_is_not_ours_is_refused_even_with_the_token() -> None:
    """DNS rebinding: a page's own name leads to a loopback address, and the browser sends that name."""

    async def work(client: Client, backend: Pretended) -> None:
        for host in (
            "evil.example",
            "evil.example:8181",
            "127.0.0.2",
            "[::1]",
            "localhost.evil.example",
            "localhost:",
            "",
        ):
            for request in (
                client.post("/v1/paths", json=PAIR, headers={"Host": host}),
                client.get("/v1/paths", headers={"Host": host}),
            ):
                refused = await request
                assert refused.status == 421, host
                assert "--host" in (await checked(refused, "/v1/paths"))["hint"]
            assert (await client.delete("/v1/paths/p1", headers={"Host": host})).status == 421
        assert not backend.known
        for host in ("127.0.0.1", "localhost", "LOCALHOST:1", "controller.example:443"):
            assert (await client.get("/v1/paths", headers={"Host": host})).status == 200, host
        reader, writer = await asyncio.open_connection(client.host, client.port)
        bearer = f"Authorization: Bearer {TOKEN}\r\n".encode()
        writer.write(b"GET /v1/paths HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n" + bearer + b"\r\n")
        assert (await reader.readline()).split()[1] in (b"400", b"421")
        writer.close()

    served(work)


def test_pages_of_other_sites_are_refused_even_with_the_token() -> None:
    async def work(client: Client, backend: Pretended) -> None:
        own = f"http://{client.host}:{client.port}"
        for origin in ("http://evil.example", "null", "", own + "1", f"file://{client.host}:{client.port}"):
            refused = await client.post("/v1/paths", json=PAIR, headers={"Origin": origin})
            assert refused.status == 403, origin
            assert "Origin" in (await checked(refused, "/v1/paths"))["hint"]
            assert (await client.delete("/v1/paths/p1", headers={"Origin": origin})).status == 403
            # What a browser asks before it sends such a request.
            assert (await client.options("/v1/paths", headers={"Origin": origin})).status == 403
        assert not backend.known
        assert (await client.post("/v1/paths", json=PAIR, headers={"Origin": own})).status == 201

    served(work)


def test_events_reach_every_listener_and_one_that_leaves_is_forgotten() -> None:
    async def work(client: Client, backend: Pretended) -> None:
        streams = [await client.get("/v1/events") for _ in range(2)]
        for stream in streams:
            assert await stream.content.readuntil(b"\n\n") == b": connected\n\n"
        await client.post("/v1/paths", json=PAIR)
        for stream in streams:
            event = (await stream.content.readuntil(b"\n\n")).decode().splitlines()
            assert event[:2] == ["id: 1", "event: path-added"]
            assert json.loads(event[2].removeprefix("data: "))["path"]["id"] == "p1"
            stream.close()

    served(work)


def test_too_many_listeners_are_refused() -> None:
    async def work(client: Client, backend: Pretended) -> None:
        for _ in range(LISTENER_LIMIT):
            backend.events.listen()
        refused = await client.get("/v1/events")
        assert refused.status == 503
        await checked(refused, "/v1/events")

    served(work)


def test_a_listener_that_does_not_read_loses_the_oldest_events() -> None:
    async def work() -> None:
        bus = EventBus()
        listener = bus.listen()
        for number in range(QUEUE_LIMIT + 5):
            bus.publish("test", str(number))
        assert listener.lost == 5
        assert (await listener.next()).data["message"] == "5"
        bus.forget(listener)
        bus.publish("test", "nobody")

    asyncio.run(work())
