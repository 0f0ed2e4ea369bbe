"""Options: each is declared once and parsed into a frozen dataclass; all problems are reported together.

::

    kinds         texts to values: durations, sizes, JSON headers, positions in streams ...
    endpoint      the addresses in ``url``
    fields        how a dataclass field carries the option that fills it
    connection_options, source_options, sink_options
                  the dataclasses: each option with key, who takes it, kind of value, default; below it
                  its meaning
    other_names   names that other systems give to these options
    rules         options that contradict each other
    parsing       check_read, parse_source_options, parse_batch_options, parse_sink_options

To add an option, declare one field in ``connection_options``, ``source_options`` or ``sink_options``. That is
the only declaration: the parser, the error texts, the secrets of the command line and the tables in
docs/reference.md are all made from it. Code that uses the option reads the field. If the option contradicts
another one, ``rules`` says so. CONTRIBUTING.md lists all steps.

The fields have no Python defaults, because only the parser makes these classes: a default is declared once,
as a user would write it. To change a value, use :func:`dataclasses.replace`.

Keys are camelCase in documents. Upper and lower case do not matter, because Spark passes keys in lower case.
"""

from spark_stomp.options.connection_options import ConnectionOptions, ReconnectOptions, TlsOptions
from spark_stomp.options.endpoint import Endpoint
from spark_stomp.options.fields import Option
from spark_stomp.options.parsing import (
    OPTIONS,
    check_read,
    parse_batch_options,
    parse_sink_options,
    parse_source_options,
    reads_streams,
)
from spark_stomp.options.sink_options import MessageOptions, SinkOptions
from spark_stomp.options.source_options import SourceOptions
