"""Options: every one declared once, parsed to frozen dataclasses, all problems reported together.

::

    kinds         texts to values: durations, sizes, JSON headers ...
    endpoint      the addresses in ``url``
    fields        how a dataclass field carries the option that fills it
    connection_options, source_options, sink_options, message_options
                  the dataclasses: each option with key, scope, kind of value, default, meaning
    definitions   what these have in common, and all options in one list
    other_names   what options are called elsewhere
    raw_options   what Spark handed over: unknown, misplaced and malformed options
    rules         options that make no sense together
    parsing       check_read, parse_source_options, parse_batch_options, parse_sink_options

Keys are camelCase in documents and matched without regard to case, as Spark hands them over in lower case.
"""

from spark_stomp.options.connection_options import ConnectionOptions, TlsOptions
from spark_stomp.options.definitions import OPTIONS
from spark_stomp.options.endpoint import Endpoint
from spark_stomp.options.fields import Option
from spark_stomp.options.message_options import MessageOptions
from spark_stomp.options.parsing import (
    check_read,
    parse_batch_options,
    parse_sink_options,
    parse_source_options,
)
from spark_stomp.options.sink_options import SinkOptions
from spark_stomp.options.source_options import SourceOptions

__all__ = [
    "OPTIONS",
    "ConnectionOptions",
    "Endpoint",
    "MessageOptions",
    "Option",
    "SinkOptions",
    "SourceOptions",
    "TlsOptions",
    "check_read",
    "parse_batch_options",
    "parse_sink_options",
    "parse_source_options",
]
