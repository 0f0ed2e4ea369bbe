"""docs/api.rst has every public name, and every function there shows how it is called."""

from __future__ import annotations

import ast
import inspect
import textwrap

import pytest
from support.pages import ROOT

import spark_stomp
from spark_stomp import devbroker, status

PAGE = (ROOT / "docs" / "api.rst").read_text(encoding="utf-8")
NAMES = [name for name in spark_stomp.__all__ if name != "__version__"]
SHOWN = [
    *(getattr(spark_stomp, name) for name in NAMES if name != "StompDataSource"),
    *(getattr(status, name) for name in status.__all__ if name != "QueryStatus"),
    devbroker.DevBroker,
]


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_it(name: str) -> None:
    assert f":: spark_stomp.{name}" in PAGE


@pytest.mark.parametrize("module", [devbroker, status])
def test_the_page_has_all_of_it(module: object) -> None:
    assert f".. automodule:: {getattr(module, '__name__', '')}\n   :members:" in PAGE


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: shown.__name__)
def test_it_has_an_example_that_is_python(shown: object) -> None:
    _, begins, example = (inspect.getdoc(shown) or "").partition("Example::\n")
    assert begins
    tree = ast.walk(ast.parse(textwrap.dedent(example)))
    used = {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in tree}
    assert getattr(shown, "__name__", "") in used
