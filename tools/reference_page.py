"""What is generated from the code: ``docs/reference.md`` but for two parts, and three more files.

These are the types of a status, what the sentences of brokers mean, and in ``docs/brokers.md`` the table of
settings.
``python tools/reference_page.py`` writes all.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterable
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Final

from broker_settings import settings_table

import spark_stomp
from spark_stomp import errors
from spark_stomp.brokers import DIALECTS
from spark_stomp.brokers.devbroker import DEVBROKER
from spark_stomp.brokers.known import GENERIC
from spark_stomp.columns import DEFAULT_COLUMNS, ON_DEMAND_COLUMNS, SINK_COLUMNS, Column
from spark_stomp.errors import StompError
from spark_stomp.options import (
    OPTIONS,
    ConnectionOptions,
    MessageOptions,
    Option,
    ReconnectOptions,
    SinkOptions,
    SourceOptions,
    TlsOptions,
)
from spark_stomp.options.kinds import BOOLEAN, HEADERS, SIZE, TIMEOUT
from spark_stomp.status.end import EndPart
from spark_stomp.status.figure import Figure, Part, Time
from spark_stomp.status.receivers import SUMMED, ReceiverPart, TotalsPart
from spark_stomp.status.sink import SinkPart
from spark_stomp.status.source import JournalPart, QueryPart, QueuePart, UnfitPart

_ROOT = Path(__file__).resolve().parents[1]
REFERENCE = _ROOT / "docs" / "reference.md"
BROKERS = _ROOT / "docs" / "brokers.md"
DOCUMENT = _ROOT / "spark_stomp" / "status" / "document.py"
SENTENCES = _ROOT / "tests" / "data" / "broker_sentences.md"
# What is written by hand in the page: from one of these headings to the next generated one.
_BY_HAND = ("## Python API\n", "## Versions\n")
_NAMES = "### Names\n"
# Between these two the page of brokers has its table.
_SETTINGS = ("names the test of each row.\n\n", "\n**Every broker**")
# The classes whose fields are options.
_DECLARING: Final = (
    *(ConnectionOptions, TlsOptions, ReconnectOptions),
    *(SourceOptions, SinkOptions, MessageOptions),
)
# Modules whose names users import; the names of spark_stomp.errors are in the table of errors.
MODULES = (
    "spark_stomp",
    "spark_stomp.devbroker",
    "spark_stomp.devbroker.pytest_plugin",
    "spark_stomp.status",
)

_PAGE = """\
# Reference

For people who look something up: options, columns, status keys, errors, the Python API, and versions.

## Options

The case of a key does not matter. An option that is unknown, malformed or contradicts another one is an
error, which lists all problems.

- A *duration* is `500ms`, `10s` or `5 minutes`, and more than 0. A *size* is in bytes, or `64k`, `10m`, `1g`.
- *Names* are one name, or a JSON list of names.
- *Headers* are a JSON object of names and values, because Spark does not keep the case of keys.

**Bold** is the default.

### Every read and write

{connections}
### Every read

{reads}
### Streaming reads

{streams}
### Writes

The columns `headers`, `persistent`, `priority` and `ttl` win over the options for them.

{writes}
## Columns

Without a schema, a read has these columns:

{default}
`.schema(...)` chooses any of these and of the following, in any order and case. Where
`spark.sql.timestampType` is `TIMESTAMP_NTZ`, write `timestamp_ltz`:

{on_demand}
A write takes these columns, and those that `headerColumns` and `dedupKey` name. Any other one is an error.

{sink_columns}
## Status keys

Times are ISO 8601 in UTC. Counts begin at 0 with each start of the query. What does not apply is null. Keys
in bold are metrics, whose names begin with `spark_stomp_` (of the journal `spark_stomp_journal_`, of the sink
`spark_stomp_sink_`, of the end `spark_stomp_end_`). Those of counts end in `_total`, those of times in
`_timestamp_seconds` without `_at`.

{query}
### Totals

`totals` also has the sums over the receivers of {summed}.

{totals}
### Receivers

A receiver is one connection with its subscriptions, or the next one if that breaks.

{receivers}
### Queues

{queues}
### Bodies that do not fit

{unfit}
### Journal

{journal}
### Sink

{sink}
### End

{ended}
## Errors

Every error, also of a query, begins with its code. The text says which value was wrong, what is allowed, and
what the broker said. In brackets are the class in `spark_stomp.errors` and nearer bases than `StompError`.

{errors}
### What a broker's ERROR means

The connector knows [many sentences](../tests/data/broker_sentences.md) of brokers, and what each means:

- *passes*: the same request succeeds later. The source goes on, or a new query waits, until
  `reconnectTimeout`; so does a task of the sink.
- *may pass*: the same words have several causes. As above, but a new query waits for `connectTimeout` at each
  address.
- *message*: it is because of one message. Such a row is one that cannot be sent (`onError`); if it cannot be
  delivered, see [brokers](brokers.md#what-they-do).
- *stays*: somebody has to change something. The query fails at once; with a column `destination`, `onError`
  says what becomes of the row.

Any other sentence may pass: it never drops a row, and never ends a query before `reconnectTimeout`. Of an
unknown broker, words such as "denied" or "does not exist" stay.

"""

# The tables of options, in the order of the page.
EVERYWHERE = [option for option in OPTIONS if option.scopes >= {"source", "sink"}]
READS = [option for option in OPTIONS if "batch" in option.scopes and "sink" not in option.scopes]
STREAMS = [option for option in OPTIONS if option.scopes == {"source"}]
WRITES = [option for option in OPTIONS if option.scopes == {"sink"}]

# By code. What happened is in the docstring of its class.
_TO_DO = {
    "STOMP_ERROR": "No error has this code",
    "STOMP_OPTIONS_INVALID": "Correct what the text lists",
    "STOMP_SCHEMA_INVALID": "See [Columns](#columns)",
    "STOMP_UNSUPPORTED": "Do what the text says",
    "STOMP_WRONG_PYTHON": "Set what the text names",
    "STOMP_PASSWORD_UNREADABLE": "Put it on [the machine that connects](security.md#passwords)",
    "STOMP_PROTOCOL": "No error has this code",
    "STOMP_LOCAL_PROTOCOL": "A bug: please report it",
    "STOMP_FRAME_UNENCODABLE": "Change the header in your options",
    "STOMP_REMOTE_PROTOCOL": "Try `acceptVersions=lenient`",
    "STOMP_FRAME_MALFORMED": "Try `acceptVersions=lenient`",
    "STOMP_VERSION_REFUSED": "Correct `acceptVersions`",
    "STOMP_HEARTBEAT_LOST": "See [By what you see](operate.md#it-fails-while-it-runs)",
    "STOMP_LIMIT_EXCEEDED": "Raise the limit that the text names",
    "STOMP_TRANSPORT": "No error has this code",
    "STOMP_CONNECT_FAILED": "See [It does not connect](operate.md#it-does-not-connect)",
    "STOMP_CONNECT_TIMEOUT": "As above",
    "STOMP_NOT_A_STOMP_SERVER": "As above",
    "STOMP_TLS_REFUSED": "As above",
    "STOMP_SUBSCRIPTION_FORGOTTEN": "Find out "
    "[what takes the consumer away](operate.md#consumers-that-are-taken-away)",
    "STOMP_CONNECTION_LOST": "Read the broker's log; in a sink, a message may be "
    "[too large](brokers.md#what-they-do)",
    "STOMP_BROKER_ERROR": "Read its words, which follow, and its log",
    "STOMP_LOGIN_REFUSED": "See [It does not connect](operate.md#it-does-not-connect)",
    "STOMP_CLIENT_ID_IN_USE": "Use one `clientId` for each query, or wait for the last run to end",
    "STOMP_DESTINATION_REFUSED": "Do what the text says",
    "STOMP_HEADER_NOT_TEXT": "It is no failure, but a reason in the column `malformed`: see "
    "[reading](reading.md#malformed-messages)",
    "STOMP_BODY_UNDECODABLE": "Use `body binary`, or set `bodyDecodeErrors`",
    "STOMP_MESSAGE_MALFORMED": "See [Malformed messages](reading.md#malformed-messages)",
    "STOMP_SINK_ROW_INVALID": "Mend the row, or set `onError`",
    "STOMP_SINK_ROW_NOT_TEXT": "As above",
    "STOMP_SINK_ROW_UNENCODABLE": "As above",
    "STOMP_SINK_ROW_TOO_LARGE": "As above",
    "STOMP_SINK_ROW_REFUSED": "As above",
    "STOMP_SINK_ROW_WITHOUT_KEY": "As above",
    "STOMP_DELIVERY": "Unexpected: please report it",
    "STOMP_RECEIPT_TIMEOUT": "Read its log; an unknown broker perhaps "
    "[sends none](brokers.md#another-broker)",
    "STOMP_MESSAGE_UNDELIVERABLE": "See, move or remove it as the text says, then start the query again",
    "STOMP_ACKS_REFUSED": "Read its log, and take the message that the text names out of the queue",
    "STOMP_OFFSET_INVALID": "Use the release that wrote the checkpoint",
    "STOMP_RANGE_UNAVAILABLE": "Start the query again, on its own checkpoint",
    "STOMP_CHECKPOINT_MISMATCH": "Give source and query the same path; or another run has taken it over",
    "STOMP_CHECKPOINT_UNREADABLE": "Mend rights or file system; a minute of attempts has failed",
    "STOMP_TOO_MANY_MESSAGES": "Set `maxMessages`",
    "STOMP_FRAME_SERVER_FAILED": "Open its port: [Ports](cluster.md#ports)",
    "STOMP_SUBSCRIBE_TIMEOUT": "Read the broker's log, or raise `maxDrainTime`",
    "STOMP_DRAIN_TIMEOUT": "Start the query again once the broker is there, or raise `maxDrainTime`",
    "STOMP_STREAM_TIMEOUT": "Read the broker's log, or raise `maxDrainTime`",
    "STOMP_STREAM_TRUNCATED": "Keep messages for longer; `failOnDataLoss=false` goes on without them",
    "STOMP_JOURNAL": "Use the release that wrote it, or mend what the text names",
    "STOMP_JOURNAL_IN_USE": "Give each query its own, or wait for the last run to end",
    "STOMP_JOURNAL_MISSING": "Restore journal and checkpoint together, or set `failOnDataLoss=false` once, "
    "which logs what is lost",
    "STOMP_JOURNAL_MISMATCH": "As above",
    "STOMP_JOURNAL_TRIMMED": "As above",
    "STOMP_JOURNAL_DAMAGED": "As above",
    "STOMP_JOURNAL_UNWRITABLE": "Give rights, and start again: nothing is lost",
    "STOMP_JOURNAL_FULL": "Make room, and start again: nothing is lost",
}


def pages() -> dict[Path, str]:
    """Each generated file as it should be."""
    return {
        REFERENCE: _reference(REFERENCE.read_text(encoding="utf-8")),
        BROKERS: _brokers(BROKERS.read_text(encoding="utf-8")),
        DOCUMENT: document(),
        SENTENCES: _SENTENCES + sentences_table(),
    }


def _brokers(page: str) -> str:
    before, after = _SETTINGS
    return page[: page.index(before) + len(before)] + settings_table() + page[page.index(after) :]


def _reference(page: str) -> str:
    """The page; what is written by hand in it stays."""
    api, versions = (page[page.index(heading) :] for heading in _BY_HAND)
    generated = _PAGE.format(
        connections=options_list(EVERYWHERE),
        reads=options_list(READS),
        streams=options_list(STREAMS),
        writes=options_list(WRITES),
        default=columns_list(DEFAULT_COLUMNS),
        on_demand=columns_list(ON_DEMAND_COLUMNS),
        sink_columns=columns_list(SINK_COLUMNS),
        query=keys_list(QueryPart),
        totals=keys_list(TotalsPart),
        receivers=keys_list(ReceiverPart),
        queues=keys_list(QueuePart),
        unfit=keys_list(UnfitPart),
        journal=keys_list(JournalPart),
        sink=keys_list(SinkPart),
        ended=keys_list(EndPart),
        summed=", ".join(f"`{figure.key}`" for figure in SUMMED),
        errors=errors_list(),
    )
    by_hand = api.partition(_NAMES)[0] + _NAMES
    return f"{generated}{by_hand}\n{names_list()}\n{versions}"


def options_list(options: Iterable[Option]) -> str:
    """Options as a Markdown list, ending in a line break."""
    meanings = option_meanings()
    return "".join(
        f"- `{option.key}` ({_value(option)}): {meanings[option]}{_exception(option)}\n" for option in options
    )


def option_meanings() -> dict[Option, str]:
    """What is written below the field of each option."""
    found: dict[Option, str] = {}
    for declaring in _DECLARING:
        (body,) = ast.parse(inspect.getsource(declaring)).body
        assert isinstance(body, ast.ClassDef)
        options = {one.name: one.metadata["option"] for one in fields(declaring) if "option" in one.metadata}
        for field, below in pairwise(body.body):
            match field, below:
                case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                    found[options[name]] = " ".join(text.split())
    return found


def columns_list(columns: tuple[Column, ...]) -> str:
    """These columns as a Markdown list, ending in a line break."""
    return "".join(
        f"- `{column.name}` ({' or '.join(f'`{name}`' for name in column.types)}): {column.meaning}\n"
        for column in columns
    )


def keys_list(part: type[Part]) -> str:
    """The keys of this part of the status as a Markdown list, ending in a line break."""
    return "".join(f"- {_key(part, one)}: {one.meaning}\n" for one in part.figures())


def _key(part: type[Part], figure: Figure) -> str:
    """A key; if it is a metric, in bold, with the name of the metric unless that follows from the key."""
    if figure.metric_type is None:
        return f"`{figure.key}`"
    name = part.metric_of(figure)
    regular = f"spark_stomp_{part.prefix}{figure.key.removesuffix('_at')}"
    follows = re.fullmatch(rf"{regular}(_total|(?<!_at)_timestamp_seconds)?", name)
    return f"**`{figure.key}`**" + ("" if follows else f" (`{name}`)")


def errors_list() -> str:
    """All exceptions with codes and bases, what happened and what to do, as a Markdown list."""
    classes = [getattr(errors, name) for name in errors.__all__]
    return "".join(
        f"- `{one.code}` ({_with_bases(one)}): {_first(one.__doc__)}. {_TO_DO[one.code]}.\n"
        for one in classes
    )


_SENTENCES: Final = """\
# What a broker's ERROR means

[Reference](../../docs/reference.md#what-a-brokers-error-means) says what follows from each meaning. Names in
the sentences are examples. `make docs` writes this file.

"""
_SHOWN_AS: Final = {"passes": "passes", "either": "may pass", "message": "message", "stays": "stays"}
_OF_ANY: Final = "any"


def sentences_table() -> str:
    """What each known sentence of a broker means, as a Markdown table."""
    rows = [
        f"| {_OF_ANY if dialect is GENERIC else dialect.name} | {_SHOWN_AS[one.verdict]} | {_cell(one.said)} "
        f"| {one.when} |\n"
        for dialect in DIALECTS
        if dialect is not DEVBROKER
        for one in dialect.errors.sentences
    ]
    return "| broker | means | words | when |\n|---|---|---|---|\n" + "".join(rows)


def _cell(said: str) -> str:
    """A sentence on one line, as code, without what its body repeats of its header."""
    text = said.partition("\n")[0]
    header, between, body = text.partition(" - ")
    if between and header == body.partition(" - ")[0].lower():
        text = body
    return "`{}`".format(text.replace(" in vhost '/'", ""))


def names_list() -> str:
    """The public names of :data:`MODULES` as a Markdown list, ending in a line break."""
    return "".join(
        f"- `{module}.{name}`: {_first(_docstring(module, name))}\n"
        for module in MODULES
        for name in importlib.import_module(module).__all__
    )


def _docstring(module: str, name: str) -> str | None:
    """Of a name that the module exports. Needs no Spark."""
    if name == "__version__":
        return "The release, as text."
    if module != "spark_stomp":
        return inspect.getdoc(getattr(importlib.import_module(module), name))
    (node,) = (
        node
        for source in (Path(spark_stomp.__file__).parent / "spark").glob("*.py")
        for node in ast.parse(source.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name
    )
    return ast.get_docstring(node)


def _first(docstring: str | None) -> str:
    """The first sentence, with the code marks of Markdown."""
    sentence = re.split(r"\.(?: |\n|$)", docstring or "")[0]
    return re.sub(r":\w+:`", "`", sentence).replace("``", "`")


def _with_bases(error: type[StompError]) -> str:
    bases = [base for base in error.__bases__ if error is not StompError and base is not StompError]
    return ", ".join(f"`{one.__name__}`" for one in [error, *bases])


def _exception(option: Option) -> str:
    return " Not for batch reads." if option.scopes == {"source", "sink"} else ""


def _value(option: Option) -> str:
    """What the option takes, with its default in bold."""
    allowed = option.kind.allowed
    if option.missing:
        return f"{allowed}; required"
    if option.default is None and not option.note:
        return allowed
    default = f"**{option.note or f'`{option.default}`'}**"
    if allowed.startswith("`") and f"`{option.default}`" in allowed.split(", "):
        return allowed.replace(f"`{option.default}`", default)
    # A default as `30s`, `64k`, `true` or `1000` shows what kind of value it is.
    shows = option.kind in (BOOLEAN, HEADERS, SIZE, TIMEOUT) or allowed.startswith("≥")
    return default if shows else f"{allowed}; {default}"


_DOCUMENT = '''\
"""The types of a status, for editors and type checkers. ``make docs`` writes this file from the figures."""

from __future__ import annotations

from typing import TypedDict
'''
# What each part is called as a type, and the keys whose values are parts.
_TYPES: Final = {
    EndPart: "EndFigures",
    JournalPart: "JournalFigures",
    QueuePart: "QueueFigures",
    ReceiverPart: "ReceiverFigures",
    SinkPart: "SinkFigures",
    TotalsPart: "TotalsFigures",
    UnfitPart: "UnfitFigures",
    QueryPart: "QueryStatus",
}
_PARTS: Final = {
    "ended": "EndFigures | None",
    "journal": "JournalFigures | None",
    "queues": "dict[str, QueueFigures]",
    "receivers": "dict[str, ReceiverFigures]",
    "sink": "SinkFigures | None",
    "totals": "TotalsFigures",
    "unfit": "dict[str, UnfitFigures]",
}


def document() -> str:
    """The module with a TypedDict for each part of the status."""
    return _DOCUMENT + "".join(_typed(part) for part in _TYPES)


def _typed(part: type[Part]) -> str:
    keys = {figure.key: _type(part, figure) for figure in part.figures()}
    if part is TotalsPart:  # a sum is never null
        keys |= {figure.key: _type(part, figure).removesuffix(" | None") for figure in SUMMED}
    if part is QueryPart:  # read_status adds it
        keys["file"] = "str"
    fields = "".join(f"    {key}: {kind}\n" for key, kind in keys.items())
    meaning = _first(part.__doc__).replace("`", "``")
    return f'\n\nclass {_TYPES[part]}(TypedDict):\n    """{meaning}."""\n\n{fields}'


def _type(part: type[Part], figure: Figure) -> str:
    if part is QueryPart and figure.key in _PARTS:
        return _PARTS[figure.key]
    # A Time returns seconds, and the document shows ISO 8601.
    kind = str(figure.get.__annotations__["return"])
    return kind.replace("float", "str") if isinstance(figure, Time) else kind


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
