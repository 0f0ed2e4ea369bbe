"""Parsed options, and connections with them, for tests below Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from spark_stomp.errors import OptionError
from spark_stomp.options import SinkOptions, SourceOptions, parse_sink_options, parse_source_options
from spark_stomp.transport import Connection, open_connection


def source_options(url: str, destination: str = "/queue/a", **options: Any) -> SourceOptions:
    """As Spark would hand them over."""
    given = {key: str(value) for key, value in options.items()}
    return parse_source_options(
        {"url": url, "destination": destination, "frameServerHost": "127.0.0.1", **given}
    )


def sink_options(url: str, **options: Any) -> SinkOptions:
    return parse_sink_options({"url": url, **{key: str(value) for key, value in options.items()}})


def connected(url: str, **options: Any) -> Connection:
    """An open connection with these options."""
    return open_connection(source_options(url, **options).connection)


def problems(parse: Callable[..., object], **options: Any) -> tuple[str, ...]:
    """What is wrong with these options."""
    with pytest.raises(OptionError) as caught:
        parse(**options)
    return caught.value.problems
