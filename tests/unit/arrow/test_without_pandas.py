"""A worker that decodes messages does not import pandas: 36 MiB, and 0.3 s before the first row."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

DECODE = """
import sys
from collections import Counter
from spark_stomp.arrow import decode_frames
from spark_stomp.brokers import dialect_named
from spark_stomp.columns import SOURCE_COLUMNS
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.options import parse_source_options
from spark_stomp.source.reads import RowSettings
from support.columns import projection_of

HEADS = (
    b"MESSAGE\\ndestination:/queue/a\\nmessage-id:1\\ntimestamp:5\\nredelivered:false\\ncontent-type:text/plain\\n\\n",
    b"MESSAGE\\nx:\\\\n\\n\\n", b"MESSAGE\\r\\nmessage-id:2\\r\\n\\r\\n", b"MESSAGE\\n\\n",
)
options = parse_source_options({"url": "stomp://a", "destination": "/queue/a"})
for name in ("rabbitmq", "activemq", "artemis", "generic"):
    for as_string in (False, True):
        projection = projection_of(*(column.name for column in SOURCE_COLUMNS), body_as_string=as_string)
        rules = RowSettings.of(options, projection).rules(dialect_named(name), "r")
        for heads in (HEADS[:1] * 5, HEADS):
            frames = [head + b"body\\0" for head in heads]
            ends = [sum(map(len, frames[: n + 1])) for n in range(len(frames))]
            batch = FrameBatch(b"".join(frames), ends, 0, 0, "1.2", name, "r")
            assert decode_frames(batch, projection, rules, Counter()).num_rows == len(frames)
assert "pandas" not in sys.modules
"""


@pytest.mark.skipif(find_spec("pandas") is None, reason="pandas is not installed")
def test_no_pandas_is_imported_for_rows() -> None:
    subprocess.run([sys.executable, "-c", DECODE], timeout=60, check=True)
