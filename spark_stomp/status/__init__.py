"""What a query shows of itself, for whoever watches it: :func:`read_status` and :func:`prometheus`.

Each figure is declared once, in ``source`` or in ``sink``: its key, what it means, where it comes from, its
metric, and what the table of ``spark-stomp status`` calls it. Document, table, metrics and docs/status.md
follow from that.
"""

from __future__ import annotations

from spark_stomp.status.reading import prometheus, read_status

__all__ = ["prometheus", "read_status"]
