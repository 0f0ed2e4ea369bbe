"""The pages of docs/ that are generated from the code. ``python tests/support/docs.py`` writes them."""

from __future__ import annotations

import re
from pathlib import Path

from spark_stomp import errors
from spark_stomp.columns import DEFAULT_COLUMNS, ON_DEMAND_COLUMNS, SINK_COLUMNS, Column
from spark_stomp.options import OPTIONS, Option
from spark_stomp.status.figure import Part
from spark_stomp.status.receivers import SUMMED, ReceiverPart, TotalsPart
from spark_stomp.status.sink import SinkPart
from spark_stomp.status.source import JournalPart, QueryPart

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
_STATUS_PAGE = ROOT / "docs" / "status.md"
_API_PAGE = ROOT / "docs" / "api.md"

_OPTIONS_PAGE = """\
# Options

For people who write a query: every option, with its values and its default.

The case of a key does not matter. Options that hold headers are JSON, because Spark does not keep the case
of keys. An option that is unknown, malformed or contradicts another one is an error. The error lists all
problems, and names the option that was probably meant.

{options}"""

_COLUMNS_PAGE = """\
# Columns

For people who write a query: the columns that a read gives and a write takes. [Payloads](payloads.md) says
how to read what a body holds.

## The source

Without a schema, a read has these columns:

{default}
`.schema(...)` chooses any of these and of the following columns, in any order:

{on_demand}
## The sink

The sink takes these columns, and those that `headerColumns` and `dedupKey` name. Any other one is an error.

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
Code that calls this package's Python functions can catch these classes. An error of a query reaches your
program as an exception of Spark: look for the code in its text. [errors.md](errors.md) says what each code
means.

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


def programs(page: Path, heading: str) -> list[str]:
    """The blocks of Python in the section of that heading."""
    (section,) = (
        part for part in page.read_text(encoding="utf-8").split("\n## ") if part.partition("\n")[0] == heading
    )
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


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
