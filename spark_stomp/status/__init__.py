"""The status of a query, for people and programs that watch it: :func:`read_status`, :func:`read_statuses`,
:func:`prometheus`.

Each figure is declared in one place, as a method of a part in ``source``, ``receivers``, ``sink`` or ``end``.
The method's name is the key, its docstring is the meaning, and what it returns is the value. Its decorator
(``figure``) says whether it is a metric, whether the totals have its sum, whether it changes with time alone,
and what the table of ``spark-stomp status`` calls it. The document, the file, the totals, the table and the
metrics follow from the declaration, and so do the tables in docs/reference.md and the types in ``document``.

To add a figure, add one method and run ``make docs``. If nothing counts what the figure shows, add a counter
where that happens.
"""

from __future__ import annotations

from spark_stomp.status.document import QueryStatus
from spark_stomp.status.reading import prometheus, read_status, read_statuses

__all__ = ["QueryStatus", "prometheus", "read_status", "read_statuses"]
