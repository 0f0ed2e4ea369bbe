"""The status of a query, for people and programs that watch it: :func:`read_status`, :func:`prometheus`.

Each figure is declared in one place, as a method of a part in ``source`` or ``sink``. Its name is the key,
its docstring the meaning, and what it returns the value. Its decorator (``figure``) says whether it is a
metric, whether the totals have its sum, whether it changes with time alone, and what the table of
``spark-stomp status`` calls it. The document, the file, the totals, the table and the metrics follow from the
declaration, and docs/status.md is generated from it. So to add a figure, add one method and write the page
again (``python tests/support/docs.py``). Only if nothing counts it yet, count it where it happens.
"""

from __future__ import annotations

from spark_stomp.status.reading import prometheus, read_status

__all__ = ["prometheus", "read_status"]
