"""Docstrings: each public name has one, their examples are true, the stubs know the same names. Notebooks show what they promise."""

import ast
import doctest
import inspect
import re
from pathlib import Path

import nbclient
import nbformat
import pytest
import tributary
from tributary import _native

HERE = Path(__file__).parent.parent
NOTEBOOKS = sorted((HERE / "notebooks").glob("*.ipynb"))


def documented():
    for name in tributary.__all__:
        thing = getattr(tributary, name)
        yield name, thing
        for member, value in vars(thing).items() if inspect.isclass(thing) else ():
            if not member.startswith("_"):
                yield f"{name}.{member}", value


@pytest.mark.parametrize(("name", "thing"), list(documented()), ids=lambda value: value if isinstance(value, str) else "")
def test_docstrings(name, thing):
    if name == "__version__" or not (callable(thing) or inspect.isdatadescriptor(thing)):
        return
    text = inspect.getdoc(thing)
    if not text:  # an attribute in its class's list
        owner, _, member = name.partition(".")
        text = inspect.getdoc(getattr(tributary, owner)) or ""
        assert re.search(rf"^(\w+, )*{member}(, \w+)* : ", text, re.MULTILINE), f"{name} has no docstring"
        return
    parsed = doctest.DocTestParser().get_doctest(text, {"tributary": tributary}, name, None, None)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(parsed)
    assert runner.summarize(verbose=False).failed == 0


def test_stubs_have_the_names_of_the_module():
    stubs = ast.parse((HERE / "python/tributary/_native.pyi").read_text())
    for name in ("Table", "Network"):
        assert name in vars(_native)
    found = {}
    for node in stubs.body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = set()
    own = {name: value for name, value in vars(_native).items() if not name.startswith("_")}
    assert set(own) == {name for name in found if not name.startswith("_")}
    for name, value in own.items():
        if inspect.isclass(value) and not issubclass(value, Exception):
            members = {member for member in vars(value) if not member.startswith("_")}
            assert members == {member for member in found[name] if not member.startswith("_")}, name


# What a notebook must have shown when it has run, checked by a last cell of its own.
SHOWN = {
    "blockage-figure": """
assert len(axes.lines) == 2 and all(len(line.get_ydata()) >= 20 for line in axes.lines)
fbdt, mptcp = (sum(line.get_ydata()) for line in axes.lines)
assert fbdt > mptcp > 0""",
    "new-scheduler": """
means = frame.groupby("scheduler").mean()
assert set(means.index) == set(schedulers) and (means["goodput"] > 10).all()""",
    "own-trace": """
assert set(table.index) == set(some) and (table["low"] <= table["mean"]).all() and (table["mean"] <= table["high"]).all()
assert table["mean"].idxmax() != "tcp:lte" and ranking.advice""",
}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "clear the outputs"
    notebook.cells.append(nbformat.v4.new_code_cell(SHOWN[path.stem]))
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()


def test_there_are_three_notebooks():
    assert len(NOTEBOOKS) == 3
