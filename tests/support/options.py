"""Parsed options for tests below Spark."""

from __future__ import annotations

from typing import Any

from spark_stomp.options import SinkOptions, SourceOptions, parse_sink_options, parse_source_options


def source_options(url: str, destination: str = "/queue/a", **options: Any) -> SourceOptions:
    """As Spark would hand them over."""
    given = {key: str(value) for key, value in options.items()}
    return parse_source_options(
        {"url": url, "destination": destination, "frameServerHost": "127.0.0.1", **given}
    )


def sink_options(url: str, **options: Any) -> SinkOptions:
    return parse_sink_options({"url": url, **{key: str(value) for key, value in options.items()}})
