"""What a task is given travels as it is."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError

import pytest

from spark_stomp.arrow.raw import RowRules


def test_rules_pickle_and_do_not_change() -> None:
    rules = RowRules("message-id", "ms")
    assert rules.body_decode_errors == "error"
    assert pickle.loads(pickle.dumps(rules)) == rules
    with pytest.raises(FrozenInstanceError):
        rules.id_header = None  # type: ignore[misc]
