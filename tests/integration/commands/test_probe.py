"""spark-stomp probe, against the dev broker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.certificates import Authority
from support.fronts import tls_front
from support.scripted import RabbitMQ
from support.tcp import tcp_server, unused_port

from spark_stomp.brokers import DIALECTS
from spark_stomp.commands.main import main
from spark_stomp.commands.probe import _treatment
from spark_stomp.devbroker import DevBroker


def facts(out: str) -> dict[str, str]:
    """What is said of the only broker, by its label."""
    return dict(re.findall(r"^  (\S.*?)  +(.*(?:\n {10}.*)*)", out, re.MULTILINE))


def test_who_the_broker_is(devbroker: DevBroker, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", devbroker.url]) == 0
    out, err = capsys.readouterr()
    told = facts(out)
    assert out.startswith(devbroker.url + "\n") and err == ""
    assert told["broker"].startswith("spark-stomp-devbroker/")
    assert (told["dialect"], told["STOMP"], told["login"]) == ("devbroker", "1.2", "none was given")
    assert told["TLS"] == "none: anyone on the network can read all messages"
    assert told["batch reads"] == "browse the queue, at no cost"
    # It left in order, and did nothing.
    assert (devbroker.disconnects, devbroker.queues()) == (1, {})


def test_heartbeats(capsys: pytest.CaptureFixture[str]) -> None:
    with DevBroker(heartbeat=(2_500, 5_000)) as broker:
        assert main(["probe", broker.url, "-o", "heartbeat=1s,1s"]) == 0
    assert facts(capsys.readouterr().out)["heart-beats"] == "ours every 5 s, the broker's every 2.5 s"


def test_a_wrong_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPARK_STOMP_PASSWORD", "wr0ng")
    (tmp_path / "right").write_text("r1ght\n")
    with DevBroker(users={"ada": "r1ght"}) as broker:
        assert main(["probe", broker.url, "--login", "ada"]) == 5
        assert "[STOMP_LOGIN_REFUSED]" in capsys.readouterr().out
        assert main(["probe", broker.url, "--login", "ada", "--quiet"]) == 5
        out, err = capsys.readouterr()
        assert out == "" and "[STOMP_LOGIN_REFUSED]" in err and "wr0ng" not in err
        assert main(["probe", broker.url, "--login", "ada", "--password-file", str(tmp_path / "right")]) == 0
        assert facts(capsys.readouterr().out)["login"] == "accepted as ada"


@pytest.mark.parametrize(
    ("destination", "silent", "words"),
    [
        ("/queue/a", "", "is there"),
        ("/queue/a", "NOT_FOUND - no queue 'a' in vhost '/'", "there is none; the query will declare it"),
        ("/amq/queue/a", "NOT_FOUND - no queue 'a' in vhost '/'", "there is none"),
        ("/queue/a", "ACCESS_REFUSED - access to queue 'a' refused", "not known: the login may not ask"),
    ],
)
def test_whether_rabbitmq_has_the_queue(
    capsys: pytest.CaptureFixture[str], destination: str, silent: str, words: str
) -> None:
    with tcp_server(RabbitMQ("other", silent=silent).broker.serve, together=True) as port:
        assert main(["probe", f"stomp://127.0.0.1:{port}", destination]) == 0
    (told,) = re.findall(r"^    queue  +(.*)$", capsys.readouterr().out, re.MULTILINE)
    assert told.startswith(words)
    assert ("declare" in told) == ("declare" in words)


def test_tls(devbroker: DevBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = Authority(tmp_path, "ca")
    with tls_front(devbroker.port, authority.issue().server_context()) as port:
        url = f"stomp+ssl://127.0.0.1:{port}"
        assert main(["probe", url]) == 4
        assert "set tlsCaFile" in capsys.readouterr().out
        assert main(["probe", url, "-o", f"tlsCaFile={authority.ca_file}"]) == 0
        assert "TLSv1.3, TLS_" in (tls := facts(capsys.readouterr().out)["TLS"])
        assert "; certificate valid until 20" in tls and " days)" in tls
        assert main(["probe", url, "-o", "tlsVerify=false"]) == 0
        assert "the certificate was not checked" in facts(capsys.readouterr().out)["TLS"]


def test_every_address_is_tried(devbroker: DevBroker, capsys: pytest.CaptureFixture[str]) -> None:
    gone = f"stomp://127.0.0.1:{unused_port()}"
    assert main(["probe", f"{gone},{devbroker.url}"]) == 3
    out = capsys.readouterr().out
    assert (
        out.index(gone)
        < out.index("[STOMP_CONNECT_FAILED]")
        < out.index(devbroker.url)
        < out.index("broker ")
    )


class TestADestination:
    def test_says_what_would_be_asked_for(
        self, devbroker: DevBroker, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["probe", devbroker.url, "/queue/a", "-o", "prefetch=7"]) == 0
        out = capsys.readouterr().out
        assert re.search(r"/queue/a +queue, id [\w-]{6}$", out, re.MULTILINE)
        assert '{"prefetch-count": "7"}' in out
        assert devbroker.queues() == {}

    def test_that_would_be_refused(self, devbroker: DevBroker, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["probe", devbroker.url, "/topic/a"]) == 1
        assert "[STOMP_UNSUPPORTED] /topic/a is a topic" in capsys.readouterr().out
        assert main(["probe", devbroker.url, "/topic/a", "-o", "durableName=etl"]) == 0
        assert '"durable-subscription-name": "etl@/topic/a"' in capsys.readouterr().out


@pytest.mark.parametrize("dialect", DIALECTS[:-1], ids=lambda dialect: dialect.name)
def test_every_known_dialect_is_put_into_words(dialect: object) -> None:
    told = dict(_treatment(dialect))  # type: ignore[arg-type]
    assert {"window", "stable ids", "batch reads", "selectors", "durable topics"} <= told.keys()
    limits = (dialect.redelivery_limit, dialect.count_limit)  # type: ignore[attr-defined]
    assert ("redelivery" in told) == (limits != (None, None))
