"""From Spark's mapping of texts to the frozen dataclasses, with every problem reported together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from spark_stomp.errors import OptionError
from spark_stomp.options import definitions as o
from spark_stomp.options.definitions import Scope
from spark_stomp.options.model import ConnectionOptions, SinkOptions, SourceOptions, TlsOptions
from spark_stomp.options.raw_options import RawOptions
from spark_stomp.options.rules import contradictions, notes
from spark_stomp.protocol import Limits

__all__ = ["parse_batch_options", "parse_sink_options", "parse_source_options"]

_DEFAULT_PREFETCH: Final = 10_000
_DEFAULT_TRIGGER_DELAY: Final = 900.0  # seconds; what Spark's Kafka source waits
_DEFAULT_BODY: Final = 128 << 20


def parse_source_options(options: Mapping[str, str]) -> SourceOptions:
    """The options of a stream read.

    Raises:
        OptionError: with all problems: unknown, malformed, missing, contradictory, not available.
    """
    return _source_options(_sound(options, "source"))


def parse_batch_options(options: Mapping[str, str]) -> SourceOptions:
    """The options of a batch read; what only streams have is at its default.

    Raises:
        OptionError: as :func:`parse_source_options`.
    """
    return _source_options(_sound(options, "batch"))


def parse_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """The options of a stream or batch write.

    Raises:
        OptionError: as :func:`parse_source_options`.
    """
    given = _sound(options, "sink")
    return SinkOptions(
        connection=_connection(given),
        destination=given[o.SINK_DESTINATION],
        send_headers=given[o.SEND_HEADERS],
        receipt_window=given[o.RECEIPT_WINDOW],
        receipt_timeout=given[o.RECEIPT_TIMEOUT],
    )


def _sound(options: Mapping[str, str], scope: Scope) -> RawOptions:
    given = RawOptions(options, scope)
    problems = [*given.problems, *contradictions(given)]
    if problems:
        raise OptionError(problems)
    return given


def _source_options(given: RawOptions) -> SourceOptions:
    prefetch = _prefetch(given)
    return SourceOptions(
        connection=_connection(given),
        destinations=given[o.DESTINATIONS],
        receivers=given[o.RECEIVERS],
        receiver_placement="driver",
        prefetch=prefetch,
        selector=given[o.SELECTOR],
        subscribe_headers=given[o.SUBSCRIBE_HEADERS],
        durable_name=given[o.DURABLE_NAME],
        max_messages_per_trigger=given[o.MAX_MESSAGES_PER_TRIGGER],
        min_messages_per_trigger=given[o.MIN_MESSAGES_PER_TRIGGER],
        max_trigger_delay=_trigger_delay(given),
        max_bytes_per_trigger=given[o.MAX_BYTES_PER_TRIGGER],
        idle_timeout=given[o.IDLE_TIMEOUT],
        max_drain_time=given[o.MAX_DRAIN_TIME],
        max_messages=given[o.MAX_MESSAGES],
        ack_after="journal" if given[o.ACK_AFTER] == "journal" else "commit",
        ack_receipt_timeout=given[o.ACK_RECEIPT_TIMEOUT],
        reconnect_timeout=given[o.RECONNECT_TIMEOUT],
        journal=given[o.JOURNAL],
        journal_max_bytes=given[o.JOURNAL_MAX_BYTES],
        checkpoint_location=given[o.CHECKPOINT_LOCATION],
        id_header=given[o.ID_HEADER],
        fail_on_data_loss=given[o.FAIL_ON_DATA_LOSS],
        allow_loss=given[o.ALLOW_LOSS],
        max_buffered_bytes=given[o.MAX_BUFFERED_BYTES],
        body_decode_errors=given[o.BODY_DECODE_ERRORS],
        exchange_host=given[o.EXCHANGE_HOST],
        notes=tuple(notes(given, prefetch)),
    )


def _prefetch(given: RawOptions) -> int:
    """The window of one receiver.

    Two batches fit, one being processed and one arriving. A minimum without a maximum counts like a maximum:
    with a smaller window it could never be met.
    """
    explicit = given[o.PREFETCH]
    if explicit is not None:
        return explicit
    most, least = given[o.MAX_MESSAGES_PER_TRIGGER], given[o.MIN_MESSAGES_PER_TRIGGER]
    if most is not None:
        return 2 * most
    return max(_DEFAULT_PREFETCH, 2 * (least or 0))


def _trigger_delay(given: RawOptions) -> float | None:
    delay = given[o.MAX_TRIGGER_DELAY]
    if delay is None and given[o.MIN_MESSAGES_PER_TRIGGER] is not None:
        return _DEFAULT_TRIGGER_DELAY
    return delay


def _connection(given: RawOptions) -> ConnectionOptions:
    return ConnectionOptions(
        endpoints=given[o.URL],
        login=given[o.LOGIN],
        password=given[o.PASSWORD],
        virtual_host=given[o.VIRTUAL_HOST],
        accept_versions=given[o.ACCEPT_VERSIONS],
        heartbeat=given[o.HEARTBEAT],
        connect_timeout=given[o.CONNECT_TIMEOUT],
        connect_headers=given[o.CONNECT_HEADERS],
        secret_connect_headers=given[o.SECRET_CONNECT_HEADERS],
        client_id=given[o.CLIENT_ID],
        broker=given[o.BROKER],
        tls=TlsOptions(
            ca_file=given[o.TLS_CA_FILE],
            cert_file=given[o.TLS_CERT_FILE],
            key_file=given[o.TLS_KEY_FILE],
            key_password=given[o.TLS_KEY_PASSWORD],
            verify=given[o.TLS_VERIFY],
        ),
        limits=_limits(given),
    )


def _limits(given: RawOptions) -> Limits:
    frame = given[o.MAX_FRAME_BYTES]
    body = given[o.MAX_BODY_BYTES]
    return Limits(
        max_header_line=given[o.MAX_HEADER_LINE_BYTES],
        max_headers=given[o.MAX_HEADERS],
        max_body=min(_DEFAULT_BODY, frame) if body is None else body,
        max_frame=frame,
    )
