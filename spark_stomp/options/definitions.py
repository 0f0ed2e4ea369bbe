"""Every option, declared once, on the field that it fills: key, who takes it, kind, default and meaning.

The parser, the rules and the documentation read these declarations; no default stands anywhere else. Defaults
are written as a user would write them, and parsed like any other value.

The classes are frozen and picklable, and only the parser makes them: to Python their fields have no defaults.
To vary one, use :func:`dataclasses.replace`.
"""

from __future__ import annotations

from typing import Final

from spark_stomp.options.fields import options_of
from spark_stomp.options.sink_options import SinkOptions
from spark_stomp.options.source_options import SourceOptions

OPTIONS: Final = tuple(dict.fromkeys((*options_of(SourceOptions), *options_of(SinkOptions))))
"""All options, in the order in which they are documented."""
