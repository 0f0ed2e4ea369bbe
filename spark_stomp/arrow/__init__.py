"""Decodes raw MESSAGE frames into Arrow record batches. Needs pyarrow and numpy, not pyspark."""

from __future__ import annotations

from spark_stomp.arrow.columns import OnError
from spark_stomp.arrow.content import Flaw
from spark_stomp.arrow.decode import RowRules, decode_frames
