"""spark_stomp.options: parsing, defaults, contradictions, and that nothing wrong goes unsaid."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.docs import options_table

from spark_stomp.errors import OptionError
from spark_stomp.options import (
    OPTIONS,
    ConnectionOptions,
    Endpoint,
    Option,
    SinkOptions,
    SourceOptions,
    TlsOptions,
    check_read,
    parse_batch_options,
    parse_sink_options,
    parse_source_options,
)
from spark_stomp.options.fields import Scope
from spark_stomp.options.kinds import DURATION, HEADERS, SIZE, format_duration, format_size
from spark_stomp.options.other_names import REMEDIES, nearest, plain, remedy
from spark_stomp.protocol import Limits

BASE = {"url": "stomp://broker", "destination": "/queue/a"}
SECRET = "hunter2-very-secret"
# What Spark redacts of the options by its default patterns.
REDACTED = re.compile(r"(?i)secret|password|token|access[.]?key|url")


def source(**options: str) -> Any:
    return parse_source_options({**BASE, **options})


def batch(**options: str) -> Any:
    return parse_batch_options({**BASE, **options})


def sink(**options: str) -> Any:
    return parse_sink_options({"url": "stomp://broker", **options})


def problems(parse: Callable[..., object], **options: str) -> tuple[str, ...]:
    with pytest.raises(OptionError) as caught:
        parse(**options)
    return caught.value.problems


def the_problem(parse: Callable[..., object], **options: str) -> str:
    found = problems(parse, **options)
    assert len(found) == 1, found
    return found[0]


class TestDefaults:
    def test_source(self) -> None:
        options = source()
        assert options.destinations == ("/queue/a",)
        assert (options.receivers, options.receiver_placement, options.prefetch) == (1, "driver", 40_000)
        assert (options.idle_timeout, options.max_drain_time) == (2.0, 3600.0)
        assert (options.ack_after, options.ack_receipt_timeout, options.journal) == ("commit", 30.0, None)
        assert (options.max_messages_per_trigger, options.min_messages_per_trigger) == (None, None)
        assert (options.max_trigger_delay, options.max_bytes_per_trigger) == (900.0, None)
        assert options.max_buffered_bytes == 256 << 20
        assert (options.fail_on_data_loss, options.allow_loss) == (True, False)
        assert (options.body_decode_errors, options.id_header, options.exchange_host) == ("error", None, None)
        assert (options.exchange_port, options.exchange_tls) == (None, "auto")
        assert (options.subscribe_headers, options.notes) == ((), ())

    def test_connection(self) -> None:
        connection = source().connection
        assert connection.endpoints == (Endpoint("stomp", "broker", 61613),)
        assert (connection.login, connection.password, connection.virtual_host) == (None, None, "/")
        assert connection.accept_versions == ("1.2", "1.1", "1.0")
        assert (connection.heartbeat, connection.connect_timeout) == ((10_000, 10_000), 10.0)
        assert (connection.broker, connection.tls.verify, connection.tls.ca_file) == ("auto", True, None)

    def test_limits_are_those_of_the_protocol(self) -> None:
        assert source().connection.limits == Limits()

    def test_sink(self) -> None:
        options = sink()
        assert (options.destination, options.send_headers) == (None, ())
        assert (options.receipt_window, options.receipt_timeout, options.notes) == (1000, 30.0, ())
        message = options.message
        assert (message.persistent, message.message_type, message.on_error) == (True, "auto", "fail")
        assert (message.priority, message.ttl, message.dedup_key, message.header_columns) == (None,) * 4

    def test_batch(self) -> None:
        assert (batch().max_messages, batch(maxMessages="20").max_messages) == (1000, 20)

    @pytest.mark.parametrize(
        ("options", "prefetch"),
        [
            ({"maxMessagesPerTrigger": "300"}, 600),
            ({"maxMessagesPerTrigger": "300", "minMessagesPerTrigger": "200"}, 600),
            ({"minMessagesPerTrigger": "200"}, 40_000),
            ({"minMessagesPerTrigger": "30000"}, 60_000),
            ({"maxMessagesPerTrigger": "300", "prefetch": "7"}, 7),
        ],
    )
    def test_prefetch_holds_two_batches(self, options: dict[str, str], prefetch: int) -> None:
        assert source(**options).prefetch == prefetch

    def test_a_minimum_never_waits_for_ever(self) -> None:
        assert source(minMessagesPerTrigger="5").max_trigger_delay == 900.0
        assert source(minMessagesPerTrigger="5", maxTriggerDelay="3s").max_trigger_delay == 3.0

    def test_every_default_is_a_value_of_its_own_kind(self) -> None:
        for option in OPTIONS:
            if option.default is not None:
                assert option.parse(option.default) == option.default_value


class TestKeys:
    @pytest.mark.parametrize("change", [str.lower, str.upper])
    def test_case_does_not_matter(self, change: Callable[[str], str]) -> None:
        options = {**BASE, "maxMessagesPerTrigger": "5", "bodyDecodeErrors": "null"}
        parsed = parse_source_options({change(key): value for key, value in options.items()})
        assert (parsed.max_messages_per_trigger, parsed.body_decode_errors) == (5, "null")

    def test_path_is_the_destination(self) -> None:
        assert parse_source_options({"url": "stomp://b", "path": "/queue/x"}).destinations == ("/queue/x",)
        assert parse_sink_options({"url": "stomp://b", "path": "/queue/x"}).destination == "/queue/x"

    def test_load_of_several_paths(self) -> None:
        parsed = parse_batch_options({"url": "stomp://b", "paths": '["/queue/x","/queue/y"]'})
        assert parsed.destinations == ("/queue/x", "/queue/y")

    def test_path_and_destination_may_agree(self) -> None:
        assert source(path="/queue/a").destinations == ("/queue/a",)

    def test_path_against_destination(self) -> None:
        text = the_problem(source, path="/queue/b")
        assert "/queue/a" in text and "/queue/b" in text and "contradict" in text

    def test_what_spark_adds_to_a_sink_is_understood(self) -> None:
        sink(checkpointlocation="/tmp/c", queryname="q")

    def test_queryname_is_an_option_of_sinks_only(self) -> None:
        assert the_problem(source, queryname="q").startswith("queryName is an option of writes")

    @pytest.mark.parametrize(
        ("wrong", "nearest"),
        [
            ("maxMesagesPerTrigger", "maxMessagesPerTrigger"),
            ("prefetchCount", "prefetch"),
            ("virtual_host", "virtualHost"),
            ("username", "login"),
            ("queue", "destination"),
        ],
    )
    def test_unknown_names_get_the_nearest_known(self, wrong: str, nearest: str) -> None:
        text = the_problem(source, **{wrong: "5"})
        assert text.startswith(f"{wrong.lower()} is no option") and nearest in text

    @pytest.mark.parametrize("unknown", ["zzzz", "interval_of_mine", "max", "bytes", "idle", "sender"])
    def test_unknown_without_anything_near(self, unknown: str) -> None:
        assert the_problem(source, **{unknown: "1"}) == f"{unknown} is no option"

    def test_passcode_points_to_password_and_is_not_shown(self) -> None:
        text = the_problem(source, passcode=SECRET)
        assert "password" in text and SECRET not in text

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("host", "part of url"),
            ("port", "part of url"),
            ("brokerURL", "use url"),
            ("user", "use login"),
            ("vhost", "use virtualHost"),
            ("vpn", "use virtualHost"),
            ("queue", "use destination"),
            ("topic", "use destination"),
            ("subscribe", "use destination"),
            ("subscribePattern", "write it as destination"),
            ("assign", "Use destination"),
            ("startingOffsets", "no positions"),
            ("endingOffsets", "no positions"),
            ("maxOffsetsPerTrigger", "use maxMessagesPerTrigger"),
            ("minOffsetsPerTrigger", "use minMessagesPerTrigger"),
            ("minPartitions", "no partitions"),
            ("includeHeaders", "the columns headers"),
            ("kafka.bootstrap.servers", "use url"),
            ("kafka.group.id", "no consumer groups"),
            ("kafka.max.poll.records", "Kafka's client"),
            ("solace.apiProperties.x", "Solace's own client"),
            ("batchSize", "use maxMessagesPerTrigger"),
            ("persistent", "writes, not of stream reads (readStream): who sends decides"),
            ("ackMode", "see ackAfter"),
            ("heart-beat", "heartbeat"),
            ("heart_beats", "use heartbeat"),
            ("acknowledge", "see ackAfter"),
            ("messageSelector", "use selector"),
            ("subscriptionName", "use durableName"),
            ("activemq.prefetchSize", "use prefetch"),
            ("activemq.exclusive", "subscribeHeaders"),
            ("stomp.destinatoin", "did you mean destination?"),
            ("timeout", "idleTimeout"),
            ("ssl", "stomp+ssl://"),
            ("triggerInterval", "processingTime"),
        ],
    )
    def test_names_of_other_systems_lead_somewhere(self, name: str, words: str) -> None:
        assert words in the_problem(source, **{name: SECRET})
        assert SECRET not in the_problem(source, **{name: SECRET})

    @pytest.mark.parametrize("scope", ["source", "batch", "sink"])
    def test_no_remedy_names_an_option_that_is_not_there(self, scope: Scope) -> None:
        known = {option.key for option in OPTIONS if scope in option.scopes}
        for name, text in REMEDIES[scope].items():
            named = re.findall(r"\buse (\w+)\b(?! column)|\bsee (\w+)", text)
            keys = {key for pair in named for key in pair if key and re.search("[A-Z]", key)}
            if "(stream reads only)" not in text:
                assert keys <= known, (name, text)
            assert name not in {plain(key) for key in known}, f"{name} is an option itself"

    @pytest.mark.parametrize("scope", ["source", "batch", "sink"])
    def test_every_misspelled_key_is_recognised(self, scope: Scope) -> None:
        known = [option.key for option in OPTIONS if scope in option.scopes]
        for key in known:
            for wrong in (key[:-1], key[1:], f"{key}s", key.replace("e", "a", 1), key.replace("M", "_m")):
                if len(key) > 5 and remedy(wrong, scope) is None:
                    assert nearest(wrong, known) is not None, wrong

    def test_options_of_another_place_say_where_they_belong(self) -> None:
        assert "batch reads" in the_problem(source, maxMessages="5")
        assert "stream reads" in the_problem(batch, prefetch="5")
        assert "writes" in the_problem(batch, receiptWindow="5")
        assert "stream reads (readStream) and batch reads (read)" in the_problem(sink, selector="a = 1")


class TestRequired:
    @pytest.mark.parametrize("parse", [parse_source_options, parse_batch_options])
    def test_reads_need_url_and_destination(self, parse: Callable[[Mapping[str, str]], object]) -> None:
        with pytest.raises(OptionError) as caught:
            parse({})
        url, destination, table = caught.value.problems
        assert url.startswith(
            'url is required: give the address of the broker, as in .option("url", "stomp://'
        )
        assert destination == 'destination is required: say what to read, as in .load("/queue/orders")'
        assert "CREATE TEMPORARY VIEW" in table

    def test_writes_need_url_only(self) -> None:
        with pytest.raises(OptionError) as caught:
            parse_sink_options({})
        assert [text.split()[0] for text in caught.value.problems] == ["url", "a"]
        assert problems(lambda **options: parse_sink_options(options), destination="/queue/a")[0].startswith(
            "url is"
        )


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
        ],
    )
    def test_what_one_kind_of_read_takes_is_fine(self, options: dict[str, str]) -> None:
        assert at_load(**BASE, **options) == ()

    def test_what_is_wrong_for_both_is_said_once(self) -> None:
        assert at_load(**BASE, selector="")[0].startswith("selector = '' must not be empty")
        assert len(at_load(**BASE, selector="", prefech="5")) == 2
        assert at_load(url="stomp://b")[0].startswith("destination is required")

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"prefetch": "x"}, "prefetch = 'x' must be a whole number"),
            ({"maxMessages": "x"}, "maxMessages = 'x' must be a whole number"),
            ({"drain": "true"}, "drain = true needs journal"),
            (
                {"prefetch": "5", "limit": "5"},
                "limit is no option: use maxMessagesPerTrigger, or maxMessages in a",
            ),
            ({"maxMessages": "5", "limit": "5"}, "limit is no option: use maxMessages$"),
        ],
    )
    def test_the_options_tell_which_read_is_meant(self, options: dict[str, str], words: str) -> None:
        (problem,) = at_load(**BASE, **options)
        assert words in f"{problem}$"

    @pytest.mark.parametrize(
        ("name", "remedy"),
        [
            ("maxOffsetsPerTrigger", ": use maxMessagesPerTrigger, or maxMessages in a batch read"),
            ("limit", ": use maxMessagesPerTrigger, or maxMessages in a batch read"),
            ("prefetchCount", ": use prefetch (stream reads only)"),
            ("maxMesagesPerTrigger", "; did you mean maxMessagesPerTrigger?"),
            ("maxMesages", "; did you mean maxMessages?"),
            ("ackMode", ": messages are acknowledged once Spark has committed their batch, see ackAfter"),
        ],
    )
    def test_if_they_tell_nothing_there_is_a_remedy_for_both(self, name: str, remedy: str) -> None:
        (problem,) = at_load(**BASE, **{name: "5"})
        assert problem == f"{name.lower()} is no option{remedy}"

    def test_options_of_both_kinds_together(self) -> None:
        one, other = at_load(**BASE, prefetch="5", maxMessages="5")
        assert one.startswith("maxMessages is an option of batch reads (read), not of stream reads")
        assert other.startswith("prefetch is an option of stream reads (readStream), not of batch reads")

    def test_a_view_may_be_for_writing(self) -> None:
        """INSERT INTO a temporary view writes with the options that Spark asked the schema with."""
        assert at_load(**BASE, receiptWindow="5") == ()
        assert at_load(**BASE, receiptWindow="x") != ()
        assert at_load(url="stomp://b", receiptWindow="5") != ()

    def test_a_table_with_options_is_refused_when_it_is_made(self) -> None:
        table = problems(lambda: parse_source_options({}))[-1]
        assert "FROM name WITH" in table
        given = {"url": "stomp://b", "option.url": "stomp://b", "provider": "stomp", "owner": "me"}
        assert at_load(**given) == (table,)
        assert at_load(provider="stomp", owner="me") == ()


class TestErrors:
    def test_all_problems_are_reported_together(self) -> None:
        found = problems(
            source, receivers="0", idleTimeout="2", nonsense="1", minMessagesPerTrigger="9", password="x"
        )
        assert len(found) == 4
        with pytest.raises(OptionError) as caught:
            source(receivers="0", nonsense="1")
        assert "\n  - receivers = '0' must be at least 1\n  - nonsense is no option" in str(caught.value)

    @pytest.mark.parametrize("parse", [source, batch, sink])
    def test_an_address_is_no_destination(self, parse: Callable[..., object]) -> None:
        text = the_problem(parse, destination=f"stomp://me:{SECRET}@broker:61613/queue/a")
        assert "is an address" in text and SECRET not in text
        parse(destination="/queue/a://b")

    def test_a_malformed_value_draws_no_contradiction_after_it(self) -> None:
        assert the_problem(source, minMessagesPerTrigger="x", maxTriggerDelay="2s").startswith("minMessages")
        assert the_problem(source, url="stomp:/x", tlsCaFile="ca.pem").startswith("url")

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
            {"receivers": f"stomp://me:{SECRET}@broker"},
            {"path": f"stomp://me:{SECRET}@broker"},
            {"destination": f'["stomp://me:{SECRET}@broker", "stomp://me:{SECRET}@broker"]'},
            {"paths": f"stomp://broker?passcode={SECRET}"},
        ],
    )
    def test_secrets_never_appear(self, options: dict[str, str]) -> None:
        assert SECRET not in the_problem(source, **options)

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

    def test_a_query_is_hidden_in_addresses_only(self) -> None:
        assert "'1?2'" in the_problem(source, receivers="1?2")

    def test_the_query_of_a_websocket_is_in_no_repr_error_or_note(self) -> None:
        url = "ws://a/ws?token=tops3cret"
        parsed = source(url=url, login="u", password="p")
        assert parsed.connection.endpoints[0].uri == "ws://a:15674/ws?token=tops3cret"
        assert "s3cret" not in repr(parsed)
        assert parsed.notes
        assert "s3cret" not in str(parsed.notes)
        with pytest.raises(OptionError, match=r"ws://a:15674/ws\?\*\*\*") as refused:
            source(url=f"{url},wss://b", login="u", password="p")
        assert "s3cret" not in str(refused.value)

    def test_secrets_are_in_no_repr(self) -> None:
        options = source(
            url="stomp+ssl://b",
            login="me",
            password=SECRET,
            tlsCertFile="c.pem",
            tlsKeyPassword=SECRET,
            secretConnectHeaders=f'{{"a": "{SECRET}"}}',
            journal=f"s3://key:{SECRET}@bucket/journal",
            checkpointLocation=f"s3://key:{SECRET}@bucket/checkpoint",
        )
        assert options.connection.password == options.connection.tls.key_password == SECRET
        assert options.connection.secret_connect_headers == (("a", SECRET),)
        assert SECRET not in repr(options)

    @pytest.mark.parametrize(
        "key", ["password", "tlsKeyPassword", "tlsKeySecret", "secretConnectHeaders", "url"]
    )
    def test_secret_keys_are_such_as_spark_redacts(self, key: str) -> None:
        assert REDACTED.search(key)

    def test_every_secret_option_is_redacted_by_spark(self) -> None:
        assert [option.key for option in OPTIONS if option.secret and not REDACTED.search(option.key)] == []

    def test_results_can_be_pickled(self) -> None:
        for options in (source(), batch(), sink()):
            assert pickle.loads(pickle.dumps(options)) == options


class TestEndpoints:
    @pytest.mark.parametrize(
        ("url", "endpoint", "text"),
        [
            ("stomp://h", Endpoint("stomp", "h", 61613), "stomp://h:61613"),
            ("stomp://h:1/", Endpoint("stomp", "h", 1), "stomp://h:1"),
            ("stomp+ssl://h", Endpoint("stomp+ssl", "h", 61614), "stomp+ssl://h:61614"),
            ("STOMP://[::1]:61613", Endpoint("stomp", "::1", 61613), "stomp://[::1]:61613"),
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
        assert [str(endpoint) for endpoint in endpoints] == [
            "stomp://a:61613",
            "stomp+ssl://b:9",
            "ws://c:15674/ws",
        ]
        assert [(e.tls, e.websocket) for e in endpoints] == [(False, False), (True, False), (False, True)]

    @pytest.mark.parametrize(
        ("url", "reason"),
        [
            ("", "must begin with stomp://"),
            ("broker:61613", "must begin with stomp://"),
            ("tcp://h:61613", "must begin with stomp://"),
            ("stomp:h:61613", "must begin with stomp://"),
            ("stomp://h,", "must begin with stomp://"),
            ("stomp://", "no host name"),
            ("stomp://:61613", "no host name"),
            ("stomp://h:0", "port"),
            ("stomp://h:65536", "port"),
            ("stomp://h:stomp", "port"),
            ("stomp://h/queue/a", "destination goes into load"),
            ("ws://h/ws#x", "fragment"),
            ("stomp://a,stomp://a:61613", "more than once"),
            ("failover:(tcp://a,tcp://b)", "comma list"),
            ("stomp://me@h", "use the options login and password"),
            ("me:pw@h", "use the options login and password"),
            ("stomp://me:p/w@h", "use the options login and password"),
            ("wss://me:pw@h/ws", "use the options login and password"),
            ("stomp://[h", "no URL"),
        ],
    )
    def test_refused(self, url: str, reason: str) -> None:
        assert reason in the_problem(source, url=url)


class TestDurations:
    @pytest.mark.parametrize(
        ("text", "seconds"),
        [("500ms", 0.5), ("10s", 10.0), ("2m", 120.0), ("2 min", 120.0), ("1.5S", 1.5), ("1h", 3600.0)],
    )
    def test_units(self, text: str, seconds: float) -> None:
        assert source(connectTimeout=text).connection.connect_timeout == seconds

    @pytest.mark.parametrize(
        ("text", "seconds"),
        [
            ("5 seconds", 5.0),
            ("1 second", 1.0),
            ("100 milliseconds", 0.1),
            ("1 minute", 60.0),
            ("2 Hours", 7200.0),
            ("1 day", 86400.0),
            ("1 week", 604800.0),
            ("interval 5 seconds", 5.0),
            ("INTERVAL 1 minute 30 seconds", 90.0),
        ],
    )
    def test_as_spark_writes_them(self, text: str, seconds: float) -> None:
        assert source(connectTimeout=text).connection.connect_timeout == seconds

    @pytest.mark.parametrize("text", ["10", "10 apples", "", "s", "-1s", "1,5s", "inf", "٣s", "1s1s"])
    def test_refused(self, text: str) -> None:
        assert "10s" in the_problem(source, connectTimeout=text)

    def test_a_timeout_is_not_zero(self) -> None:
        assert "more than 0" in the_problem(source, idleTimeout="0")

    @pytest.mark.parametrize(
        ("text", "pair"),
        [
            ("0", (0, 0)),
            ("0,0", (0, 0)),
            ("5s", (5000, 5000)),
            ("250ms, 1m", (250, 60_000)),
            ("0,10s", (0, 10_000)),
        ],
    )
    def test_heartbeat(self, text: str, pair: tuple[int, int]) -> None:
        assert source(heartbeat=text).connection.heartbeat == pair

    @pytest.mark.parametrize("text", ["10,10", "1s,2s,3s", ",", ""])
    def test_heartbeat_refused(self, text: str) -> None:
        assert the_problem(source, heartbeat=text).startswith("heartbeat = ")

    @given(st.integers(min_value=0, max_value=10**9))
    def test_formatting_is_parsed_back(self, milliseconds: int) -> None:
        assert DURATION.parse(format_duration(milliseconds / 1000)) == pytest.approx(milliseconds / 1000)


class TestSizes:
    @pytest.mark.parametrize(
        ("text", "size"),
        [
            ("1", 1),
            ("64k", 65_536),
            ("10M", 10 << 20),
            ("1gb", 1 << 30),
            ("2 KiB", 2048),
            ("5b", 5),
            ("1t", 1 << 40),
        ],
    )
    def test_units(self, text: str, size: int) -> None:
        assert source(maxBufferedBytes=text).max_buffered_bytes == size

    @pytest.mark.parametrize("text", ["", "k", "1.5m", "-1", "1x", "1kk"])
    def test_refused(self, text: str) -> None:
        assert "is no size" in the_problem(source, maxBufferedBytes=text)

    def test_zero(self) -> None:
        assert "more than 0" in the_problem(source, maxBytesPerTrigger="0k")

    @given(st.integers(min_value=1, max_value=1 << 50))
    def test_formatting_is_parsed_back(self, size: int) -> None:
        assert SIZE.parse(format_size(size)) == size


class TestWords:
    @pytest.mark.parametrize(("text", "value"), [("true", True), ("False", False), (" TRUE ", True)])
    def test_boolean(self, text: str, value: bool) -> None:
        assert source(allowLoss=text).allow_loss is value

    @pytest.mark.parametrize("text", ["yes", "1", ""])
    def test_boolean_refused(self, text: str) -> None:
        assert the_problem(source, allowLoss=text) == f"allowLoss = {text!r} must be true or false"

    @pytest.mark.parametrize("text", ["x", "1.0", "", "1e3"])
    def test_integer_refused(self, text: str) -> None:
        assert "whole number" in the_problem(source, prefetch=text)

    def test_prefetch_zero_would_deliver_nothing(self) -> None:
        assert "at least 1" in the_problem(source, prefetch="0")

    def test_choice(self) -> None:
        assert source(broker="RabbitMQ").connection.broker == "rabbitmq"
        assert "activemq" in the_problem(source, broker="kafka")

    def test_versions(self) -> None:
        assert source(acceptVersions="1.1, lenient").connection.accept_versions == ("1.1", "lenient")
        assert "1.2" in the_problem(source, acceptVersions="1.3")
        assert "more than once" in the_problem(source, acceptVersions="1.2,1.2")

    @pytest.mark.parametrize("text", ["", "  ", "a\nb", "a\x00b"])
    def test_names(self, text: str) -> None:
        assert the_problem(source, idHeader=text).startswith("idHeader = ")


class TestDestinations:
    def test_one_keeps_its_spelling(self) -> None:
        assert source(destination="/topic/ä b?x=1").destinations == ("/topic/ä b?x=1",)

    def test_list(self) -> None:
        assert source(destination=' ["/queue/b", "/queue/a"]').destinations == ("/queue/b", "/queue/a")

    @pytest.mark.parametrize(
        "text", ["[]", '[""]', "[1]", '["a"', '["a", ["b"]]', '["a","a"]', '["a\\nb"]', ""]
    )
    def test_refused(self, text: str) -> None:
        assert the_problem(source, destination=text).startswith("destination = ")

    def test_a_sink_has_one(self) -> None:
        assert sink(destination="[x]").destination == "[x]"


class TestHeaders:
    def test_values_keep_their_spelling_and_order(self) -> None:
        text = '{"b": "x", "a": 1.50, "n": 007e1, "t": true}'.replace("007e1", "7e1")
        expected = (("b", "x"), ("a", "1.50"), ("n", "7e1"), ("t", "true"))
        assert source(subscribeHeaders=text).subscribe_headers == expected
        assert sink(sendHeaders=text).send_headers == expected

    @pytest.mark.parametrize(
        "text",
        [
            "x",
            "[]",
            '"a"',
            "{",
            '{"": "a"}',
            '{"a": null}',
            '{"a": {}}',
            '{"a": []}',
            '{"a\\nb": "c"}',
            '{"a":1,"a":2}',
        ],
    )
    def test_refused(self, text: str) -> None:
        assert the_problem(source, subscribeHeaders=text).startswith("subscribeHeaders ")

    def test_json_errors_say_where(self) -> None:
        assert "character 6" in the_problem(source, subscribeHeaders='{"a":}')

    def test_nul_in_a_value(self) -> None:
        with pytest.raises(ValueError, match="NUL"):
            HEADERS.parse('{"a": "x\\u0000"}')

    @pytest.mark.parametrize(
        ("option", "header", "remedy"),
        [
            ("connectHeaders", "Host", "virtualHost"),
            ("connectHeaders", "passcode", "password"),
            ("connectHeaders", "client-id", "clientId"),
            ("secretConnectHeaders", "login", "login"),
            ("subscribeHeaders", "selector", "selector"),
            ("subscribeHeaders", "ack", "the connector sets it"),
            ("subscribeHeaders", "transaction", "the connector sets it"),
            ("connectHeaders", "content-length", "the connector sets it"),
        ],
    )
    def test_headers_with_an_owner(self, option: str, header: str, remedy: str) -> None:
        text = the_problem(source, **{option: f'{{"{header}": "x"}}'})
        assert header in text and remedy in text

    @pytest.mark.parametrize("header", ["destination", "receipt", "transaction", "content-length"])
    def test_send_headers_with_an_owner(self, header: str) -> None:
        assert header in the_problem(sink, sendHeaders=f'{{"{header}": "x"}}')

    def test_the_same_header_twice(self) -> None:
        found = the_problem(source, connectHeaders='{"a": "1"}', secretConnectHeaders='{"a": "2"}')
        assert "both" in found


class TestContradictions:
    def test_minimum_over_maximum(self) -> None:
        text = the_problem(source, minMessagesPerTrigger="10", maxMessagesPerTrigger="9")
        assert "(10)" in text and "(9)" in text
        source(minMessagesPerTrigger="9", maxMessagesPerTrigger="9")

    def test_delay_without_minimum(self) -> None:
        assert "without minMessagesPerTrigger" in the_problem(source, maxTriggerDelay="5s")

    def test_drain_shorter_than_idle(self) -> None:
        assert "(1s)" in the_problem(source, maxDrainTime="1s")
        source(maxDrainTime="1s", idleTimeout="1s")

    def test_a_drain_without_what_lets_the_broker_go_on(self) -> None:
        assert "journal and ackAfter = journal" in the_problem(source, drain="true")
        assert "journal and ackAfter = journal" in the_problem(source, drain="true", journal="/j")
        assert source(drain="true", journal="/j", ackAfter="journal").drain

    def test_password_without_login(self) -> None:
        assert the_problem(sink, password="x") == "password is given without login"

    @pytest.mark.parametrize("option", ["tlsCaFile", "tlsCertFile", "tlsVerify", "tlsMinVersion"])
    def test_tls_without_an_encrypted_url(self, option: str) -> None:
        value = {"tlsVerify": "false", "tlsMinVersion": "1.3"}.get(option, "x.pem")
        assert option in the_problem(source, **{option: value})
        # A client certificate goes to encrypted addresses alone.
        source(url="wss://b" if option == "tlsCertFile" else "stomp://a,wss://b", **{option: value})

    def test_key_without_certificate(self) -> None:
        assert "without tlsCertFile" in the_problem(source, url="wss://b", tlsKeyFile="k.pem")

    def test_authorities_without_verification(self) -> None:
        assert "tlsVerify" in the_problem(source, url="wss://b", tlsCaFile="x", tlsVerify="false")

    def test_body_over_frame(self) -> None:
        assert "raise maxFrameBytes" in the_problem(source, maxBodyBytes="300m")
        assert source(maxFrameBytes="1m").connection.limits.max_body == 1 << 20
        assert source(maxFrameBytes="1m", maxBodyBytes="64k").connection.limits.max_body == 1 << 16

    def test_limits_reach_the_protocol(self) -> None:
        limits = source(maxHeaderLineBytes="1k", maxHeaders="5").connection.limits
        assert (limits.max_header_line, limits.max_headers) == (1024, 5)

    def test_one_durable_name_for_two_destinations(self) -> None:
        assert "2 destinations" in the_problem(source, destination='["a","b"]', durableName="d")


class TestMessages:
    def test_what_a_message_is_like(self) -> None:
        message = sink(priority="9", ttl="1500ms", headerColumns='["a", "b"]', dedupKey="id").message
        assert (message.priority, message.ttl) == (9, 1.5)
        assert (message.header_columns, message.dedup_key) == (("a", "b"), ("id",))

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ({"priority": "10"}, "must be at most 9"),
            ({"priority": "-1"}, "must be at least 0"),
            ({"ttl": "0s"}, "must be more than 0"),
            ({"messageType": "json"}, "must be one of auto, bytes, text"),
            ({"onError": "deadletter"}, "onError = deadletter needs deadLetterDestination"),
            ({"deadLetterDestination": "/queue/d"}, "deadLetterDestination is given without onError"),
            ({"dedupHeader": "id"}, "dedupHeader is given without dedupKey"),
            ({"headerColumns": "receipt"}, "headerColumns must not hold the header receipt"),
            (
                {"dedupKey": "a", "dedupHeader": "Destination"},
                "dedupHeader must not hold the header Destination",
            ),
            ({"transactional": "true"}, "transactional is no option"),
        ],
    )
    def test_what_cannot_be(self, options: dict[str, str], problem: str) -> None:
        assert problem in the_problem(sink, **options)


class TestPending:
    def test_refused_with_a_reason(self) -> None:
        options = {"receiverPlacement": "executors"}
        text = the_problem(source, **options)
        assert text.startswith(next(iter(options))) and "not available in this version" in text

    def test_their_defaults_are_fine(self) -> None:
        source(receiverPlacement="driver", ackAfter="commit")


def test_a_tls_version_that_nobody_should_speak_is_refused() -> None:
    assert "must be one of 1.2, 1.3" in the_problem(source, url="wss://b", tlsMinVersion="1.1")


class TestPemText:
    """From secret scopes of notebooks: text in place of files."""

    CERTIFICATE = "-----BEGIN CERTIFICATE-----\nabcd\n-----END CERTIFICATE-----\n"
    KEY = f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n"

    def tls(self, **options: str) -> Any:
        return source(url="wss://b", **options).connection.tls

    def problem(self, **options: str) -> str:
        text = the_problem(source, url="wss://b", **options)
        assert SECRET not in text and "abcd" not in text
        return text

    def test_is_taken_as_it_is(self) -> None:
        tls = self.tls(tlsCaFile=self.CERTIFICATE, tlsCertFile=self.CERTIFICATE, tlsKeySecret=self.KEY)
        assert (tls.ca_file, tls.cert_file, tls.key_secret) == (self.CERTIFICATE, self.CERTIFICATE, self.KEY)
        assert SECRET not in repr(tls)

    def test_goes_together_with_files(self) -> None:
        assert self.tls(tlsCertFile=self.CERTIFICATE, tlsKeyFile="k.pem").key_file == "k.pem"
        assert self.tls(tlsCertFile="c.pem", tlsKeySecret=self.KEY).cert_file == "c.pem"

    @pytest.mark.parametrize("key", ["tlsCaFile", "tlsCertFile"])
    def test_a_key_is_refused_where_spark_would_show_it(self, key: str) -> None:
        text = self.problem(**{key: self.CERTIFICATE + self.KEY})
        assert text.startswith(f"{key} ") and "tlsKeySecret" in text

    def test_also_in_the_option_for_its_file(self) -> None:
        text = self.problem(tlsCertFile="c.pem", tlsKeyFile=self.KEY)
        assert text.startswith("tlsKeyFile ") and "tlsKeySecret" in text

    def test_a_key_in_any_other_option_is_not_repeated(self) -> None:
        assert self.problem(login=self.KEY).startswith("login ")

    @pytest.mark.parametrize("end", ["", "-----END CERTIFICATE----- ü"])
    def test_what_is_cut_off_or_no_ascii_is_refused(self, end: str) -> None:
        text = self.CERTIFICATE.partition("-----END")[0] + end
        assert "PEM" in self.problem(tlsCaFile=text)
        assert "PEM" in self.problem(tlsCertFile="c.pem", tlsKeySecret=text)

    def test_a_path_is_no_key(self) -> None:
        assert "tlsKeyFile" in self.problem(tlsCertFile="c.pem", tlsKeySecret=f"/keys/{SECRET}")

    def test_only_one_key(self) -> None:
        text = self.problem(tlsCertFile="c.pem", tlsKeyFile="k.pem", tlsKeySecret=self.KEY)
        assert text == "tlsKeyFile and tlsKeySecret are both given; give only one of them"

    def test_a_certificate_needs_its_key(self) -> None:
        assert "tlsKeySecret" in self.problem(tlsCertFile=self.CERTIFICATE)
        assert "without tlsCertFile" in self.problem(tlsKeySecret=self.KEY)


class TestMixedSchemes:
    """Whoever makes the encrypted address fail would be sent the secrets in clear by the other one."""

    MIXED = ("stomp+ssl://a,stomp://b", "stomp://a,stomp+ssl://b", "wss://a,ws://b", "stomp+ssl://a,ws://b")

    @pytest.mark.parametrize("url", MIXED)
    @pytest.mark.parametrize("parse", [source, batch, sink])
    def test_are_refused_with_a_login(self, parse: Callable[..., object], url: str) -> None:
        text = the_problem(parse, url=url, login="ada", password=SECRET)
        assert "login, password" in text and "without encryption" in text and SECRET not in text

    @pytest.mark.parametrize(
        "credentials",
        [
            {"login": "ada"},
            {"tlsCertFile": "c.pem"},
            {"secretConnectHeaders": '{"token": "x"}'},
        ],
    )
    def test_and_with_any_credentials(self, credentials: dict[str, str]) -> None:
        assert next(iter(credentials)) in the_problem(source, url=self.MIXED[0], **credentials)

    def test_the_addresses_without_encryption_are_named(self) -> None:
        text = the_problem(source, url="wss://a,ws://b:1,stomp://c", login="ada")
        assert "ws://b:1/ws, stomp://c:61613" in text and "wss://a" not in text

    def test_are_fine_without_credentials_and_all_alike_with_them(self) -> None:
        source(url=self.MIXED[0])
        source(url="stomp+ssl://a,wss://b", login="ada", password=SECRET)
        source(url="stomp://a,ws://b", login="ada", password=SECRET)


class TestNotes:
    def test_a_limit_over_the_window(self) -> None:
        (note,) = source(prefetch="100", maxMessagesPerTrigger="1000").notes
        assert "maxMessagesPerTrigger (1000)" in note and "at most 100 messages" in note

    def test_the_window_counts_all_receivers(self) -> None:
        options = {"prefetch": "100", "maxMessagesPerTrigger": "400", "receivers": "2"}
        assert source(destination='["a","b"]', **options).notes == ()
        assert len(source(**options).notes) == 1

    def test_no_verification(self) -> None:
        (note,) = source(url="wss://b", tlsVerify="false").notes
        assert "anybody" in note


class TestLoginInClear:
    """Said once a query: as a note of a read, and when a write begins."""

    @pytest.mark.parametrize("url", ["stomp://broker", "ws://10.0.0.1", "stomp://127.0.0.1,stomp://broker"])
    @pytest.mark.parametrize("parse", [source, batch, sink])
    def test_to_another_machine(self, parse: Callable[..., Any], url: str) -> None:
        (note,) = parse(url=url, login="ada", password=SECRET).notes
        assert "plain text" in note and "stomp+ssl://" in note and SECRET not in note

    def test_names_the_addresses_and_what_they_get(self) -> None:
        options = {"login": "ada", "secretConnectHeaders": '{"token": "x"}'}
        (note,) = source(url="stomp://127.0.0.1,stomp://b:1", **options).notes
        assert "login, secretConnectHeaders" in note and "stomp://b:1" in note and "127.0.0.1" not in note

    @pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.8.0.1", "[::1]"])
    def test_is_fine_on_this_machine(self, host: str) -> None:
        assert source(url=f"stomp://{host}", login="ada", password=SECRET).notes == ()

    def test_is_fine_if_it_is_encrypted_or_there_is_none(self) -> None:
        assert source(url="stomp+ssl://broker", login="ada", password=SECRET).notes == ()
        assert sink(url="stomp://broker").notes == ()


class TestDeclarations:
    @pytest.mark.parametrize("cls", [ConnectionOptions, TlsOptions, SourceOptions, SinkOptions])
    def test_no_field_has_a_default_of_its_own(self, cls: type[Any]) -> None:
        for field in fields(cls):
            assert field.default is field.default_factory is MISSING
        with pytest.raises(TypeError):
            cls()

    def test_one_option_can_be_varied(self) -> None:
        assert replace(sink(), receipt_window=5) == sink(receiptWindow="5")

    def test_one_declaration_for_a_key_in_a_scope(self) -> None:
        places = [(option.key.lower(), scope) for option in OPTIONS for scope in option.scopes]
        assert len(places) == len(set(places))

    @pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.key)
    def test_complete(self, option: Option) -> None:
        assert re.fullmatch(r"[a-z]+([A-Z][a-z]+)*", option.key)
        assert option.scopes and option.kind.allowed and option.meaning.endswith(".")
        assert not (option.required and option.default)

    def test_the_table_has_a_row_for_each(self) -> None:
        rows = options_table().splitlines()
        assert len(rows) == 2 + len(OPTIONS)
        assert {row.count("|") for row in rows} == {6}
        assert "| `receiptTimeout` | sink | duration > 0" in options_table()
