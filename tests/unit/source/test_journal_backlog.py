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


def test_artemis_ids_lose_the_part_that_names_the_delivery() -> None:
    data = b"MESSAGE\nmessage-id:consumer-7,99\n\nx\0"
    run = replace(batch_of(0, 1), data=data, ends=[len(data)], dialect="artemis")
    assert stable_ids(run, None) == stable_ids(replace(run, data=data.replace(b"-7,", b"-8,")), None)
