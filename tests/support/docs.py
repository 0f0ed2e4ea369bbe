"""The pages of docs/ that are generated from the code. ``python tests/support/docs.py`` writes them."""

from __future__ import annotations

from pathlib import Path

from spark_stomp.options import OPTIONS, Option
from spark_stomp.schema import DEFAULT_COLUMNS, ON_DEMAND_COLUMNS, SINK_COLUMNS, Column

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"

_OPTIONS_PAGE = """\
# Options

Keys are matched without regard to case. Header names and values are JSON, so that their case survives Spark.
An unknown, malformed or contradictory option is an error that lists all problems and the nearest known names.

{options}"""

_COLUMNS_PAGE = """\
# Columns

## The source

Without a schema a read has these columns:

{default}
Further columns come when `.schema(...)` names them. A schema is a choice of all these, in any order.

{on_demand}
## The sink

The sink takes these, and refuses any other by name:

{sink}"""


def pages() -> dict[Path, str]:
    """Each generated page as it should be."""
    columns = _COLUMNS_PAGE.format(
        default=columns_table(DEFAULT_COLUMNS),
        on_demand=columns_table(ON_DEMAND_COLUMNS),
        sink=columns_table(SINK_COLUMNS),
    )
    return {
        ROOT / "docs" / "options.md": _OPTIONS_PAGE.format(options=options_table()),
        ROOT / "docs" / "columns.md": columns,
    }


def options_table() -> str:
    """All options as a Markdown table, ending in a line break."""
    return "| option | for | value | default | meaning |\n|---|---|---|---|---|\n" + "".join(
        _row(f"`{option.key}`", _scopes(option), option.kind.allowed, _default(option), _meaning(option))
        for option in OPTIONS
    )


def columns_table(columns: tuple[Column, ...]) -> str:
    """These columns as a Markdown table, ending in a line break."""
    return "| column | type | meaning |\n|---|---|---|\n" + "".join(
        _row(f"`{column.name}`", " or ".join(f"`{name}`" for name in column.types), column.meaning)
        for column in columns
    )


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _scopes(option: Option) -> str:
    if len(option.scopes) == 3:
        return "all"
    names = {"source": "stream", "batch": "batch", "sink": "sink"}
    return ", ".join(name for scope, name in names.items() if scope in option.scopes)


def _default(option: Option) -> str:
    if option.note:
        return option.note
    return f"`{option.default}`" if option.default is not None else "-"


def _meaning(option: Option) -> str:
    if not option.pending:
        return option.meaning
    what = "Not available in this version" if option.default is None else "Only the default is available"
    return f"{option.meaning} {what}."


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
