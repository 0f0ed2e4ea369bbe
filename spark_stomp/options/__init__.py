"""Options: every one declared once, parsed to frozen dataclasses, all problems reported together.

::

    kinds         texts to values: durations, sizes, JSON headers ...
    endpoint      the addresses in ``url``
    fields        how a dataclass field carries the option that fills it
    connection_options, source_options, sink_options
                  the dataclasses: each option with key, who takes it, kind of value, default, meaning
    other_names   what options are called elsewhere
    rules         options that make no sense together
    parsing       check_read, parse_source_options, parse_batch_options, parse_sink_options

To Python the fields of these classes have no defaults, and only the parser makes them: a default is declared
once, as a user would write it. To vary one, use :func:`dataclasses.replace`.

Keys are camelCase in documents and matched without regard to case, as Spark hands them over in lower case.
"""

from spark_stomp.options.connection_options import ConnectionOptions, TlsOptions
from spark_stomp.options.endpoint import Endpoint
from spark_stomp.options.fields import Option
from spark_stomp.options.parsing import (
    OPTIONS,
    check_read,
    parse_batch_options,
    parse_sink_options,
    parse_source_options,
)
from spark_stomp.options.sink_options import MessageOptions, SinkOptions
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
