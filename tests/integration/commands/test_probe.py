"""spark-stomp probe, against the dev broker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.certificates import Authority
from support.commands import Command
from support.fronts import tls_front
from support.scripted import CLOSE, RabbitMQ, ScriptedBroker
from support.tcp import stomp_server, unused_port

from spark_stomp.brokers import DIALECTS
from spark_stomp.commands.probe import _treatment
from spark_stomp.devbroker import DevBroker


def facts(out: str) -> dict[str, str]:
    """What is said of the only broker, by its label."""
    return dict(re.findall(r"^  (\S.*?)  +(.*(?:\n {10}.*)*)", out, re.MULTILINE))


def test_who_the_broker_is(devbroker: DevBroker, command: Command) -> None:
    code, out, err = command("probe", devbroker.url)
    shown = facts(out)
    assert out.startswith(devbroker.url + "\n") and (code, err) == (0, "")
    assert shown["broker"].startswith("spark-stomp-devbroker/")
    assert (shown["dialect"], shown["STOMP"], shown["login"]) == ("devbroker", "1.2", "none was given")
    assert shown["TLS"] == "none: anyone on the network can read all messages"
    assert shown["batch reads"] == "browse the queue, at no cost"
    # It left in order, and did nothing.
    assert (devbroker.disconnects, devbroker.queues()) == (1, {})


def test_heartbeats(command: Command) -> None:
    with DevBroker(heartbeat=(2_500, 5_000)) as broker:
        done = command("probe", broker.url, "-o", "heartbeat=1s,1s")
    assert (done.code, facts(done.out)["heart-beats"]) == (0, "ours every 5 s, the broker's every 2.5 s")


def test_a_wrong_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.setenv("SPARK_STOMP_PASSWORD", "wr0ng")
    (right := tmp_path / "right").write_text("r1ght\n")
    with DevBroker(users={"ada": "r1ght"}) as broker:
        probe = ("probe", broker.url, "--login", "ada")
        done = command(*probe)
        assert done.code == 5 and "[STOMP_LOGIN_REFUSED]" in done.out
        code, out, err = command(*probe, "--quiet")
        assert (code, out) == (5, "") and "[STOMP_LOGIN_REFUSED]" in err and "wr0ng" not in err
        done = command(*probe, "--password-file", right)
        assert (done.code, facts(done.out)["login"]) == (0, "accepted as ada")


@pytest.mark.parametrize(
    ("destination", "silent", "words"),
    [
        ("/queue/a", "", "is there"),
        ("/queue/a", "NOT_FOUND - no queue 'a' in vhost '/'", "there is none; the query will declare it"),
        ("/amq/queue/a", "NOT_FOUND - no queue 'a' in vhost '/'", "there is none"),
        ("/queue/a", "ACCESS_REFUSED - access to queue 'a' refused", "not known: the login may not ask"),
    ],
)
def test_whether_rabbitmq_has_the_queue(command: Command, destination: str, silent: str, words: str) -> None:
    with stomp_server(RabbitMQ("other", silent=silent).broker.serve) as url:
        code, out, _ = command("probe", url, destination)
    (sentence,) = re.findall(r"^    queue  +(.*)$", out, re.MULTILINE)
    assert code == 0 and sentence.startswith(words)
    assert ("declare" in sentence) == ("declare" in words)


def test_tls(devbroker: DevBroker, tmp_path: Path, command: Command) -> None:
    authority = Authority(tmp_path, "ca")
    with tls_front(devbroker.port, authority.issue().server_context()) as port:
        probe = ("probe", f"stomp+ssl://127.0.0.1:{port}")
        done = command(*probe)
        assert done.code == 4 and "set tlsCaFile" in done.out
        done = command(*probe, "-o", f"tlsCaFile={authority.ca_file}")
        tls = facts(done.out)["TLS"]
        assert done.code == 0 and "TLSv1.3, TLS_" in tls
        assert "; certificate valid until 20" in tls and " days)" in tls
        done = command(*probe, "-o", "tlsVerify=false")
        assert done.code == 0 and "the certificate was not checked" in facts(done.out)["TLS"]


@pytest.mark.parametrize("arguments", [("probe",), ("peek", "/queue/a", "--yes")])
def test_a_broker_that_ends_without_the_receipt_of_disconnect(
    command: Command, arguments: tuple[str, ...]
) -> None:
    def answer(_: int, frame: bytes) -> bytes:
        return CLOSE if frame.startswith(b"DISCONNECT") else b""

    name, *further = arguments
    with stomp_server(ScriptedBroker(b"Small/1", answer).serve) as url:
        done = command(name, url, *further)
    assert done.code == 0, done


def test_every_address_is_tried(devbroker: DevBroker, command: Command) -> None:
    gone = f"stomp://127.0.0.1:{unused_port()}"
    code, out, _ = command("probe", f"{gone},{devbroker.url}")
    places = [out.index(part) for part in (gone, "[STOMP_CONNECT_FAILED]", devbroker.url, "broker ")]
    assert code == 3 and places == sorted(places)


def test_a_destination(devbroker: DevBroker, command: Command) -> None:
    """What would be asked for, or refused."""
    code, out, _ = command("probe", devbroker.url, "/queue/a", "-o", "prefetch=7")
    assert code == 0 and re.search(r"/queue/a +queue$", out, re.MULTILINE)
    assert '{"prefetch-count": "7"}' in out
    assert devbroker.queues() == {}
    done = command("probe", devbroker.url, "/topic/a")
    assert done.code == 1 and "[STOMP_UNSUPPORTED] /topic/a is a topic" in done.out
    done = command("probe", devbroker.url, "/topic/a", "-o", "durableName=etl")
    assert done.code == 0 and '"durable-subscription-name": "etl@/topic/a"' in done.out


KNOWN = [one for one in DIALECTS if one.unknown_warning is None]


@pytest.mark.parametrize("dialect", KNOWN, ids=lambda dialect: dialect.name)
def test_every_known_dialect_is_put_into_words(dialect: object) -> None:
    shown = dict(_treatment(dialect))  # type: ignore[arg-type]
    assert {"window", "stable ids", "batch reads", "selectors", "durable topics"} <= shown.keys()
    limits = (dialect.most_deliveries, dialect.quorum_delivery_limit)  # type: ignore[attr-defined]
    assert ("redelivery" in shown) == (limits != (None, None))
