"""What a class does, as a short text: its code, and that of everything of the user's that it uses.

Finished runs are found by this text, so a changed scheduler has none. Installed packages count by name and version.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

# What Python itself adds to a class.
_ADDED = {"__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__", "__static_attributes__", "__annotations__"}
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))


def identity(algorithm: type) -> str:
    """Return a text that stays the same as long as `algorithm` does the same.

    Raises
    ------
    TypeError
        It uses a value that cannot be compared between processes, such as an open file.
    """
    digest = hashlib.sha256()
    for part in _parts(algorithm, algorithm.__qualname__, set()):
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return f"{algorithm.__qualname__} {digest.hexdigest()[:16]} python {sys.version_info.major}.{sys.version_info.minor}"


@cache
def _installed(module: str) -> str | None:
    """Name and version of a module that is installed; ``None`` for one of the user's own."""
    root = sys.modules.get(module.partition(".")[0])
    file = getattr(sys.modules.get(module), "__file__", None)
    installed = tuple(sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib"))
    if module == "__main__" or (file is not None and not file.startswith(installed)):
        return None
    return f"{module} {getattr(root, '__version__', '')}"


def _parts(value: Any, name: str, seen: set[int]) -> Iterator[str]:
    """Everything that decides what `value` does; `name` is for errors."""
    if isinstance(value, _PLAIN):
        yield repr(value)
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    installed = _installed(getattr(value, "__module__", None) or "builtins") if callable(value) else None
    if isinstance(value, ModuleType):
        file = getattr(value, "__file__", None)
        yield _installed(value.__name__) or (Path(file).read_text("utf-8", "replace") if file else value.__name__)
    elif isinstance(value, (type, FunctionType, BuiltinFunctionType)) and installed is not None:
        yield f"{installed} {value.__qualname__}"
    elif isinstance(value, type):
        yield value.__qualname__
        for base in value.__bases__:
            yield from _parts(base, name, seen)
        for key in sorted(vars(value).keys() - _ADDED):
            yield key
            yield from _parts(vars(value)[key], f"{name}.{key}", seen)
    elif isinstance(value, FunctionType):
        yield from _function(value, name, seen)
    elif isinstance(value, (staticmethod, classmethod)):
        yield from _parts(value.__func__, name, seen)  # pyright: ignore
    elif isinstance(value, property):
        for function in (value.fget, value.fset):
            yield from _parts(function, name, seen)
    elif isinstance(value, (list, tuple)):
        for item in value:  # pyright: ignore
            yield from _parts(item, name, seen)
    elif isinstance(value, dict):
        for key, item in value.items():  # pyright: ignore
            yield from _parts((key, item), name, seen)
    elif isinstance(value, (set, frozenset)):
        yield from sorted(map(repr, value))  # pyright: ignore
    else:
        try:
            yield pickle.dumps(value).hex()
        except Exception as error:
            kind = type(value).__name__
            text = f"scheduler: {name} uses a {kind}, which is not the same in every process; use numbers, texts, lists or classes"
            raise TypeError(text) from error


def _function(function: FunctionType, name: str, seen: set[int]) -> Iterator[str]:
    names: set[str] = set()
    yield from _code(function.__code__, names)
    yield from _parts((function.__defaults__, function.__kwdefaults__), name, seen)
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield variable
        yield from _parts(cell.cell_contents, f"{name}: {variable}", seen)
    for variable in sorted(names & function.__globals__.keys()):
        yield variable
        yield from _parts(function.__globals__[variable], f"{name}: {variable}", seen)


def _code(code: CodeType, names: set[str]) -> Iterator[str]:
    """The instructions and constants of a function and of those inside it; adds the names that they look up."""
    names.update(code.co_names)
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_argcount, code.co_flags))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant, names)
        else:
            yield repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)  # pyright: ignore
