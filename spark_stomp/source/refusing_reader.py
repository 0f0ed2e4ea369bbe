"""The stream reader of a query whose options or schema are wrong."""

from __future__ import annotations

from typing import Any, NoReturn, cast

from pyspark.sql.datasource import DataSourceStreamReader

from spark_stomp.errors import StompError
from spark_stomp.plain_errors import plainly


class RefusingStreamReader(DataSourceStreamReader):
    """Answers every question with the error that there is.

    If ``streamReader()`` itself raises, Spark goes on to stop the reader that it did not get, and its error
    about that comes after ours.
    """

    def __init__(self, error: StompError) -> None:
        self._error = error

    @plainly
    def _refuse(self, *asked: Any) -> NoReturn:
        raise self._error

    initialOffset = latestOffset = partitions = read = commit = cast("Any", _refuse)  # noqa: N815 - Spark's
