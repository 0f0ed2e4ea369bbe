"""The keys of what earlier runs left, found again in their frames."""

from __future__ import annotations

from dataclasses import replace

from support.journals import batch_of

from spark_stomp.source.journal_backlog import stable_ids


def test_the_dialect_knows_the_header() -> None:
    assert stable_ids(batch_of(3, 2), None) == [b"ID:3", b"ID:4"]


def test_the_option_wins() -> None:
    assert stable_ids(batch_of(3, 2), "ack") == [b"3", b"4"]


def test_a_dialect_without_stable_ids_has_none() -> None:
    assert stable_ids(replace(batch_of(3, 2), dialect="rabbitmq"), None) == [None, None]


def test_a_header_that_is_not_there_gives_none() -> None:
    assert stable_ids(batch_of(3, 2), "order-id") == [None, None]
