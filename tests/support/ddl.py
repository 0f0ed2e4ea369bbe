"""A second reader of what ``spark-stomp peek --schema`` prints, without Spark."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from spark_stomp.arrow.json_values import VARIANT
from spark_stomp.quoting import shown

_LEAVES = {
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP_LTZ": pa.timestamp("us", tz="UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "BINARY": pa.binary(),
    "VARIANT": VARIANT,
}
_TOKEN = re.compile(r"--[^\n]*|`(?:[^`]|``)*`|[A-Za-z0-9_]+|[<>:,()]|\s+", re.DOTALL)


@dataclass
class Kind:
    """A type: of a leaf, or ``STRUCT``, ``ARRAY``, ``MAP`` with its parts, and names that it leaves out."""

    name: str
    parts: dict[str, Kind] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)
    leaf: pa.DataType | None = None

    def arrow(self) -> pa.DataType:
        """As the source has it."""
        if self.name == "STRUCT":
            return pa.struct([pa.field(name, part.arrow()) for name, part in self.parts.items()])
        if self.name == "ARRAY":
            return pa.list_(pa.field("element", self.parts[""].arrow()))
        if self.name == "MAP":
            return pa.map_(pa.string(), pa.field("value", self.parts[""].arrow()))
        return self.leaf

    def without_left_out(self, value: Any) -> Any:
        """A value of a document without the fields that the schema says it leaves out."""
        if self.name == "STRUCT" and isinstance(value, dict):
            return {
                name: self.parts[name].without_left_out(one) if name in self.parts else one
                for name, one in value.items()
                if name in self.parts or shown(name) not in self.left_out
            }
        if self.name == "MAP" and isinstance(value, dict):
            return {name: self.parts[""].without_left_out(one) for name, one in value.items()}
        if self.name == "ARRAY" and isinstance(value, list):
            return [self.parts[""].without_left_out(one) for one in value]
        return value


class _Reader:
    def __init__(self, text: str) -> None:
        found = [match[0] for match in _TOKEN.finditer(text)]
        assert "".join(found) == text, "there is what no token begins with"
        self.tokens = [token for token in found if not token.isspace()]
        self.comments: list[str] = []
        self.structs: list[Kind] = []

    def peek(self) -> str:
        while self.tokens and self.tokens[0].startswith("--"):
            comment = self.tokens.pop(0)[2:].strip()
            self.comments.append(comment)
            if found := re.fullmatch(r"`(.*)` is left out: .*\. Bodies with it are rescued", comment):
                self.structs[-1].left_out.add(found[1])
        return self.tokens[0] if self.tokens else ""

    def take(self, *expected: str) -> str:
        token = self.peek()
        assert token and (not expected or token in expected), (token, expected)
        return self.tokens.pop(0)

    def name(self) -> str:
        token = self.take()
        return token[1:-1].replace("``", "`") if token.startswith("`") else token

    def fields(self, colon: str, end: str) -> dict[str, Kind]:
        found: dict[str, Kind] = {}
        while True:
            name = self.name()
            assert name not in found
            if colon:
                self.take(colon)
            found[name] = self.kind()
            if self.peek() == end:
                return found
            self.take(",")

    def kind(self) -> Kind:
        kind = Kind(self.take("STRUCT", "ARRAY", "MAP", "DECIMAL", *_LEAVES))
        if kind.name == "DECIMAL":
            self.take("(")
            precision = int(self.take())
            self.take(",")
            kind.leaf = pa.decimal128(precision, int(self.take()))
            self.take(")")
        elif kind.name in _LEAVES:
            kind.leaf = _LEAVES[kind.name]
        else:
            self.take("<")
            if kind.name == "MAP":
                self.take("STRING")
                self.take(",")
            if kind.name == "STRUCT":
                self.structs.append(kind)
                kind.parts = self.fields(":", ">")
                self.structs.pop()
            else:
                kind.parts = {"": self.kind()}
            self.take(">")
        return kind


@dataclass
class Printed:
    """What is printed: the schema as Spark gets it, its columns, and its comments."""

    ddl: str
    columns: dict[str, Kind]
    comments: list[str]


def printed_schema(call: str) -> Printed:
    """Read the call that is printed; raises AssertionError if it is none."""
    program = ast.parse(f"reader{call.strip()}", mode="eval").body
    assert isinstance(program, ast.Call) and ast.unparse(program.func) == "reader.schema"
    (literal,) = program.args
    ddl = ast.literal_eval(literal)
    reader = _Reader(ddl)
    columns = reader.fields("", "")
    return Printed(ddl, columns, reader.comments)
