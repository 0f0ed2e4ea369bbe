"""spark-stomp probe --scratch, against dev brokers that each do one thing wrong."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import pytest
from support.commands import Command, Done

from spark_stomp.commands import trial
from spark_stomp.devbroker import DevBroker, core, server
from spark_stomp.devbroker.queues import Outlet, Subscription

QUEUE = "/queue/probe"


def subscribing(**changed: object) -> type[core.Broker]:
    """A broker that takes every SUBSCRIBE for one with these arguments."""

    class Changing(core.Broker):
        def subscribe(self, *args: Any, **named: Any) -> None:
            super().subscribe(*args, **(named | changed))

    return Changing


class Leaving(core.Broker):
    """Does something with the messages that a connection leaves un-acked."""

    def leave(self, member: core.Member) -> None:
        for subscription in member.subscriptions.values():
            for handle in [*subscription.unacked]:
                self.comes_back(subscription, handle)
        super().leave(member)

    def comes_back(self, subscription: Subscription, handle: str) -> None:
        raise NotImplementedError


class Forgetting(Leaving):
    """Deletes them."""

    def comes_back(self, subscription: Subscription, handle: str) -> None:
        self.acknowledge(subscription, handle)


class Renaming(Leaving):
    """Gives a message another id at each delivery."""

    def comes_back(self, subscription: Subscription, handle: str) -> None:
        subscription.unacked[handle].message_id += "x"


class Stripping(Renaming):
    """And drops the producer's headers at the second one."""

    def comes_back(self, subscription: Subscription, handle: str) -> None:
        super().comes_back(subscription, handle)
        message = subscription.unacked[handle]
        message.head = message.head.replace(trial.OWN_ID.encode(), b"x%d" % message.deliveries)


class Rewriting:
    """A client's outlet whose MESSAGEs are changed before they are sent."""

    def __init__(self, outlet: Outlet, change: Callable[[bytes], bytes]) -> None:
        self._outlet, self._change = outlet, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._outlet, name)

    def deliver(self, data: bytes) -> None:
        self._outlet.deliver(self._change(data))


def without(header: str) -> type[core.Broker]:
    """A broker whose messages have no such header, as stomp-broker-js."""

    class Lacking(core.Broker):
        def subscribe(self, member: core.Member, *args: Any, **named: Any) -> None:
            member.outlet = Rewriting(
                member.outlet, lambda data: re.sub(b"\n%b:[^\n]*" % header.encode(), b"", data, count=1)
            )
            super().subscribe(member, *args, **named)

    return Lacking


class Counting(Forgetting):
    """Forgets, and counts ids from 0 at each subscription, as Stilts."""

    def subscribe(self, member: core.Member, *args: Any, **named: Any) -> None:
        ids = count()
        member.outlet = Rewriting(
            member.outlet,
            lambda data: re.sub(b"\nmessage-id:[^\n]*", b"\nmessage-id:%d" % next(ids), data, count=1),
        )
        super().subscribe(member, *args, **named)


class Deaf(core.Broker):
    """Confirms ACKs, and obeys none."""

    def acknowledge(self, subscription: Subscription, handle: str) -> None:
        pass


class Refusing(core.Broker):
    """Answers an ACK by an ERROR."""

    def acknowledge(self, subscription: Subscription, handle: str) -> None:
        raise core.Refused(f"no ACKs here, {'whatever the client says, ' * 4}but with STOMP 1.1")


class Grudging(core.Broker):
    """Obeys an ACK, and answers it by an ERROR."""

    def acknowledge(self, subscription: Subscription, handle: str) -> None:
        super().acknowledge(subscription, handle)
        raise core.Refused("no such ACK")


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
            self.second()
        super().subscribe(*args, **named)

    def second(self) -> None:
        raise core.Refused("not now")


class Interrupting(Moody):
    """Presses Ctrl-C in its place."""

    def second(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)


class Endless(core.Broker):
    """Delivers a message again and again, as long as the client takes it."""

    def publish(self, *args: Any, **named: Any) -> None:
        for _ in range(500):
            super().publish(*args, **named)


class Dropping(core.Broker):
    """Drops messages to which nobody subscribes, confirmed or not."""

    def publish(self, destination: str, *args: Any, **named: Any) -> None:
        if self._queue(destination).consumers:
            super().publish(destination, *args, **named)


class Fault(NamedTuple):
    """A broker: what it withholds, the checks that show it, and what reading and writing lack."""

    shown: dict[str, str]
    reading: str = ""
    writing: str = ""
    kind: type[core.Broker] = core.Broker
    withheld: str = ""


UNSEEN = "not seen: too little was delivered, or redelivered"
ONE = "not seen: it delivers one message, and the next one after its ACK"
NONE = "no: none came within 0.5 s"
SUBSCRIBED, SENT, ACKED = (f"receipt of {command}" for command in ("SUBSCRIBE", "SEND", "ACK"))
KEPT, SINGLE, REDELIVERED = (
    "kept while nobody subscribes",
    "ACK of a single message",
    "redelivered after a cut",
)
IDS, HANDLE = "ids that survive", "header for the ACK"
FAULTS = {
    "none": Fault({}),
    "no receipt of SUBSCRIBE": Fault({SUBSCRIBED: NONE}, SUBSCRIBED, withheld="SUBSCRIBE"),
    "no receipt of SEND": Fault({SENT: NONE}, "", SENT, withheld="SEND"),
    "no receipt of ACK": Fault({ACKED: NONE}, ACKED, withheld="ACK"),
    "an ACK takes all earlier messages, too": Fault(
        {SINGLE: "no: the message before it was ACKed too"}, SINGLE, "", subscribing(ack="client")
    ),
    "delivers without limit": Fault(
        {
            "prefetch": "no: 8 of 8 came; asked for 3 by prefetch-count",
            REDELIVERED: "yes: 6 of 6 un-acked messages",
        },
        kind=subscribing(window=sys.maxsize),
    ),
    "forgets": Fault(
        {
            KEPT: "not seen: 7 of 8 messages",
            REDELIVERED: "no: 0 of 1 un-acked message",
            SINGLE: UNSEEN,
            IDS: UNSEEN,
        },
        f"{KEPT}, {REDELIVERED}, {SINGLE}",
        KEPT,
        Forgetting,
    ),
    "drops": Fault({KEPT: "no: 0 of 8 messages"}, KEPT, KEPT, Dropping),
    "renames": Fault({IDS: "yes: if idHeader names an id that producers set"}, kind=Renaming),
    "strips": Fault({IDS: "no: a redelivered message gives a second row"}, kind=Stripping),
    "counts ids anew": Fault(
        {
            KEPT: "not seen: 7 of 8 messages",
            REDELIVERED: "no: 0 of 1 un-acked message",
            SINGLE: UNSEEN,
            IDS: "no: two messages had one message-id: it counts from the start again",
        },
        f"{KEPT}, {REDELIVERED}, {SINGLE}",
        KEPT,
        Counting,
    ),
    "deaf": Fault({SINGLE: "no: its message was redelivered"}, SINGLE, "", Deaf),
    "delivers one message at a time": Fault(
        {SINGLE: ONE, IDS: ONE, "prefetch": "yes: 1 of 8 came; asked for 3 by prefetch-count"},
        SINGLE,
        "",
        subscribing(window=1),
    ),
}
USUAL = {
    SUBSCRIBED: "yes",
    SENT: "yes",
    ACKED: "yes",
    HANDLE: "yes: ack",
    KEPT: "yes: 8 of 8 messages",
    REDELIVERED: "yes: 1 of 1 un-acked message",
    SINGLE: "yes",
    IDS: "yes: message-id",
    "prefetch": "yes: 3 of 8 came; asked for 3 by prefetch-count",
}


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What never comes is awaited for less long."""
    monkeypatch.setattr(trial, "PATIENCE", 0.5)
    monkeypatch.setattr(trial, "_SILENCE", 0.2)


Probed = Callable[..., tuple[Done, DevBroker]]


@pytest.fixture
def probed(command: Command, monkeypatch: pytest.MonkeyPatch) -> Probed:
    """Tries a broker; what the command says, and that broker."""

    def run(
        kind: type[core.Broker], *options: str, withheld: str = "", **given: Any
    ) -> tuple[Done, DevBroker]:
        monkeypatch.setattr(server, "Broker", kind)
        with DevBroker(**given) as broker:
            broker.faults.withhold_receipts = {withheld}
            return command("probe", broker.url, "--scratch", QUEUE, *options), broker

    return run


def results(out: str) -> dict[str, str]:
    """What the table says of each check."""
    lines = [line.strip("|").split("|") for line in out.splitlines() if line.startswith("| ")]
    rows: list[list[str]] = []
    for cells in ([cell.strip() for cell in line] for line in lines[1:]):
        if cells[0]:
            rows.append(cells)
        else:  # it goes on in the next line
            rows[-1][-1] += " " + cells[-1]
    return {name: ": ".join(filter(None, rest)) for name, *rest in rows}


def lacking(out: str) -> list[str]:
    """What reading and writing lack; "" for what is fine."""
    _, _, said = " ".join(out.splitlines()).partition("Reading: ")
    said = said.partition(" Not tried: ")[0]
    parts = [part.partition("Missing, or not seen: ")[2] for part in said.split("Writing: ")]
    return [part.strip().removesuffix(".") for part in parts]


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_broker_that_does_one_thing_wrong(fault: Fault, probed: Probed) -> None:
    (code, out, _), broker = probed(fault.kind, withheld=fault.withheld, heartbeat=(5_000, 5_000))
    # Whatever the broker did, nothing is left, unless it obeys no ACK.
    assert broker.queue(QUEUE).depth == (8 if fault.kind is Deaf else 0)
    # What only subscribers get is sent once more, over another connection.
    assert broker.connects == 5 + (fault.kind is Dropping)
    assert results(out) == USUAL | fault.shown
    assert lacking(out) == [fault.reading, fault.writing]
    assert code == bool(fault.reading or fault.writing)
    assert all(len(line) <= 100 for line in out.splitlines())


def test_an_ack_that_is_refused(probed: Probed) -> None:
    (code, out, _), _ = probed(Refusing)
    assert code == 1 and results(out)[ACKED].startswith("no: the broker at 127.0.0.1")
    assert results(out)[ACKED].endswith("but with STOMP 1.1")
    assert lacking(out)[0].startswith(ACKED)
    (code, out, _), _ = probed(Grudging)
    assert code == 1 and results(out)[ACKED].startswith("no: obeyed, and answered with an ERROR: the broker")
    assert results(out)[ACKED].endswith("no such ACK")


@pytest.mark.parametrize(("version", "header"), [("1.1", "message-id"), ("1.2", "ack")])
def test_messages_that_no_ack_can_name(version: str, header: str, probed: Probed) -> None:
    (code, out, _), _ = probed(without(header), versions=(version,))
    assert code == 1 and results(out)[HANDLE] == f"no: messages have no {header}"
    assert results(out)[ACKED] == "not seen: no message came"
    assert HANDLE in lacking(out)[0]


def test_only_stomp_1_0(probed: Probed) -> None:
    """ACKs then go out in the order of delivery, so that no message is lost."""
    (code, out, _), _ = probed(core.Broker, versions=("1.0",))
    assert (code, results(out)[SINGLE]) == (0, "no: STOMP 1.0 has none")
    assert lacking(out) == ["", ""]


def test_a_broker_that_nobody_knows(probed: Probed) -> None:
    (code, out, _), _ = probed(core.Broker, "-o", "broker=generic")
    found = results(out)
    assert code == 0 and found["prefetch"] == "no: 8 of 8 came; no header for it is known"
    # Nor is an id of its own advised: it may begin again at a restart, which is not tried.
    assert found[IDS] == "yes: if idHeader names an id that producers set"
    assert "Not tried: a restart of the broker, more than 8 messages" in out
    # What is not known is not said.
    assert not any(word in out for word in ("selectors", "batch reads", "durable topics", "stable ids"))


def test_a_terminal_gets_no_markdown(probed: Probed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    (code, out, _), _ = probed(core.Broker)
    # What is done is said meanwhile, and gone at the end.
    assert "looking whether the queue is empty" in out and "waiting for what is redelivered" in out
    plain = re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", out)
    assert code == 0 and "|" not in plain
    assert re.search(r"\n +kept while nobody subscribes +yes +8 of 8 messages *\n", plain)
    (code, out, _), _ = probed(core.Broker, "--no-progress")
    assert code == 0 and "while nobody subscribes  " in out and "looking" not in out


class TestTheQueue:
    def test_with_messages_of_others_is_refused_and_left_as_it_was(
        self, devbroker: DevBroker, command: Command
    ) -> None:
        devbroker.publish_many(QUEUE, [b"one", b"two"])
        done = command("probe", devbroker.url, "--scratch", QUEUE)
        assert done.code == 2
        assert "/queue/probe is a stream, or has messages that this trial did not send" in done.err
        assert devbroker.bodies(QUEUE) == [b"one", b"two"]
        devbroker.wait_until(lambda: devbroker.queue(QUEUE).unacked == 0)

    def test_that_others_write_to_meanwhile_is_refused(self, probed: Probed) -> None:
        done, broker = probed(Shared)
        assert done.code == 2 and b"mine" in broker.bodies(QUEUE)
        assert "given back; messages of the trial may be left in it" in done.err

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            (["--scratch", "/topic/a"], "/topic/a is a topic, which keeps no messages"),
            (["/queue/a", "--scratch", QUEUE], "give DESTINATION or --scratch"),
        ],
    )
    def test_is_a_queue_and_the_only_destination(
        self, devbroker: DevBroker, command: Command, arguments: list[str], error: str
    ) -> None:
        done = command("probe", devbroker.url, *arguments)
        assert done.code == 2 and error in done.err

    def test_that_is_refused(self, probed: Probed) -> None:
        (code, out, _), _ = probed(core.Broker, refuse=[QUEUE])
        assert code == 1 and "[STOMP_DESTINATION_REFUSED]" in out and "| check" not in out

    @pytest.mark.parametrize(("kind", "code"), [(Moody, 1), (Interrupting, 130)])
    def test_is_emptied_if_the_trial_breaks_off(
        self, kind: type[core.Broker], code: int, probed: Probed
    ) -> None:
        done, broker = probed(kind)
        view = broker.queue(QUEUE)
        assert (done.code, view.enqueued, view.depth) == (code, 8, 0)


def test_a_broker_that_repeats_messages_without_end(probed: Probed) -> None:
    """It ends, and has looked at a few of the 4,000."""
    (_, out, _), _ = probed(Endless, "-o", "broker=generic")
    assert results(out)["prefetch"].startswith("no: 1 of 8 came")


def test_quiet(probed: Probed) -> None:
    assert probed(core.Broker, "--quiet")[0] == (0, "", "")
