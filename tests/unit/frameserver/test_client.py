"""spark_stomp.frameserver.client: a frame batch as a record of one row, and back; the key pair of a run."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from importlib.util import find_spec

import numpy as np
import pytest
from cryptography import x509

from spark_stomp.frame_batch import FrameBatch
from spark_stomp.frameserver.client import from_record, new_key_pair, to_record

BATCH = FrameBatch(b"one\0two\0", [4, 8], 7, 123, "1.2", "artemis", "/queue/ä#0", None)
# Spark's process that receives does not need pandas, and importing it takes 0.3 s and 50 MiB.
WITHOUT_PANDAS = """
import sys
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.frameserver.client import to_record
to_record(FrameBatch(b"one", [3], 0, 0, "1.2"))
sys.exit("pandas" in sys.modules)
"""


@pytest.mark.parametrize(
    "batch",
    [
        BATCH,
        replace(BATCH, malformed="a NUL in a header: ü"),
        replace(BATCH, data=memoryview(b"0123one\0two\0")[4:]),
        replace(BATCH, received_at=np.array([123, 456])),
    ],
    ids=["plain", "malformed", "a view", "with a time for each"],
)
def test_a_batch_comes_back(batch: FrameBatch) -> None:
    record = to_record(batch)
    record.validate(full=True)
    found = from_record(record)
    assert bytes(found.data) == b"one\0two\0"
    assert list(found.ends) == [4, 8]
    assert np.array_equal(found.received_at, batch.received_at)
    rest = {"data": b"", "ends": (), "received_at": 0}
    assert replace(found, **rest) == replace(batch, **rest)


@pytest.mark.skipif(find_spec("pandas") is None, reason="pandas is not installed")
def test_no_pandas_is_imported_for_it() -> None:
    assert subprocess.run([sys.executable, "-c", WITHOUT_PANDAS], timeout=60, check=False).returncode == 0


def test_no_clock_is_so_wrong_that_the_key_pair_of_a_run_is_not_valid() -> None:
    found, now = x509.load_pem_x509_certificate(new_key_pair().certificate), datetime.now(timezone.utc)
    assert found.not_valid_before_utc < now - timedelta(days=20 * 365)
    assert found.not_valid_after_utc > now + timedelta(days=1000 * 365)


def test_a_key_pair_is_not_shown_and_travels_whole() -> None:
    made = new_key_pair()
    assert "BEGIN" not in repr(made)
    assert pickle.loads(pickle.dumps(made)) == made
