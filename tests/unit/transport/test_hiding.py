"""Secrets in what a broker sent: where they are hidden, and that it takes no longer than the text is long."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_stomp.transport.hiding import without_secrets


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("no s3cret here", "no *** here"),
        ("cut at its end: s3cr", "cut at its end: ***"),
        ("unknown command 's3cr' (STOMP 1.2)", "unknown command '***' (STOMP 1.2)"),
        ("the broker has 1.2, s3c: no", "the broker has 1.2, ***: no"),
        ("a RECEIPT for 'x s3cr...', which", "a RECEIPT for 'x ***...', which"),
        # Two characters, and what merely looks alike in the middle of a text, tell nothing.
        ("version:s3", "version:s3"),
        ("s3cond of s3curity", "s3cond of s3curity"),
        ("", ""),
    ],
)
def test_secrets_are_replaced_also_where_they_are_cut(text: str, sentence: str) -> None:
    assert without_secrets(text, ["s3cret"]) == sentence


@pytest.mark.parametrize("secret", ['ab"cdefgh', 'ab\\cd"ef', "p\u00e4ssw\u00f6rt"])
def test_a_secret_is_hidden_as_it_is_printed(secret: str) -> None:
    """RabbitMQ prints terms of Erlang, with a backslash before a quotation mark; others print JSON."""
    escaped = secret.replace("\\", "\\\\").replace('"', '\\"')
    for printed in (secret, escaped, json.dumps(secret)[1:-1]):
        assert without_secrets(f'<<"{printed}">> is wrong', [secret]) == '<<"***">> is wrong'


def test_without_secrets_a_text_stays_as_it_is() -> None:
    assert without_secrets("'abc'", ["", " "]) == "'abc'"


@pytest.mark.parametrize("secret", ["a", "'", "x1"])
def test_a_short_secret_is_hidden_where_it_stands_alone(secret: str) -> None:
    for around in ("passcode:{}", "wrong: [{}]", '"{}"', "a user with {} and what else"):
        hidden = around.replace("a user", "***") if secret == "a" else around
        sentence = without_secrets(around.format(secret), [secret])
        assert sentence == hidden.format("***").replace("*** with", "*** user with")
    assert without_secrets("bax1b", [secret]) == "bax1b"


def test_two_cuts_in_one_beginning_leave_nothing_of_the_text_out() -> None:
    assert without_secrets("x 'ab'cd' y", ["ab'cdef"]) == "x '***' y"


@given(st.text("ab'", max_size=40), st.text("ab'", min_size=4, max_size=6))
def test_nothing_else_is_hidden_than_secrets_and_their_beginnings_before_cuts(text: str, secret: str) -> None:
    """Compared with the definition, as a loop over all places."""
    hidden = set()
    for begin in range(len(text)):
        for length in range(3, len(secret) + 1):
            end = begin + length
            cut = end == len(text) or text[end : end + 1] == "'"
            if text[begin:end] == secret[:length] and (cut or length == len(secret)):
                hidden |= {*range(begin, end)}
    sentence = without_secrets(text, [secret])
    assert sentence.replace("*", "") == "".join(one for at, one in enumerate(text) if at not in hidden)
    assert ("*" in sentence) == bool(hidden)


@pytest.mark.parametrize(
    ("text", "secret"), [("'", "ab"), ("ab'", "ab"), ("a", "a"), ("a'", "a"), ("ab", "ba"), ("abc: ", "abc")]
)
def test_the_time_is_linear_in_the_text_and_in_the_secret(text: str, secret: str) -> None:
    """Both eight times as long: 64 times the time if one grew with the other."""

    def seconds(size: int) -> float:
        long, hidden = text * size, secret * (size // 2) + "z"
        took = []
        for _ in range(5):
            begun = time.thread_time()
            without_secrets(long, [hidden])
            took.append(time.thread_time() - begun)
        return min(took)

    assert seconds(1600) < 24 * seconds(200)
