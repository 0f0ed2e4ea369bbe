"""spark_stomp.options: parsing, defaults, contradictions, and that nothing wrong goes unsaid."""

from __future__ import annotations

import ast
import json
import pickle
import re
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_page import option_meanings
from support.options import problems

import spark_stomp
from spark_stomp.errors import OptionError
from spark_stomp.options import (
    OPTIONS,
    ConnectionOptions,
    Endpoint,
    MessageOptions,
    Option,
    ReconnectOptions,
    SinkOptions,
    SourceOptions,
    TlsOptions,
    check_read,
    parse_batch_options,
    parse_sink_options,
    parse_source_options,
)
from spark_stomp.options.fields import Scope
from spark_stomp.options.kinds import HEADERS, SIZE, TIMEOUT, format_duration, format_size
from spark_stomp.options.other_names import REMEDIES, letters, nearest, remedy
from spark_stomp.protocol import Limits

BASE = {"url": "stomp://broker", "destination": "/queue/a"}
SECRET = "hunter2-very-secret"
# What Spark redacts of the options by its default patterns.
REDACTED = re.compile(r"(?i)secret|password|token|access[.]?key|url")

PARSED = (ConnectionOptions, TlsOptions, SourceOptions, SinkOptions, MessageOptions)
LOGIN = {"login": "ada", "password": SECRET}
WINDOW = {"prefetch": "100", "maxMessagesPerTrigger": "400"}
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nabcd\n-----END CERTIFICATE-----\n"
KEY = f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n"
CUT = CERTIFICATE.partition("-----END")[0]

Options = dict[str, str]
Problem = tuple[Callable[..., object], Options, str]


def source(**options: str) -> Any:
    return parse_source_options({**BASE, **options})


def batch(**options: str) -> Any:
    return parse_batch_options({**BASE, **options})


def sink(**options: str) -> Any:
    return parse_sink_options({"url": "stomp://broker", **options})


def tls(**options: str) -> Any:
    return source(url="wss://b", **options).connection.tls


def the_problem(parse: Callable[..., object], **options: str) -> str:
    (problem,) = problems(parse, **options)
    assert SECRET not in problem and "abcd" not in problem
    return problem


def found(parsed: object, path: str) -> object:
    """``connection.tls.verify`` of the options."""
    for name in path.split("."):
        parsed = getattr(parsed, name)
    return parsed


def each(
    key: str, path: str, values: dict[str, object]
) -> list[tuple[Callable[..., object], Options, str, object]]:
    """The field at ``path`` for each text of an option of streams."""
    return [(source, {key: text}, path, value) for text, value in values.items()]


def wrong(parse: Callable[..., object], key: str, words: str, *texts: str) -> list[Problem]:
    """Each of these texts of an option is a problem, told in these words."""
    return [(parse, {key: text}, words) for text in texts]


# The values of options: how they are given, and the field that has them then.
VALUES: list[tuple[Callable[..., object], Options, str, object]] = [
    (source, {}, "destinations", ("/queue/a",)),
    (source, {"destination": "/topic/ä b?x=1"}, "destinations", ("/topic/ä b?x=1",)),
    (source, {"destination": ' ["/queue/b", "/queue/a"]'}, "destinations", ("/queue/b", "/queue/a")),
    (source, {"path": "/queue/a"}, "destinations", ("/queue/a",)),
    (source, {"destination": "/queue/a://b"}, "destinations", ("/queue/a://b",)),
    (sink, {"destination": "[x]"}, "destination", "[x]"),
    (sink, {"path": "/queue/x"}, "destination", "/queue/x"),
    # What Spark adds to the options of a stream write.
    (sink, {"checkpointlocation": "/tmp/c", "queryname": "q"}, "query_name", "q"),
    (source, {"destination": '["/topic/a","/topic/b"]', "durableName": "d"}, "durable_name", "d"),
    # One for each destination, but not too many for a broker that counts them; with a client id, one.
    (source, {}, "connections", 1),
    (source, {"destination": '["a","b","c"]'}, "connections", 3),
    (source, {"destination": json.dumps([f"/queue/{n}" for n in range(500)])}, "connections", 4),
    (source, {"destination": '["a","b","c"]', "clientId": "me"}, "connections", 1),
    (source, {"destination": '["a","b","c"]', "clientId": "me", "connections": "2"}, "connections", 2),
    (source, {"connections": "9"}, "connections", 9),
    (source, {"clientId": "me"}, "connection.client_id", "me"),
    # The source has it, and some brokers allow one connection with it.
    (sink, {"clientId": "me"}, "connection.client_id", None),
    (source, {}, "prefetch", 40_000),
    (source, {"maxMessagesPerTrigger": "300"}, "prefetch", 600),
    (source, {"maxMessagesPerTrigger": "300", "minMessagesPerTrigger": "200"}, "prefetch", 600),
    (source, {"minMessagesPerTrigger": "200"}, "prefetch", 40_000),
    (source, {"minMessagesPerTrigger": "30000"}, "prefetch", 60_000),
    (source, {"maxMessagesPerTrigger": "300", "prefetch": "7"}, "prefetch", 7),
    # A minimum is never waited for without a bound.
    (source, {"minMessagesPerTrigger": "5"}, "max_trigger_delay", 900.0),
    (source, {"minMessagesPerTrigger": "5", "maxTriggerDelay": "3s"}, "max_trigger_delay", 3.0),
    (source, {"minMessagesPerTrigger": "9", "maxMessagesPerTrigger": "9"}, "min_messages_per_trigger", 9),
    (source, {"maxDrainTime": "1s", "idleTimeout": "1s"}, "max_drain_time", 1.0),
    (source, {"drain": "true", "journal": "/j", "ackAfter": "journal"}, "drain", True),
    (batch, {}, "capped", False),
    (batch, {"maxMessages": "1000"}, "capped", True),
    (batch, {"maxMessages": "20"}, "max_messages", 20),
    *each("connectTimeout", "connection.connect_timeout", {"500ms": 0.5, "2 min": 120.0, "1.5S": 1.5}),
    *each("connectTimeout", "connection.connect_timeout", {"1 second": 1.0, "1 week": 604800.0}),
    *each("connectTimeout", "connection.connect_timeout", {"INTERVAL 1 minute 30 seconds": 90.0}),
    *each("heartbeat", "connection.heartbeat", {"0": (0, 0), "5s": (5000, 5000), "0,10s": (0, 10_000)}),
    *each("maxBufferedBytes", "max_buffered_bytes", {"1": 1, "10M": 10 << 20, "1gb": 1 << 30, "2 KiB": 2048}),
    *each("allowLoss", "allow_loss", {"true": True, "False": False, " TRUE ": True}),
    (source, {"broker": "RabbitMQ"}, "connection.broker", "rabbitmq"),
    (source, {"acceptVersions": "1.1, lenient"}, "connection.accept_versions", ("1.1", "lenient")),
    (source, {}, "connection.limits", Limits()),
    (source, {"maxFrameBytes": "1m"}, "connection.limits.max_body", 1 << 20),
    (source, {"maxFrameBytes": "1m", "maxBodyBytes": "64k"}, "connection.limits.max_body", 1 << 16),
    (source, {"maxHeaderLineBytes": "1k"}, "connection.limits.max_header_line", 1024),
    (source, {"maxHeaders": "5"}, "connection.limits.max_headers", 5),
    *[
        (one, {"managementUrl": " https://b:15671/x/ "}, "connection.management_url", "https://b:15671/x")
        for one in (source, sink)
    ],
    (source, {"failOnMissingQueue": "true"}, "fail_on_missing_queue", True),
    (sink, {"priority": "9"}, "message.priority", 9),
    (sink, {"login": "ada", "passwordFile": "/run/p"}, "connection.password_file", "/run/p"),
    (source, {}, "reconnect", ReconnectOptions(timeout=300.0, first_delay=0.25, longest_delay=30.0)),
    (sink, {"reconnectDelay": "16s", "reconnectDelayMax": "16s"}, "reconnect.first_delay", 16.0),
    *[(tls, {"tlsServerName": name}, "server_name", name) for name in ("b.example.com", "b", "bücher.com")],
    (sink, {"ttl": "1500ms"}, "message.ttl", 1.5),
    (sink, {"headerColumns": '["a", "b"]'}, "message.header_columns", ("a", "b")),
    (sink, {"dedupKey": "id"}, "message.dedup_key", ("id",)),
    # From secret scopes of notebooks: text in place of files, and both together.
    (tls, {"tlsCaFile": CERTIFICATE}, "ca_file", CERTIFICATE),
    (tls, {"tlsCertFile": CERTIFICATE, "tlsKeySecret": KEY}, "key_secret", KEY),
    (tls, {"tlsCertFile": CERTIFICATE, "tlsKeyFile": "k.pem"}, "cert_file", CERTIFICATE),
    (tls, {"tlsCertFile": "c.pem", "tlsKeySecret": KEY}, "cert_file", "c.pem"),
]


@pytest.mark.parametrize(("parse", "options", "path", "value"), VALUES)
def test_value(parse: Callable[..., object], options: Options, path: str, value: object) -> None:
    assert found(parse(**options), path) == value


def test_headers_keep_their_spelling_and_order() -> None:
    text = '{"b": "x", "a": 1.50, "n": 7e1, "t": true}'
    expected = (("b", "x"), ("a", "1.50"), ("n", "7e1"), ("t", "true"))
    assert source(subscribeHeaders=text).subscribe_headers == expected
    assert sink(sendHeaders=text).send_headers == expected


def test_a_text_may_begin_with_a_byte_order_mark_as_files_do() -> None:
    marked = source(destination='\ufeff["/queue/a", "/queue/b"]', subscribeHeaders='\ufeff{"a": "1"}')
    assert marked.destinations == ("/queue/a", "/queue/b")
    assert marked.subscribe_headers == (("a", "1"),)
    assert source(destination="\ufeff/queue/a").destinations == ("/queue/a",)


ONE_PROBLEM: list[Problem] = [
    *wrong(source, "connectTimeout", "10s", "10", "10 apples", "", "s", "-1s", "1,5s", "inf", "٣s", "1s1s"),
    (source, {"idleTimeout": "0"}, "more than 0"),
    *wrong(source, "heartbeat", "^heartbeat = ", "10,10", "1s,2s,3s", ",", ""),
    *wrong(source, "maxBufferedBytes", "is not a size", "", "k", "1.5m", "-1", "1x", "1kk", "1?2"),
    (source, {"maxBytesPerTrigger": "0k"}, "more than 0"),
    *[(source, {"allowLoss": text}, f"^allowLoss = '{text}' must be true or false$") for text in ("yes", "")],
    *wrong(source, "prefetch", "whole number", "x", "1.0", "", "1e3"),
    (source, {"prefetch": "0"}, "at least 1"),
    (source, {"frameServerPort": "65536"}, "at most 65535"),
    (source, {"broker": "kafka"}, "activemq"),
    (source, {"acceptVersions": "1.3"}, "1.2"),
    (source, {"acceptVersions": "1.2,1.2"}, "more than once"),
    (tls, {"tlsMinVersion": "1.1"}, "must be one of 1.2, 1.3"),
    *wrong(source, "idHeader", "^idHeader = ", "", "  ", "a\nb", "a\x00b"),
    *wrong(
        source, "destination", "^destination = ", "[]", '[""]', "[1]", '["a"', '["a", ["b"]]', '["a","a"]'
    ),
    *wrong(source, "destination", "^destination = ", '["a\\nb"]', ""),
    (source, {"path": "/queue/b"}, "'/queue/b' and destination = '/queue/a' contradict"),
    *[(one, {"destination": f"stomp://me:{SECRET}@b/q"}, "is an address") for one in (source, batch, sink)],
    *wrong(
        source, "subscribeHeaders", "^subscribeHeaders ", "x", "[]", '"a"', "{", '{"": "a"}', '{"a": null}'
    ),
    *wrong(source, "subscribeHeaders", "^subscribeHeaders ", '{"a": {}}', '{"a\\nb": "c"}'),
    (source, {"subscribeHeaders": '{"a":1,"a":2}'}, "more than once"),
    (source, {"subscribeHeaders": '{"a":}'}, "character 6"),
    (source, {"connectHeaders": '{"Host": "x"}'}, "Host: use the option virtualHost"),
    (source, {"connectHeaders": '{"passcode": "x"}'}, "passcode: use the option password"),
    (source, {"connectHeaders": '{"client-id": "x"}'}, "client-id: use the option clientId"),
    (source, {"connectHeaders": '{"content-length": "1"}'}, "content-length: the connector sets it"),
    (source, {"secretConnectHeaders": '{"login": "x"}'}, "login: use the option login"),
    (source, {"subscribeHeaders": '{"selector": "x"}'}, "selector: use the option selector"),
    *[
        (source, {"subscribeHeaders": f'{{"{header}": "x"}}'}, f"{header}: the connector sets it")
        for header in ("ack", "transaction", "id", "receipt", "Message-Id", "subscription", "browser")
    ],
    (source, {"subscribeHeaders": '{"destination": "x"}'}, "destination: use the option destination"),
    *[
        (parse, {"subscribeHeaders": f'{{"{header}": "5"}}'}, f"{header}: use the option prefetch")
        for parse in (source, batch)
        for header in ("prefetch-count", "activemq.prefetchSize", "consumer-window-size", "Prefetch-Count")
    ],
    (source, {"subscribeHeaders": '{"subscription-type": "x"}'}, "use the option destinationType"),
    *wrong(source, "managementUrl", "must be like http://", "b:15672", "ftp://b", "http://", "http://b:0"),
    *wrong(source, "managementUrl", "must be like http://", f"http://me:{SECRET}@b", f"http://b?x={SECRET}"),
    (tls, {"managementUrl": "http://b:15672"}, "would send the login as plain text, which url encrypts"),
    (source, {"destinationType": "stream"}, "must be one of queue, topic"),
    (sink, {"persistent": "yes"}, "must be one of true, false, unset"),
    (sink, {"sendHeaders": '{"destination": "x"}'}, "destination: use the option destination"),
    *[
        (sink, {"sendHeaders": f'{{"{header}": "x"}}'}, f"{header}: the connector sets it")
        for header in ("receipt", "transaction", "content-length")
    ],
    (source, {"connectHeaders": '{"a": "1"}', "secretConnectHeaders": '{"a": "2"}'}, "both"),
    (source, {"minMessagesPerTrigger": "10", "maxMessagesPerTrigger": "9"}, r"\(10\) is more than .*\(9\)"),
    (source, {"maxTriggerDelay": "5s"}, "without minMessagesPerTrigger"),
    (source, {"maxDrainTime": "1s"}, r"\(1s\)"),
    (source, {"drain": "true"}, "journal and ackAfter = journal"),
    (source, {"drain": "true", "journal": "/j"}, "journal and ackAfter = journal"),
    (source, {"ackAfter": "journal"}, "needs journal"),
    (source, {"journalMaxBytes": "1g"}, "without journal"),
    (sink, {"password": "x"}, "^password is given without login$"),
    (batch, {"passwordFile": "/p"}, "^passwordFile is given without login$"),
    *[
        (parse, {"login": "ada", "password": SECRET, "passwordFile": "/p"}, "^password and passwordFile are")
        for parse in (source, batch, sink)
    ],
    (sink, {"reconnectDelay": "1m"}, r"^reconnectDelay \(60s\) is more than reconnectDelayMax \(30s\)"),
    (source, {"reconnectDelayMax": "100ms"}, r"^reconnectDelay \(250ms\) is more than .* \(100ms\)"),
    (batch, {"reconnectDelay": "1s"}, "^reconnectDelay is an option of stream reads .* and writes, not of"),
    *wrong(tls, "tlsServerName", "^tlsServerName = .* must be a host name", "b:1", "stomp://b", "b/c", ".b"),
    *wrong(
        tls,
        "tlsServerName",
        "^tlsServerName = .* must be a host name",
        "b..c",
        "127.0.0.1",
        "::1",
        "b c",
        "*.b",
    ),
    (source, {"maxBodyBytes": "300m"}, "raise maxFrameBytes"),
    *[
        (source, {key: value}, f"^{key} needs an encrypted url")
        for key, value in {"tlsCaFile": "x.pem", "tlsVerify": "false", "tlsMinVersion": "1.3"}.items()
    ],
    (tls, {"tlsKeyFile": "k.pem"}, "without tlsCertFile"),
    (tls, {"tlsKeySecret": KEY}, "without tlsCertFile"),
    (tls, {"tlsCaFile": "x", "tlsVerify": "false"}, "tlsVerify"),
    # A key is refused where Spark would show it, and not repeated.
    (tls, {"tlsCaFile": CERTIFICATE + KEY}, "^tlsCaFile .*tlsKeySecret"),
    (tls, {"tlsCertFile": CERTIFICATE + KEY}, "^tlsCertFile .*tlsKeySecret"),
    (tls, {"tlsCertFile": "c.pem", "tlsKeyFile": KEY}, "^tlsKeyFile .*tlsKeySecret"),
    (tls, {"login": KEY}, "^login "),
    (tls, {"tlsCertFile": "c.pem", "tlsKeySecret": f"/keys/{SECRET}"}, "tlsKeyFile"),
    (tls, {"tlsCertFile": "c.pem", "tlsKeyFile": "k.pem", "tlsKeySecret": KEY}, "only one of them$"),
    (tls, {"tlsCertFile": CERTIFICATE}, "tlsKeySecret"),
    *[(tls, {"tlsCaFile": CUT + end}, "PEM") for end in ("", "-----END CERTIFICATE----- ü")],
    (tls, {"tlsCertFile": "c.pem", "tlsKeySecret": CUT}, "PEM"),
    (sink, {"priority": "10"}, "must be at most 9"),
    (sink, {"priority": "-1"}, "must be at least 0"),
    (sink, {"ttl": "0s"}, "must be more than 0"),
    (sink, {"messageType": "json"}, "must be one of auto, bytes, text"),
    (sink, {"onError": "deadletter"}, "onError = deadletter needs deadLetterDestination"),
    (sink, {"deadLetterDestination": "/queue/d"}, "deadLetterDestination is given without onError"),
    (sink, {"dedupHeader": "id"}, "dedupHeader is given without dedupKey"),
    (sink, {"headerColumns": "receipt"}, "headerColumns must not contain the header receipt"),
    (sink, {"dedupKey": "a", "dedupHeader": "Destination"}, "dedupHeader must not contain .* Destination"),
    # Options of another place say where they belong.
    (source, {"queryname": "q"}, "^queryName is an option of writes"),
    (source, {"maxMessages": "5"}, "batch reads"),
    (batch, {"prefetch": "5"}, "stream reads"),
    (batch, {"receiptWindow": "5"}, "writes"),
    (sink, {"selector": "a = 1"}, r"stream reads \(readStream\) and batch reads \(read\)"),
    # A malformed value draws no contradiction after it.
    (source, {"minMessagesPerTrigger": "x", "maxTriggerDelay": "2s"}, "^minMessages"),
    (source, {"url": "stomp:/x", "tlsCaFile": "ca.pem"}, "^url"),
]


@pytest.mark.parametrize(("parse", "options", "words"), ONE_PROBLEM)
def test_one_problem(parse: Callable[..., object], options: Options, words: str) -> None:
    assert re.search(words, the_problem(parse, **options))


def test_nul_in_a_header_value() -> None:
    with pytest.raises(ValueError, match="NUL"):
        HEADERS.parse('{"a": "x\\u0000"}')


def test_all_problems_are_reported_together() -> None:
    wrong = {"connections": "0", "idleTimeout": "2", "nonsense": "1", "password": "x"}
    assert len(problems(source, **wrong)) == 4
    with pytest.raises(OptionError) as caught:
        source(connections="0", nonsense="1")
    assert "\n  - connections = '0' must be at least 1\n  - nonsense is not an option" in str(caught.value)


@given(st.integers(min_value=1, max_value=10**9))
def test_a_formatted_duration_is_parsed_back(milliseconds: int) -> None:
    assert TIMEOUT.parse(format_duration(milliseconds / 1000)) == pytest.approx(milliseconds / 1000)


@given(st.integers(min_value=1, max_value=1 << 50))
def test_a_formatted_size_is_parsed_back(size: int) -> None:
    assert SIZE.parse(format_size(size)) == size


class TestRequired:
    @pytest.mark.parametrize("parse", [parse_source_options, parse_batch_options])
    def test_reads_need_url_and_destination(self, parse: Callable[..., object]) -> None:
        url, destination, table = problems(lambda: parse({}))
        assert url.startswith('url is required: give the address of the broker, as in .option("url", "stomp:')
        assert destination == 'destination is required: say what to read, as in .load("/queue/orders")'
        assert "CREATE TEMPORARY VIEW" in table

    def test_writes_need_url_only(self) -> None:
        assert [text.split()[0] for text in problems(lambda: parse_sink_options({}))] == ["url", "a"]
        (problem,) = problems(lambda: parse_sink_options({"destination": "/queue/a"}))
        assert problem.startswith("url is")


class TestKeys:
    @pytest.mark.parametrize("change", [str.lower, str.upper])
    def test_case_does_not_matter(self, change: Callable[[str], str]) -> None:
        options = {**BASE, "maxMessagesPerTrigger": "5", "bodyDecodeErrors": "null"}
        parsed = parse_source_options({change(key): value for key, value in options.items()})
        assert (parsed.max_messages_per_trigger, parsed.body_decode_errors) == (5, "null")

    def test_load_of_several_paths(self) -> None:
        parsed = parse_batch_options({"url": "stomp://b", "paths": '["/queue/x","/queue/y"]'})
        assert parsed.destinations == ("/queue/x", "/queue/y")

    @pytest.mark.parametrize("unknown", ["zzzz", "interval_of_mine", "max", "bytes", "idle", "sender"])
    def test_unknown_without_anything_near(self, unknown: str) -> None:
        assert the_problem(source, **{unknown: "1"}) == f"{unknown} is not an option"

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("maxMesagesPerTrigger", "did you mean maxMessagesPerTrigger?"),
            ("virtual_host", "did you mean virtualHost?"),
            ("heart-beat", "did you mean heartbeat?"),
            ("stomp.destinatoin", "did you mean destination?"),
            ("passcode", "use password"),
            ("username", "use login"),
            ("host", "part of url"),
            ("brokerURL", "use url"),
            ("queue", "use destination"),
            ("startingTimestamp", "use startingOffsets, for a stream of RabbitMQ"),
            ("maxOffsetsPerTrigger", "use maxMessagesPerTrigger"),
            ("prefetchCount", "use prefetch"),
            ("kafka.bootstrap.servers", "use url"),
            ("kafka.group.id", "no consumer groups"),
            ("persistent", "writes, not of stream reads (readStream): the sender decides"),
            ("concurrentConsumers", "use connections"),
            ("minPartitions", "Use connections"),
        ],
    )
    def test_other_names_lead_somewhere(self, name: str, words: str) -> None:
        assert words in the_problem(source, **{name: SECRET})

    def test_a_misspelled_option_of_another_kind(self) -> None:
        """As of ``spark-stomp probe URL -o prefech=3``, without a destination."""
        (problem,) = problems(lambda: parse_sink_options({"url": "stomp://b", "prefech": "3"}))
        assert problem == "prefech is not an option; did you mean prefetch, of stream reads (readStream)?"

    @pytest.mark.parametrize("scope", ["source", "batch", "sink"])
    def test_remedies_name_options_that_are_there(self, scope: Scope) -> None:
        own = {option.key for option in OPTIONS if scope in option.scopes}
        # A batch read is told of options of streams, and then that they are.
        known = {option.key for option in OPTIONS if scope in option.scopes or scope == "batch"}
        for name, text in REMEDIES[scope].items():
            named = re.findall(r"\buse (\w+)\b(?! column)|\bsee (\w+)", text)
            keys = {key for pair in named for key in pair if key and re.search("[A-Z]", key)}
            assert keys <= known, (name, text)
            assert name not in {letters(key) for key in own}, f"{name} is an option itself"

    @pytest.mark.parametrize("scope", ["source", "batch", "sink"])
    def test_every_misspelled_key_is_recognised(self, scope: Scope) -> None:
        known = [option.key for option in OPTIONS if scope in option.scopes]
        for key in known:
            for wrong in (key[:-1], key[1:], f"{key}s", key.replace("e", "a", 1), key.replace("M", "_m")):
                if len(key) > 5 and remedy(wrong, scope) is None:
                    assert nearest(wrong, known) is not None, wrong


def at_load(**options: str) -> tuple[str, ...]:
    try:
        check_read(options)
    except OptionError as error:
        return error.problems
    return ()


class TestAtLoad:
    """Spark does not say at ``load()`` whether it is a stream; what neither kind of read takes is refused."""

    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"prefetch": "5"},
            {"maxMessages": "5"},
            {"journal": "/j", "ackAfter": "journal", "drain": "true"},
            # INSERT INTO a temporary view writes with the options that Spark asked the schema with.
            {"receiptWindow": "5"},
        ],
    )
    def test_what_one_of_them_takes_is_fine(self, options: Options) -> None:
        assert at_load(**BASE, **options) == ()

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"selector": ""}, "selector = '' must not be empty"),
            ({"prefetch": "x"}, "prefetch = 'x' must be a whole number"),
            ({"maxMessages": "x"}, "maxMessages = 'x' must be a whole number"),
            ({"drain": "true"}, "drain = true needs journal"),
            (
                {"limit": "5"},
                "limit is not an option: use maxMessagesPerTrigger, or maxMessages in a batch read",
            ),
            ({"maxMesagesPerTrigger": "5"}, "did you mean maxMessagesPerTrigger?"),
            ({"maxMessages": "5", "maxMesages": "5"}, "did you mean maxMessages?"),
            ({"prefetch": "5", "maxMessages": "5"}, "maxMessages is an option of batch reads (read), not of"),
            ({"receiptWindow": "x"}, "receiptWindow is an option of writes"),
        ],
    )
    def test_the_options_tell_which_read_is_meant(self, options: Options, words: str) -> None:
        (problem,) = at_load(**BASE, **options)
        assert words in problem

    def test_what_is_missing(self) -> None:
        assert at_load(url="stomp://b")[0].startswith("destination is required")
        assert at_load(url="stomp://b", receiptWindow="5") != ()

    def test_a_table_with_options_is_refused_when_it_is_made(self) -> None:
        table = problems(lambda: parse_source_options({}))[-1]
        assert "FROM name WITH" in table
        given = {"url": "stomp://b", "option.url": "stomp://b", "provider": "stomp", "owner": "me"}
        assert at_load(**given) == (table,)
        assert at_load(provider="stomp", owner="me") == ()


class TestSecrets:
    @pytest.mark.parametrize(
        "options",
        [
            {"password": SECRET + "\x00", "login": "me"},
            {"secretConnectHeaders": f'{{"authorization": "{SECRET}"'},
            {"connectHeaders": f'["{SECRET}"]'},
            {"tlsKeyPassword": SECRET, "url": "stomp+ssl://b"},
            {"url": f"stomp://me:{SECRET}@broker"},
            {"url": f"stomp://good,stomp://me:{SECRET}@broker:port"},
            {"url": f"me:{SECRET}@broker"},
            {"url": f"stomp://good,me:{SECRET}@broker"},
            {"url": f"tcp://me:{SECRET},{SECRET}@broker"},
            {"url": f"stomp://me:?{SECRET}/@{SECRET}@broker"},
            {"url": f"stomp://me:{SECRET}\N{ACCOUNT OF}@broker"},
            {"url": f"stomp://broker:1/?passcode={SECRET}"},
            {"url": f"stomp://broker:1/?passcode=x@{SECRET}"},
            {"url": f"broker?passcode={SECRET}"},
            {"url": f"ws://broker/ws#{SECRET}"},
            {"url": f"failover:(tcp://me:{SECRET}@a,tcp://me:{SECRET}@b)?passcode={SECRET}"},
            {"connections": f"stomp://me:{SECRET}@broker"},
            {"path": f"stomp://me:{SECRET}@broker"},
            {"destination": f'["stomp://me:{SECRET}@broker", "stomp://me:{SECRET}@broker"]'},
            {"paths": f"stomp://broker?passcode={SECRET}"},
        ],
    )
    def test_are_in_no_error(self, options: Options) -> None:
        the_problem(source, **options)

    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("me:pw@broker:61613", "'***@broker:61613'"),
            ("stomp://me:p,w@a:1, stomp://b", "'stomp://***@a:1, stomp://b'"),
            ("stomp://a/x?passcode=pw", "'stomp://a/x?***'"),
            ("stomp://me:pw@a/x?passcode=pw", "'stomp://***@a/x?***'"),
            ("stomp://a?passcode=p@w", "'stomp://***'"),
        ],
    )
    def test_the_rest_of_an_address_is_shown(self, url: str, shown: str) -> None:
        assert the_problem(source, url=url).startswith(f"url = {shown} ")

    def test_the_query_of_a_websocket_is_in_no_repr_error_or_note(self) -> None:
        url = f"ws://a/ws?token={SECRET}"
        parsed = source(url=url, login="u", password="p")
        assert parsed.connection.endpoints[0].uri == f"ws://a:15674/ws?token={SECRET}"
        assert parsed.notes and SECRET not in f"{parsed!r} {parsed.notes}"
        assert "ws://a:15674/ws?***" in the_problem(source, url=f"{url},wss://b", login="u", password="p")

    def test_are_in_no_repr(self) -> None:
        options = source(
            url="stomp+ssl://b",
            login="me",
            password=SECRET,
            tlsCertFile="c.pem",
            tlsKeySecret=KEY,
            tlsKeyPassword=SECRET,
            secretConnectHeaders=f'{{"a": "{SECRET}"}}',
            journal=f"s3://key:{SECRET}@bucket/journal",
            checkpointLocation=f"s3://key:{SECRET}@bucket/checkpoint",
        )
        assert options.connection.password == options.connection.tls.key_password == SECRET
        assert options.connection.secret_connect_headers == (("a", SECRET),)
        assert SECRET not in repr(options)

    def test_are_not_told_to_the_status(self) -> None:
        given = {
            "url": "wss://b/ws?x=1",
            "login": "me@corp",
            "passwordFile": "/run/p",
            "tlsCaFile": CERTIFICATE,
            "tlsCertFile": "/c.pem",
            "tlsKeySecret": KEY,
            "secretConnectHeaders": f'{{"a": "{SECRET}"}}',
            "connectHeaders": '{"b": "c"}',
            "journal": f"s3://key:{SECRET}@bucket/journal",
            "checkpointLocation": "/data/checkpoint",
            "prefetch": "7",
        }
        given_texts = dict(source(**given).given_texts)
        assert given_texts == dict.fromkeys(given) | {
            "destination": "/queue/a",
            **{key: given[key] for key in ("login", "passwordFile", "tlsCertFile", "prefetch")},
            "checkpointLocation": "/data/checkpoint",
        }
        assert dict(source(login="me", passwordFile="run/p").given_texts)["passwordFile"] is None
        assert dict(sink(url="stomp://b", tTl="5s").given_texts) == {"url": "stomp://b", "ttl": "5s"}

    def test_their_keys_are_such_as_spark_redacts(self) -> None:
        secret = {option.key for option in OPTIONS if option.secret}
        assert secret >= {"password", "tlsKeyPassword", "tlsKeySecret", "secretConnectHeaders"}
        assert [key for key in secret | {"url"} if not REDACTED.search(key)] == []


class TestEndpoints:
    @pytest.mark.parametrize(
        ("url", "endpoint", "text"),
        [
            ("stomp://h", Endpoint("stomp", "h", 61613), "stomp://h:61613"),
            ("stomp://h:1/", Endpoint("stomp", "h", 1), "stomp://h:1"),
            ("stomp+ssl://h", Endpoint("stomp+ssl", "h", 61614), "stomp+ssl://h:61614"),
            ("STOMP://[::1]:61613", Endpoint("stomp", "::1", 61613), "stomp://[::1]:61613"),
            ("stomp+ssl://[fd00::2]", Endpoint("stomp+ssl", "fd00::2", 61614), "stomp+ssl://[fd00::2]:61614"),
            ("ws://[::1]", Endpoint("ws", "::1", 15674, "/ws"), "ws://[::1]:15674/ws"),
            ("ws://h", Endpoint("ws", "h", 15674, "/ws"), "ws://h:15674/ws"),
            ("ws://h:80/", Endpoint("ws", "h", 80, "/"), "ws://h:80/"),
            ("ws://h/a@b", Endpoint("ws", "h", 15674, "/a@b"), "ws://h:15674/a@b"),
            ("wss://h:443/stomp?x=1", Endpoint("wss", "h", 443, "/stomp?x=1"), "wss://h:443/stomp?***"),
        ],
    )
    def test_one(self, url: str, endpoint: Endpoint, text: str) -> None:
        (parsed,) = source(url=url).connection.endpoints
        assert (parsed, str(parsed)) == (endpoint, text)

    def test_several(self) -> None:
        endpoints = source(url="stomp://a, stomp+ssl://b:9,ws://c").connection.endpoints
        assert [*map(str, endpoints)] == ["stomp://a:61613", "stomp+ssl://b:9", "ws://c:15674/ws"]
        assert [(e.tls, e.websocket) for e in endpoints] == [(False, False), (True, False), (False, True)]

    @pytest.mark.parametrize(
        ("url", "reason"),
        [
            *[
                (url, "must begin with stomp://")
                for url in ("", "broker:1", "tcp://h:1", "stomp:h:1", "stomp://h,")
            ],
            ("stomp://", "no host name"),
            ("stomp://:61613", "no host name"),
            *[
                (url, "IPv6 address without brackets; write it as stomp://[::1]:61613")
                for url in ("stomp://::1", "stomp://fd00::2:61613", "wss://fd00::2/ws")
            ],
            ("stomp://h:0", "port"),
            ("stomp://h:65536", "port"),
            ("stomp://h:stomp", "port"),
            ("stomp://h/queue/a", "destination goes into load"),
            ("ws://h/ws#x", "fragment"),
            ("stomp://a,stomp://a:61613", "more than once"),
            ("failover:(tcp://a,tcp://b)", "comma list"),
            *[
                (f"{url}@h/ws", "use the options login and")
                for url in ("stomp://me", "me:pw", "stomp://me:p/w", "wss://me:pw")
            ],
            ("stomp://[h", "not a URL"),
        ],
    )
    def test_refused(self, url: str, reason: str) -> None:
        assert reason in the_problem(source, url=url)


class TestMixedSchemes:
    """Whoever makes the encrypted address fail would be sent the secrets in clear by the other one."""

    MIXED = ("stomp+ssl://a,stomp://b", "stomp://a,stomp+ssl://b", "wss://a,ws://b", "stomp+ssl://a,ws://b")

    @pytest.mark.parametrize("url", MIXED)
    @pytest.mark.parametrize("parse", [source, batch, sink])
    def test_are_refused_with_a_login(self, parse: Callable[..., object], url: str) -> None:
        text = the_problem(parse, url=url, login="ada", password=SECRET)
        assert "login, password" in text and "without encryption" in text

    @pytest.mark.parametrize(
        "credentials",
        [
            {"login": "ada"},
            {"passwordFile": "/p", "login": "ada"},
            {"tlsCertFile": "c.pem"},
            {"secretConnectHeaders": '{"token": "x"}'},
        ],
    )
    def test_and_with_any_credentials(self, credentials: Options) -> None:
        assert next(iter(credentials)) in the_problem(source, url=self.MIXED[0], **credentials)

    def test_the_addresses_without_encryption_are_named(self) -> None:
        text = the_problem(source, url="wss://a,ws://b:1,stomp://c", login="ada")
        assert "ws://b:1/ws, stomp://c:61613" in text and "wss://a" not in text

    def test_are_fine_without_credentials_and_all_alike_with_them(self) -> None:
        source(url=self.MIXED[0], tlsCaFile="ca.pem")
        source(url="stomp+ssl://a,wss://b", login="ada", password=SECRET)
        source(url="stomp://a,ws://b", login="ada", password=SECRET)


class TestNotes:
    """Said once a query: as a note of a read, and when a write begins."""

    @pytest.mark.parametrize(
        "options",
        [
            {},
            # The windows of all connections count.
            {**WINDOW, "connections": "4"},
            {**WINDOW, "destination": '["a","b","c","d"]'},
            *[
                {**LOGIN, "url": f"stomp://{host}"}
                for host in ("localhost", "LOCALHOST", "127.0.0.1", "127.8.0.1", "[::1]")
            ],
            {**LOGIN, "url": "stomp+ssl://broker"},
            {"destination": "/queue/a,b"},
            {"destination": '["/queue/a", "/queue/b"]'},
        ],
    )
    def test_none(self, options: Options) -> None:
        assert source(**options).notes == ()

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (WINDOW, r"maxMessagesPerTrigger \(400\) .*at most 100 un-acked messages"),
            ({**WINDOW, "connections": "2"}, "at most 200 un-acked messages"),
            ({**WINDOW, "destination": '["a","b"]'}, "at most 200 un-acked messages"),
            ({**WINDOW, "destination": '["a","b"]', "clientId": "me"}, "at most 100 un-acked messages"),
            ({"url": "wss://b", "tlsVerify": "false"}, "anyone"),
            (
                {**LOGIN, "url": "stomp://127.0.0.1,stomp://b:1"},
                r"^login, password and all messages go to stomp://b:1 as plain text",
            ),
            ({"secretConnectHeaders": '{"token": "x"}'}, "^secretConnectHeaders and all messages"),
            ({"login": "ada", "passwordFile": "/p"}, "^login, passwordFile and all messages"),
            (
                {"destination": "/queue/a, /queue/b"},
                r'^only ActiveMQ takes /queue/a, /queue/b .* \["/queue/a", "/queue/b"\]$',
            ),
        ],
    )
    def test_one(self, options: Options, words: str) -> None:
        (note,) = source(**options).notes
        assert re.search(words, note) and SECRET not in note

    @pytest.mark.parametrize("url", ["stomp://broker", "ws://10.0.0.1", "stomp://127.0.0.1,stomp://broker"])
    @pytest.mark.parametrize("parse", [source, batch, sink])
    def test_a_login_in_clear(self, parse: Callable[..., Any], url: str) -> None:
        (note,) = parse(url=url, **LOGIN).notes
        assert "plain text" in note and "stomp+ssl://" in note and SECRET not in note


class TestDeclarations:
    @pytest.mark.parametrize("cls", PARSED)
    def test_no_field_has_its_own_default(self, cls: type[Any]) -> None:
        for field in fields(cls):
            assert field.default is field.default_factory is MISSING
        with pytest.raises(TypeError):
            cls()

    def test_results_can_be_pickled(self) -> None:
        for options in (source(), batch(), sink()):
            assert pickle.loads(pickle.dumps(options)) == options

    def test_one_declaration_for_a_key_in_a_scope(self) -> None:
        places = [(option.key.lower(), scope) for option in OPTIONS for scope in option.scopes]
        assert len(places) == len(set(places))

    @pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.key)
    def test_complete(self, option: Option) -> None:
        assert re.fullmatch(r"[a-z]+([A-Z][a-z]+)*", option.key)
        assert option.scopes and option.kind.allowed and option_meanings()[option].endswith(".")
        assert not (option.missing and option.default)
        if option.default is not None:
            assert option.kind.parse(option.default) == option.default_value

    def test_some_code_reads_each(self) -> None:
        modules = Path(spark_stomp.__file__).parent.rglob("*.py")
        nodes = (node for path in modules for node in ast.walk(ast.parse(path.read_text("utf-8"))))
        read = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        for cls in (*PARSED, ReconnectOptions):
            assert {field.name for field in fields(cls) if "option" in field.metadata} - read == set()


def test_a_prefetch_header_of_an_unknown_broker_is_the_users() -> None:
    """The connector sets none there."""
    given = source(broker="generic", subscribeHeaders='{"prefetch-count": "5"}', prefetch="5")
    assert given.subscribe_headers == (("prefetch-count", "5"),)
