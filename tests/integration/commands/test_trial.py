"""spark-stomp probe --scratch, against dev brokers that each do one thing wrong."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from spark_stomp.commands import trial
from spark_stomp.commands.main import main
from spark_stomp.commands.requirements import UNSEEN
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


READING, WRITING = "At least once, reading", "At least once, writing"
NO_SECOND = "No second row after a broken connection"
EXACTLY = "Exactly once, with a journal and an idempotent sink"
BACK_PRESSURE = "Back-pressure: the broker keeps what Spark has not asked for"
GONE = "A broker that is gone is noticed by its missing heart-beats"
ALL = {READING, WRITING, NO_SECOND, EXACTLY, BACK_PRESSURE, GONE}
NONE = "none within 0.5 s"
# A broker: what it withholds, the checks that show it, and the guarantees that do not hold.
FAULTS: list[tuple[type[core.Broker], str, dict[str, str], set[str]]] = [
    (core.Broker, "", {}, set()),
    (core.Broker, "SUBSCRIBE", {"receipt of SUBSCRIBE": NONE}, {READING}),
    (core.Broker, "SEND", {"receipt of SEND": NONE}, {WRITING}),
    (
        core.Broker,
        "ACK",
        {"receipt of ACK": NONE, "no redelivery after the ACK": "not seen: no ACK was confirmed"},
        {READING, NO_SECOND, EXACTLY},
    ),
    (
        Cumulative,
        "",
        {"ACK of one message": "the message before it was acknowledged, too"},
        {READING, NO_SECOND, EXACTLY},
    ),
    (
        Flooding,
        "",
        {
            "prefetch": "8 of 8 messages came without an ACK, 3 were asked for by prefetch-count",
            "redelivery after a cut": "6 of 6 un-acked messages redelivered",
        },
        {BACK_PRESSURE},
    ),
    (
        Forgetting,
        "",
        {
            "redelivery after a cut": "0 of 1 un-acked message redelivered",
            "ACK of one message": UNSEEN,
            "ids that survive": UNSEEN,
        },
        {READING, NO_SECOND, EXACTLY},
    ),
    (Renaming, "", {"ids that survive": "only what a producer sets"}, set()),
    (Stripping, "", {"ids that survive": "none"}, {NO_SECOND, EXACTLY}),
    (Deaf, "", {"no redelivery after the ACK": "redelivered 9 times"}, {NO_SECOND}),
    (
        Brief,
        "",
        {
            "ACK of one message": UNSEEN,
            "no redelivery after the ACK": "not seen: no ACK was confirmed",
            "ids that survive": UNSEEN,
            "prefetch": "1 of 8 messages came without an ACK, 3 were asked for by prefetch-count",
        },
        {READING, NO_SECOND, EXACTLY},
    ),
]
USUAL = {
    "STOMP versions": "1.0, 1.1, 1.2",
    "heart-beats": "every 10 s",
    "receipt of SUBSCRIBE": "yes",
    "receipt of SEND": "yes",
    "receipt of ACK": "yes",
    "ACK of one message": "the message before it was redelivered",
    "redelivery after a cut": "1 of 1 un-acked message redelivered",
    "no redelivery after the ACK": "yes",
    "ids that survive": "from message-id",
    "prefetch": "3 of 8 messages came without an ACK, 3 were asked for by prefetch-count",
}


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What never comes is awaited for less long."""
    monkeypatch.setattr(trial, "PATIENCE", 0.5)
    monkeypatch.setattr(trial, "_SILENCE", 0.2)


def probed(broker: DevBroker, *options: str) -> int:
    return main(["probe", broker.url, "--scratch", QUEUE, *options])


def results(out: str) -> dict[str, str]:
    """The result of each check, from the table."""
    lines = [line.split(" | ") for line in out.splitlines() if line.startswith("| ")]
    return {name.removeprefix("| ").strip(): result.strip() for name, result, _ in lines[2:]}


def broken(out: str) -> set[str]:
    """The guarantees that do not hold."""
    said = dict(line.split(" (contract ") for line in out.splitlines() if " (contract " in line)
    assert said.keys() == ALL
    return {name for name, verdict in said.items() if "): no, because of: " in verdict}


@pytest.mark.parametrize(
    ("kind", "withheld", "shown", "lost"), FAULTS, ids=[f"{fault[0].__name__}{fault[1]}" for fault in FAULTS]
)
def test_a_broker_that_does_one_thing_wrong(
    kind: type[core.Broker],
    withheld: str,
    shown: dict[str, str],
    lost: set[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(server, "Broker", kind)
    with DevBroker(heartbeat=(5_000, 5_000)) as broker:
        broker.faults.withhold_receipts = {withheld}
        code = probed(broker)
        # Whatever the broker did, nothing is left, unless it obeys no ACK.
        assert broker.queue(QUEUE).depth == (8 if kind is Deaf else 0)
        assert broker.connects == 8
    out = capsys.readouterr().out
    found = results(out)
    assert found.pop("server").startswith("spark-stomp-devbroker/")
    assert found == USUAL | shown
    assert broken(out) == lost
    assert code == (1 if lost & {READING, WRITING} else 0)


def test_an_ack_that_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(server, "Broker", Refusing)
    with DevBroker() as broker:
        assert probed(broker) == 1
    out = capsys.readouterr().out
    assert results(out)["receipt of ACK"].endswith(
        "refused ACK for /queue/probe: no ACKs here - no ACKs here"
    )
    assert {READING, GONE} <= broken(out)


def test_only_stomp_1_0(capsys: pytest.CaptureFixture[str]) -> None:
    with DevBroker(versions=("1.0",)) as broker:
        # ACKs then go out in the order of delivery, so that no message is lost.
        assert probed(broker) == 0
    out = capsys.readouterr().out
    found = results(out)
    assert (found["STOMP versions"], found["heart-beats"]) == ("1.0", "none")
    assert found["ACK of one message"] == "STOMP 1.0 has no client-individual"
    assert broken(out) == {NO_SECOND, EXACTLY, GONE}


def test_a_broker_that_nobody_knows(devbroker: DevBroker, capsys: pytest.CaptureFixture[str]) -> None:
    assert probed(devbroker, "-o", "broker=generic") == 0
    out = capsys.readouterr().out
    found = results(out)
    assert found["prefetch"] == "no header for it is known: 8 of 8 messages came without an ACK"
    assert found["ids that survive"] == "message-id"
    assert f"{NO_SECOND} (contract 4.3): yes, if idHeader = message-id.\n" in out
    assert broken(out) == {BACK_PRESSURE, GONE}


def test_an_id_of_the_producers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(server, "Broker", Renaming)
    with DevBroker() as broker:
        assert probed(broker) == 0
    assert "(contract 4.3): yes, if idHeader names a header with an id that producers set.\n" in (
        capsys.readouterr().out
    )


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
    assert results(capsys.readouterr().out)["prefetch"].endswith(": 1 of 8 messages came without an ACK")


def test_quiet(devbroker: DevBroker, capsys: pytest.CaptureFixture[str]) -> None:
    assert probed(devbroker, "--quiet") == 0
    assert capsys.readouterr() == ("", "")
