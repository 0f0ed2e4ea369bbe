"""The README's generated tables. ``python tests/support/readme.py`` rewrites them."""

from __future__ import annotations

import re
from pathlib import Path

from spark_stomp.options import render_table
from spark_stomp.schema import DEFAULT_COLUMNS, ON_DEMAND_COLUMNS, SINK_COLUMNS, Column

README = Path(__file__).resolve().parents[2] / "README.md"


def columns_table(columns: tuple[Column, ...]) -> str:
    rows = (f"| `{column.name}` | {types(column)} | {column.meaning} |\n" for column in columns)
    return "| column | type | meaning |\n|---|---|---|\n" + "".join(rows)


def types(column: Column) -> str:
    return " or ".join(f"`{name}`" for name in column.types)


def tables() -> dict[str, str]:
    """Each generated table by the name in its marks, ``<!-- options -->`` and ``<!-- /options -->``."""
    return {
        "columns": columns_table(DEFAULT_COLUMNS),
        "on-demand": columns_table(ON_DEMAND_COLUMNS),
        "sink-columns": columns_table(SINK_COLUMNS),
        "options": render_table(),
    }


def refreshed(text: str) -> str:
    """``text`` with every generated table as it should be.

    Raises:
        ValueError: a table's marks are missing.
    """
    for name, table in tables().items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text, count = marked.subn(lambda match, table=table: match[1] + table + match[2], text)
        if count != 1:
            raise ValueError(f"README.md has {count} places for the table {name}")
    return text


if __name__ == "__main__":
    README.write_text(refreshed(README.read_text(encoding="utf-8")), encoding="utf-8")
