"""The README's table of options, rendered from the declarations."""

from __future__ import annotations

from typing import Any, Final

from spark_stomp.options.definitions import OPTIONS, Option

__all__ = ["render_table"]

_HEAD: Final = "| option | for | value | default | meaning |\n|---|---|---|---|---|\n"


def render_table() -> str:
    """All options as a Markdown table, ending in a line break."""
    return _HEAD + "".join(_row(option) for option in OPTIONS)


def _row(option: Option[Any]) -> str:
    cells = [f"`{option.key}`", _scopes(option), option.kind.allowed, _default(option), _meaning(option)]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _scopes(option: Option[Any]) -> str:
    if len(option.scopes) == 3:
        return "all"
    names = {"source": "stream", "batch": "batch", "sink": "sink"}
    return ", ".join(name for scope, name in names.items() if scope in option.scopes)


def _default(option: Option[Any]) -> str:
    if option.default_note:
        return option.default_note
    return f"`{option.default}`" if option.default is not None else "-"


def _meaning(option: Option[Any]) -> str:
    if not option.pending:
        return option.meaning
    what = "Not available in this version" if option.default is None else "Only the default is available"
    return f"{option.meaning} {what}."
