"""spark_stomp: the STOMP source and sink for PySpark.

The path of a message, and the components (folders and modules), from the lowest to the highest::

    broker ──> transport ──> protocol ──> receiver ──> frameserver ──> arrow ──> rows
    broker <── transport <── protocol <── sink                               <── rows

==================  ====================================================================================
``quoting``        foreign text made safe for errors and log lines; plurals, numbers
``errors``         the exception tree and its codes
``logs``           log lines: the query that each names, and how they leave Spark's Python processes
``deadline``       the moment by which something has to be done
``threads``        one class for all threads: a name, the error that ended it, a bounded end
``frame_batch``    raw frames from the receiver to the task, and the keys of messages
``protocol``       bytes in, events and bytes out: codec and sessions, without socket, thread or clock
``brokers``        what each broker adds to the protocol
``options``        every option, declared once, on the field that it fills
``columns``        the columns of source and sink, declared once
``files``          private files, durable writes; paths and URIs on disks, mounts and object stores
``transport``      sockets, TLS and WebSocket, and the loop that moves bytes between them and a session
``arrow``          raw frames to record batches
``devbroker``      an in-memory broker for development and tests
``journal``        raw frames made durable, on a disk, on a mount or in an object store
``frameserver``    raw frames from the receivers to the tasks
``receiver``       one connection and its subscriptions: inbox, log, duplicates, ACKs
``status``         the status of a query: each figure declared once; its files, Prometheus
``source``         a streaming query while it runs: offsets, planning, logs, commits; batch reads
``sink``           record batches to SEND frames, the connection for them, the commit
``spark``          what Spark calls, and all code that knows Spark; only it imports pyspark
``commands``       the command ``spark-stomp``: probe, send, peek, tail, unsubscribe, why, status, devbroker
``_autoload``      the package ``pyspark_stomp``, through which Spark finds the source
``__main__``       ``python -m spark_stomp``, the same as the command
==================  ====================================================================================

Each imports only those above it in this table; tests/unit/test_architecture.py checks that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_stomp.spark.datasource import StompDataSource, register
    from spark_stomp.spark.dead_letters import dead_letters
    from spark_stomp.spark.error_texts import reason
    from spark_stomp.spark.rescue import rescue_json

    __version__: str

__all__ = ["StompDataSource", "__version__", "dead_letters", "reason", "register", "rescue_json"]


# Where Spark is needed. On demand: the protocol, the dev broker and the command line work without pyspark.
_OF_SPARK = {
    "StompDataSource": "datasource",
    "dead_letters": "dead_letters",
    "reason": "error_texts",
    "register": "datasource",
    "rescue_json": "rescue",
}


def __getattr__(name: str) -> object:
    if name in _OF_SPARK:
        from importlib import import_module

        return getattr(import_module(f"spark_stomp.spark.{_OF_SPARK[name]}"), name)
    # No process of Spark needs the release, and to find it takes a twentieth of a second.
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("spark-stomp")
        except PackageNotFoundError:  # a source tree on the path, not installed
            return "0+unknown"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
