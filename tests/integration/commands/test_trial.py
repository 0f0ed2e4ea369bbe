"""spark-stomp probe --scratch, against dev brokers that each do one thing wrong."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import pytest

from spark_stomp.commands import trial
from spark_stomp.commands.main import main
from spark_stomp.devbroker import DevBroker, core, server
from spark_stomp.devbroker.queues import Subscription

QUEUE = "/queue/probe"


class Cumulative(core.Broker):
    """An ACK takes all earlier messages, too."""

    def subscribe(self, *args: Any, **named: Any) -> None:
        super().subscribe(*args, **(named | {"ack": "client"}))


class Flooding(core.Broker):
    """Delivers without limit."""

    def subscribe(self, *args: Any, **named: Any) -> None:
        super().subscribe(*args, **(named | {"window": None}))


class Forgetting(core.Broker):
    """Deletes the un-acked messages of a connection that ends."""

    def leave(self, member: core.Member) -> None:
        for subscription in member.subscriptions.values():
            for handle in [*subscription.unacked]:
                self.acknowledge(subscription, handle)
        super().leave(member)


class Renaming(core.Broker):
    """Gives a message another id at each delivery."""

    def leave(self, member: core.Member) -> None:
        for subscription in member.subscriptions.values():
            for message in subscription.unacked.values():
                message.message_id += "x"
        super().leave(member)


class Stripping(Renaming):
    """And drops the producer's headers at the second one."""

    def leave(self, member: core.Member) -> None:
        for subscription in member.subscriptions.values():
            for message in subscription.unacked.values():
                message.head = message.head.replace(trial.OWN_ID.encode(), b"x%d" % message.deliveries)
        super().leave(member)


class Deaf(core.Broker):
    """Confirms ACKs, and obeys none."""

    def acknowledge(self, subscription: Subscription, handle: str) -> None:
        pass


class Refusing(core.Broker):
    """Answers an ACK by an ERROR."""

    def acknowledge(self, subscription: Subscription, handle: str) -> None:
        raise core.Refused("no ACKs here")


class Shared(core.Broker):
    """Has another producer, who sends while the trial has no connection."""

    def leave(self, member: core.Member) -> None:
        super().leave(member)
        if self.view(QUEUE).depth:
            self.publish(QUEUE, b"mine")


class Moody(core.Broker):
    """Refuses the second SUBSCRIBE."""

    subscribed = 0

    def subscribe(self, *args: Any, **named: Any) -> None:
        self.subscribed += 1
        if self.subscribed == 2:
            raise core.Refused("not now")
        super().subscribe(*args, **named)


class Interrupting(Moody):
    """Presses Ctrl-C in its place."""

    def subscribe(self, *args: Any, **named: Any) -> None:
        if self.subscribed == 1:
            self.subscribed += 1
            os.kill(os.getpid(), signal.SIGINT)
        super().subscribe(*args, **named)


class Endless(core.Broker):
    """Delivers a message again and again, as long as the client takes it."""

    def publish(self, *args: Any, **named: Any) -> None:
        for _ in range(500):
            super().publish(*args, **named)


class Brief(core.Broker):
    """Delivers one message at a time."""

    def subscribe(self, *args: Any, **named: Any) -> None:
        super().subscribe(*args, **(named | {"window": 1}))


class Dropping(core.Broker):
    """Drops messages to which nobody subscribes, confirmed or not."""

    def publish(self, destination: str, *args: Any, **named: Any) -> None:
        if self._queue(destination).consumers:
            super().publish(destination, *args, **named)


UNSEEN = "not seen: too little was delivered, or redelivered"
NONE = "no: none came within 0.5 s"
# A broker: what it withholds, the checks that show it, and what reading and writing lack.
FAULTS: list[tuple[type[core.Broker], str, dict[str, str], str, str]] = [
    (core.Broker, "", {}, "", ""),
    (core.Broker, "SUBSCRIBE", {"receipt of SUBSCRIBE": NONE}, "receipt of SUBSCRIBE", ""),
    (core.Broker, "SEND", {"receipt of SEND": NONE}, "", "receipt of SEND"),
    (
        core.Broker,
        "ACK",
        {"receipt of ACK": NONE},
        "receipt of ACK",
        "",
    ),
    (
        Cumulative,
        "",
        {"ACK of a single message": "no: the message before it was ACKed too"},
        "ACK of a single message",
        "",
    ),
    (
        Flooding,
        "",
        {
            "prefetch": "no: 8 of 8 came; asked for 3 by prefetch-count",
            "redelivered after a cut": "yes: 6 of 6 un-acked messages",
        },
        "",
        "",
    ),
    (
        Forgetting,
        "",
        {
            "kept while nobody subscribes": "not seen: 7 of 8 messages",
            "redelivered after a cut": "no: 0 of 1 un-acked message",
            "ACK of a single message": UNSEEN,
            "ids that survive": UNSEEN,
        },
        "kept while nobody subscribes, redelivered after a cut, ACK of a single message",
        "kept while nobody subscribes",
    ),
    (
        Dropping,
        "",
        {"kept while nobody subscribes": "no: 0 of 8 messages"},
        "kept while nobody subscribes",
        "kept while nobody subscribes",
    ),
    (Renaming, "", {"ids that survive": "yes: if idHeader names an id that producers set"}, "", ""),
    (Stripping, "", {"ids that survive": "no: a redelivered message gives a second row"}, "", ""),
    (
        Deaf,
        "",
        {"ACK of a single message": "no: its message was redelivered"},
        "ACK of a single message",
        "",
    ),
    (
        Brief,
        "",
        {
            "ACK of a single message": UNSEEN,
            "ids that survive": UNSEEN,
            "prefetch": "yes: 1 of 8 came; asked for 3 by prefetch-count",
        },
        "ACK of a single message",
        "",
    ),
]
USUAL = {
    "receipt of SUBSCRIBE": "yes",
    "receipt of SEND": "yes",
    "receipt of ACK": "yes",
    "kept while nobody subscribes": "yes: 8 of 8 messages",
    "redelivered after a cut": "yes: 1 of 1 un-acked message",
    "ACK of a single message": "yes",
    "ids that survive": "yes: message-id",
    "prefetch": "yes: 3 of 8 came; asked for 3 by prefetch-count",
}


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What never comes is awaited for less long."""
    monkeypatch.setattr(trial, "PATIENCE", 0.5)
    monkeypatch.setattr(trial, "_SILENCE", 0.2)


def probed(broker: DevBroker, *options: str) -> int:
    return main(["probe", broker.url, "--scratch", QUEUE, *options])


def results(out: str) -> dict[str, str]:
    """What the table says of each check."""
    lines = [line.strip("|").split("|") for line in out.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line] for line in lines[1:]]
    return {name: ": ".join(filter(None, rest)) for name, *rest in rows}


def lacking(out: str) -> list[str]:
    """What reading and writing lack; "" for what is fine."""
    _, _, said = " ".join(out.splitlines()).partition("Reading: ")
    return [
        part.partition("Missing, or not seen: ")[2].strip().removesuffix(".")
        for part in said.split("Writing: ")
    ]


@pytest.mark.parametrize(
    ("kind", "withheld", "shown", "reading", "writing"),
    FAULTS,
    ids=[f"{fault[0].__name__}{fault[1]}" for fault in FAULTS],
)
def test_a_broker_that_does_one_thing_wrong(
    kind: type[core.Broker],
    withheld: str,
    shown: dict[str, str],
    reading: str,
    writing: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(server, "Broker", kind)
    with DevBroker(heartbeat=(5_000, 5_000)) as broker:
        broker.faults.withhold_receipts = {withheld}
        code = probed(broker)
        # Whatever the broker did, nothing is left, unless it obeys no ACK.
        assert broker.queue(QUEUE).depth == (8 if kind is Deaf else 0)
        assert broker.connects == 5
    out = capsys.readouterr().out
    assert results(out) == USUAL | shown
    assert lacking(out) == [reading, writing]
    assert code == bool(reading or writing)
    assert all(len(line) <= 100 for line in out.splitlines())


def test_an_ack_that_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(server, "Broker", Refusing)
    with DevBroker() as broker:
        assert probed(broker) == 1
    out = capsys.readouterr().out
    assert results(out)["receipt of ACK"].startswith("no: the broker at 127.0.0.1")
    assert lacking(out)[0].startswith("receipt of ACK")


def test_only_stomp_1_0(capsys: pytest.CaptureFixture[str]) -> None:
    with DevBroker(versions=("1.0",)) as broker:
        # ACKs then go out in the order of delivery, so that no message is lost.
        assert probed(broker) == 0
    out = capsys.readouterr().out
    found = results(out)
    assert found["ACK of a single message"] == "no: STOMP 1.0 has none"
    assert lacking(out) == ["", ""]


def test_a_broker_that_nobody_knows(devbroker: DevBroker, capsys: pytest.CaptureFixture[str]) -> None:
    assert probed(devbroker, "-o", "broker=generic") == 0
    out = capsys.readouterr().out
    found = results(out)
    assert found["prefetch"] == "no: 8 of 8 came; no header for it is known"
    assert found["ids that survive"] == "yes: if idHeader = message-id"
    assert "One that is redelivered is recognised, if idHeader = message-id.\n" in out
    # What is not known is not said.
    assert not any(word in out for word in ("selectors", "batch reads", "durable topics", "stable ids"))


def test_a_terminal_gets_no_markdown(
    devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert probed(devbroker) == 0
    out = capsys.readouterr().out
    # What is done is said meanwhile, and gone at the end.
    assert "looking whether the queue is empty" in out and "waiting for what is redelivered" in out
    plain = re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", out)
    assert "|" not in plain
    assert re.search(r"\n +kept while nobody subscribes +yes +8 of 8 messages *\n", plain)


def test_no_progress(
    devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert probed(devbroker, "--no-progress") == 0
    assert "while nobody subscribes  " in (out := capsys.readouterr().out) and "looking" not in out


class TestTheQueue:
    def test_with_messages_of_others_is_refused_and_left_as_it_was(
        self, devbroker: DevBroker, capsys: pytest.CaptureFixture[str]
    ) -> None:
        devbroker.publish_many(QUEUE, [b"one", b"two"])
        with pytest.raises(SystemExit) as left:
            probed(devbroker)
        assert left.value.code == 2
        assert "/queue/probe is a stream, or has messages that this trial did not send" in (
            capsys.readouterr().err
        )
        assert devbroker.bodies(QUEUE) == [b"one", b"two"]
        devbroker.wait_until(lambda: devbroker.queue(QUEUE).unacked == 0)

    def test_that_others_write_to_meanwhile_is_refused(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(server, "Broker", Shared)
        with DevBroker() as broker:
            with pytest.raises(SystemExit):
                probed(broker)
            assert "given back; messages of the trial may be left in it" in capsys.readouterr().err
            assert b"mine" in broker.bodies(QUEUE)

    def test_is_no_topic(self, devbroker: DevBroker, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            main(["probe", devbroker.url, "--scratch", "/topic/a"])
        assert "/topic/a is a topic, which keeps no messages" in capsys.readouterr().err

    def test_is_not_the_destination_that_is_asked_about(
        self, devbroker: DevBroker, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit):
            main(["probe", devbroker.url, "/queue/a", "--scratch", QUEUE])
        assert "give DESTINATION or --scratch" in capsys.readouterr().err

    def test_that_is_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        with DevBroker(refuse=[QUEUE]) as broker:
            assert probed(broker) == 1
        out = capsys.readouterr().out
        assert "[STOMP_DESTINATION_REFUSED]" in out and "| check" not in out

    @pytest.mark.parametrize(("kind", "code"), [(Moody, 1), (Interrupting, 130)])
    def test_is_emptied_if_the_trial_breaks_off(
        self, kind: type[core.Broker], code: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server, "Broker", kind)
        with DevBroker() as broker:
            assert probed(broker) == code
            view = broker.queue(QUEUE)
        assert (view.enqueued, view.depth) == (8, 0)


def test_a_broker_that_repeats_messages_without_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server, "Broker", Endless)
    with DevBroker() as broker:
        probed(broker, "-o", "broker=generic")
    # It ends, and has looked at a few of the 4,000.
    assert results(capsys.readouterr().out)["prefetch"].startswith("no: 1 of 8 came")


def test_quiet(devbroker: DevBroker, capsys: pytest.CaptureFixture[str]) -> None:
    assert probed(devbroker, "--quiet") == 0
    assert capsys.readouterr() == ("", "")
