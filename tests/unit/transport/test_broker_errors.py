"""What is told of an ERROR frame, and what is not."""

from __future__ import annotations

import pytest

from spark_stomp.transport.broker_errors import without_secrets


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("no s3cret here", "no *** here"),
        ("cut at its end: s3cr", "cut at its end: ***"),
        ("unknown command 's3cr' (STOMP 1.2)", "unknown command '***' (STOMP 1.2)"),
        ("the broker has 1.2, s3c: no", "the broker has 1.2, ***: no"),
        # Two characters, and what merely looks alike in the middle of a text, tell nothing.
        ("version:s3", "version:s3"),
        ("s3cond of s3curity", "s3cond of s3curity"),
        ("", ""),
    ],
)
def test_secrets_are_replaced_also_where_they_are_cut(text: str, told: str) -> None:
    assert without_secrets(text, ["s3cret"]) == told


def test_without_secrets_a_text_stays_as_it_is() -> None:
    assert without_secrets("'abc'", ["", " "]) == "'abc'"
