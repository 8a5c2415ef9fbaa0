"""The OpenAPI 3.1 document of the REST interface, served at /openapi.json."""

from typing import Any


def _or_null(kind: str, description: str, **more: Any) -> dict[str, Any]:
    return {"type": [kind, "null"], "description": description, **more}


_PATH: dict[str, Any] = {
    "type": "object",
    "required": [
        *["id", "local", "remote", "rtt_ms", "loss", "random_loss"],
        *["rate_mbps", "up", "at", "enabled", "reason", "via"],
    ],
    "properties": {
        "id": {"type": "string", "examples": ["p1"]},
        "local": {"type": "string", "description": "Client's address", "examples": ["10.0.1.2"]},
        "remote": {"type": "string", "description": "Server's address", "examples": ["10.0.1.1"]},
        "rtt_ms": _or_null("number", "Round-trip time between the hosts, median of the last second", minimum=0),
        "loss": _or_null("number", "Share of packets lost, in the worse direction", minimum=0, maximum=1),
        "random_loss": _or_null(
            "number", "Share of probes lost in each direction while no queue was long", minimum=0, maximum=1
        ),
        "rate_mbps": _or_null("number", "Rate that the path carries, in the busier direction, Mbit/s", minimum=0),
        "up": {"type": "boolean", "description": "Both ends reach each other on this path"},
        "at": _or_null("number", "Time of the last measurement, seconds since 1970", minimum=0),
        "enabled": {"type": "boolean", "description": "False after DELETE; the path is still measured"},
        "reason": _or_null("string", "Why the path is down"),
        "via": {"type": "array", "items": {"type": "string"}, "description": "Switches or the device on the way"},
    },
}
_PROBLEM: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "hint"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong with which thing"},
        "hint": {"type": "string", "description": "What to do"},
    },
}
_HEALTH: dict[str, Any] = {
    "type": "object",
    "required": ["backend", "ok"],
    "properties": {
        "backend": {"enum": ["openflow", "mptcp"]},
        "ok": {"type": "boolean"},
        "reason": _or_null("string", "Why it is not ok"),
    },
}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _answer(description: str, schema: dict[str, Any], kind: str = "application/json") -> dict[str, Any]:
    return {"description": description, "content": {kind: {"schema": schema}}}


def _refused(description: str) -> dict[str, Any]:
    return _answer(description, _ref("Problem"), "application/problem+json")


# Of every request.
_UNAUTHORISED = {
    "401": _refused("Token absent or wrong"),
    "403": _refused("A page of another site sent it"),
    "421": _refused("The header Host does not name this server"),
}
_UNREADABLE = {"503": _refused("The kernel's state cannot be read")}

DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Tributary path controller", "version": "1.0.0"},
    "components": {
        "schemas": {
            "Path": _PATH,
            "Problem": _PROBLEM,
            "Health": _HEALTH,
            "Paths": {
                "type": "object",
                "required": ["paths"],
                "properties": {"paths": {"type": "array", "items": _ref("Path")}},
            },
            "Pair": {
                "type": "object",
                "required": ["local", "remote"],
                "additionalProperties": False,
                "properties": {"local": {"type": "string"}, "remote": {"type": "string"}},
            },
        },
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
    },
    "security": [{"token": []}],
    "paths": {
        "/v1/paths": {
            "get": {
                "summary": "Paths in use; with all=true also removed ones, which are still measured",
                "parameters": [
                    {"name": "all", "in": "query", "schema": {"type": "string", "enum": ["true", "false"]}},
                ],
                "responses": {
                    "200": _answer("The paths", _ref("Paths")),
                    "400": _refused("Bad query"),
                    **_UNAUTHORISED,
                },
            },
            "post": {
                "summary": "Add a path between two addresses, or enable a removed one",
                "requestBody": {"required": True, "content": {"application/json": {"schema": _ref("Pair")}}},
                "responses": {
                    "200": _answer("It was known", _ref("Path")),
                    "201": _answer("It is new", _ref("Path")),
                    "400": _refused("Bad body"),
                    "408": _refused("The body did not arrive in time"),
                    "409": _refused("The backend cannot make this path"),
                    "413": _refused("Body too large"),
                    "415": _refused("Body is not application/json"),
                    **_UNREADABLE,
                    **_UNAUTHORISED,
                },
            },
        },
        "/v1/paths/{id}": {
            "delete": {
                "summary": "Take a path out of use",
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
                "responses": {
                    "200": _answer("The removed path", _ref("Path")),
                    "404": _refused("No such path"),
                    "409": _refused("The backend cannot remove this path"),
                    **_UNREADABLE,
                    **_UNAUTHORISED,
                },
            },
        },
        "/v1/health": {
            "get": {
                "summary": "What works and what does not",
                "responses": {"200": _answer("The state", _ref("Health")), **_UNAUTHORISED},
            },
        },
        "/v1/events": {
            "get": {
                "summary": "Server-sent events, one for each change",
                "responses": {
                    "200": _answer("Event stream", {"type": "string"}, "text/event-stream"),
                    "503": _refused("Too many listeners"),
                    **_UNAUTHORISED,
                },
            },
        },
        "/openapi.json": {
            "get": {
                "summary": "This document",
                "responses": {"200": _answer("OpenAPI 3.1", {"type": "object"}), **_UNAUTHORISED},
            },
        },
    },
}
