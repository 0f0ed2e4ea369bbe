"""The README says what the code says."""

from __future__ import annotations

import re

import pytest
from support.readme import README, refreshed

from spark_stomp import errors
from spark_stomp.errors import StompError
from spark_stomp.options import OPTIONS

TEXT = README.read_text(encoding="utf-8")


def test_its_tables_are_fresh() -> None:
    # `python tests/support/readme.py` rewrites them.
    assert refreshed(TEXT) == TEXT


def test_a_missing_table_is_noticed() -> None:
    with pytest.raises(ValueError, match="options"):
        refreshed(TEXT.replace("<!-- options -->", ""))


def test_every_option_in_a_code_block_exists() -> None:
    blocks = "".join(re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
    used = set(re.findall(r"\.option\(\"(\w+)\"", blocks)) - {"path"}  # of parquet
    assert used
    assert used <= {option.key for option in OPTIONS}


def test_every_error_code_exists() -> None:
    classes = [getattr(errors, name) for name in errors.__all__]
    codes = {cls.code for cls in classes if issubclass(cls, StompError)}
    named = set(re.findall(r"STOMP_[A-Z_]+", TEXT))
    assert named
    assert named <= codes
