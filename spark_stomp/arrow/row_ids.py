"""Ids made of what identifies a row, so that a row that is sent again has the same id."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_stomp.arrow.row_problems import RowProblems, as_binary, as_text
from spark_stomp.errors import RowWithoutKey

_DIGEST_BYTES = 16


def row_ids(columns: Sequence[pa.Array], problems: RowProblems) -> pa.Array:
    """A digest per row, in hexadecimal digits.

    It is made of the text of each value after its length, so ``("ab", "c")`` and ``("a", "bc")`` differ; a
    null differs from every text. The text of a number does not depend on its type. This must not
    change: an upgrade would give rows that are sent again other ids. A row whose columns are all null is a
    problem.
    """
    missing = np.logical_and.reduce([column.is_null().to_numpy(zero_copy_only=False) for column in columns])
    problems.add_flagged(missing, "all columns of dedupKey are null, so nothing identifies it", RowWithoutKey)
    keys = pc.binary_join_element_wise(*map(_marked, columns), b"")
    blake = hashlib.blake2b
    return pa.array(
        [blake(key, digest_size=_DIGEST_BYTES).hexdigest() for key in keys.to_pylist()], pa.string()
    )


def _marked(column: pa.Array) -> pa.Array:
    """Each value as ``LENGTH:TEXT``, or ``-`` for a null."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    octets = as_binary(as_text(column))
    lengths = pc.binary_length(octets).cast(pa.string()).cast(pa.binary())
    return pc.binary_join_element_wise(lengths, octets, b":").fill_null(b"-")
