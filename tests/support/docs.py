"""The pages of docs/ that are generated from the code. ``python tests/support/docs.py`` writes them."""

from __future__ import annotations

from pathlib import Path

from spark_stomp import errors
from spark_stomp.columns import DEFAULT_COLUMNS, ON_DEMAND_COLUMNS, SINK_COLUMNS, Column
from spark_stomp.options import OPTIONS, Option
from spark_stomp.status.figure import Part
from spark_stomp.status.sink import SinkPart
from spark_stomp.status.source import SUMMED, JournalPart, QueryPart, ReceiverPart, TotalsPart

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
_STATUS_PAGE = ROOT / "docs" / "status.md"
_API_PAGE = ROOT / "docs" / "api.md"

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

_STATUS_KEYS = """\
Times are ISO 8601 in UTC. Counts begin at 0 with each start of the query.

{query}
### Totals

`totals` also has the sums over the receivers of {summed}.

{totals}
### Receivers

{receivers}
### Journal

{journal}
### Sink

{sink}
"""


_ERRORS = """\
Errors of a query reach your program as exceptions of Spark with the text of these: look for the code in it.
The classes are for who calls Python code of the package. What each code means is in [errors.md](errors.md).

{errors}
"""


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
        _STATUS_PAGE: _with_keys(_STATUS_PAGE.read_text(encoding="utf-8")),
        _API_PAGE: _with_errors(_API_PAGE.read_text(encoding="utf-8")),
    }


def options_table() -> str:
    """All options as a Markdown table, ending in a line break."""
    return "| option | for | value | default | meaning |\n|---|---|---|---|---|\n" + "".join(
        _row(f"`{option.key}`", _scopes(option), option.kind.allowed, _default(option), option.meaning)
        for option in OPTIONS
    )


def columns_table(columns: tuple[Column, ...]) -> str:
    """These columns as a Markdown table, ending in a line break."""
    return "| column | type | meaning |\n|---|---|---|\n" + "".join(
        _row(f"`{column.name}`", " or ".join(f"`{name}`" for name in column.types), column.meaning)
        for column in columns
    )


def _with_keys(page: str) -> str:
    """The page of the status, whose section of keys alone is generated."""
    before, _, rest = page.partition("## The keys\n")
    _, heading, after = rest.partition("## Log lines\n")
    keys = _STATUS_KEYS.format(
        query=keys_table(QueryPart),
        totals=keys_table(TotalsPart),
        receivers=keys_table(ReceiverPart),
        journal=keys_table(JournalPart),
        sink=keys_table(SinkPart),
        summed=", ".join(f"`{figure.key}`" for figure in SUMMED),
    )
    return f"{before}## The keys\n\n{keys}{heading}{after}"


def _with_errors(page: str) -> str:
    """The page of the API, whose table of errors alone is generated."""
    before, heading, rest = page.partition("## `spark_stomp.errors`\n")
    _, command, after = rest.partition("## The command\n")
    return f"{before}{heading}\n{_ERRORS.format(errors=errors_table())}{command}{after}"


def errors_table() -> str:
    """All exceptions, each with its code and its parents, as a Markdown table."""
    classes = [getattr(errors, name) for name in errors.__all__]
    return "| name | code | is also |\n|---|---|---|\n" + "".join(
        _row(f"`{one.__name__}`", f"`{one.code}`", ", ".join(f"`{base.__name__}`" for base in one.__bases__))
        for one in classes
    )


def keys_table(part: type[Part]) -> str:
    """The keys of this part of the status as a Markdown table, ending in a line break."""
    return "| key | meaning | metric |\n|---|---|---|\n" + "".join(
        _row(f"`{one.key}`", one.meaning, f"`{part.metric_of(one)}`" if one.kind else "-")
        for one in part.figures()
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


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
