"""Options: every one declared once, parsed to frozen dataclasses, all problems reported together.

::

    values        texts to values: durations, sizes, JSON headers ...
    endpoint      the addresses in ``url``
    declared      OPTIONS: key, scope, kind of value, default, meaning
    model         the frozen results
    given         what Spark handed over: unknown, misplaced and malformed options
    contradictions  options that make no sense together
    parsing       parse_source_options, parse_batch_options, parse_sink_options
    table         the README's table

Keys are camelCase in documents and matched without regard to case, as Spark hands them over in lower case.
"""

from spark_stomp.options.definitions import OPTIONS, Option
from spark_stomp.options.endpoint import Endpoint
from spark_stomp.options.model import ConnectionOptions, SinkOptions, SourceOptions, TlsOptions
from spark_stomp.options.parsing import parse_batch_options, parse_sink_options, parse_source_options
from spark_stomp.options.table import render_table

__all__ = [
    "OPTIONS",
    "ConnectionOptions",
    "Endpoint",
    "Option",
    "SinkOptions",
    "SourceOptions",
    "TlsOptions",
    "parse_batch_options",
    "parse_sink_options",
    "parse_source_options",
    "render_table",
]
