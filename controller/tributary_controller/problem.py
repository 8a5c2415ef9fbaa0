"""Errors of the REST interface: they name the thing that is wrong and what to do about it."""


class Problem(Exception):
    """An error with an HTTP status. `detail` names the thing, `hint` says what to do. Sent as RFC 9457 problem JSON."""

    def __init__(self, status: int, title: str, detail: str, hint: str) -> None:
        super().__init__(f"{title}: {detail}; {hint}")
        self.status = status
        self.title = title
        self.detail = detail
        self.hint = hint

    def document(self) -> dict[str, object]:
        return {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "hint": self.hint,
        }


def too_many_paths(limit: int) -> Problem:
    return Problem(409, "too many paths", f"{limit} paths exist", "enable an old one; see GET /v1/paths?all=true")


def unknown_path(path_id: str, known: list[str]) -> Problem:
    listed = ", ".join(known[:20]) or "none"
    return Problem(
        404, "unknown path", f"no path {path_id[:64]!r}; known: {listed}", "GET /v1/paths?all=true lists them"
    )
