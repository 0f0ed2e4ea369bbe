"""spark_stomp: the STOMP source and sink for PySpark.

The way of a message, and where it is written down::

    broker ──> transport ──> protocol ──> receiver ──> exchange ──> arrow ──> source ──> rows
    broker <── transport <── protocol <── sink     <── arrow                         <── rows

======================  ==================================================================================
``datasource``          what ``format("stomp")`` means: wiring only
``options``             every option, declared once
``schema``              the columns, declared once
``errors``              the exception tree and its codes
``protocol``            bytes in, events and bytes out: codec and sessions, without socket, thread or clock
``dialects``            what each broker adds to the protocol
``transport``           sockets, TLS, the pump between a byte stream and a session
``receiver``            one subscription: the window of raw un-acked frames and the ledger of its ACKs
``exchange``            raw frames from the receivers to the tasks, over Arrow Flight
``arrow``               raw frames to record batches, record batches to SEND frames
``source``              offsets, planning, commit evidence, and the readers that Spark drives
``sink``                the writers
``devbroker``           an in-memory broker for development and tests
======================  ==================================================================================

Imports point one way: errors, options, schema; protocol; dialects,
transport, arrow; receiver, exchange; source, sink; datasource.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_stomp.datasource import StompDataSource, register

__all__ = ["StompDataSource", "__version__", "register"]

try:
    __version__ = version("spark-stomp")
except PackageNotFoundError:  # a source tree on the path, not installed
    __version__ = "0+unknown"


def __getattr__(name: str) -> object:
    # On demand: the protocol, the dev broker and the command line work without pyspark.
    if name in ("StompDataSource", "register"):
        from spark_stomp import datasource

        return getattr(datasource, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
