"""What a query shows of itself: its name."""

from __future__ import annotations

from spark_stomp.locations import without_credentials
from spark_stomp.options import SourceOptions


def query_name(options: SourceOptions) -> str:
    """What to call the query: the last part of its checkpoint's location, else its destinations.

    Spark does not tell a source the name that the user gave the query.
    """
    location = without_credentials(options.checkpoint_location or "").rstrip("/")
    return location.rpartition("/")[2] or ",".join(options.destinations)
