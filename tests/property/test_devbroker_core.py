"""Whatever clients do to a queue, no message of it is lost, doubled or put out of order."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from spark_stomp.devbroker.core import Broker, Member
from spark_stomp.devbroker.queues import Message

QUEUE = "/queue/a"


class Outlet:
    version = "1.2"

    def __init__(self) -> None:
        self.room = 1 << 30

    def can_take(self, message: Message) -> bool:
        return True

    def deliver(self, data: bytes) -> None:
        self.room -= len(data)


class QueueMachine(RuleBasedStateMachine):
    """Clients come, take, acknowledge, reject and go; a model counts along."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = Broker(clock=lambda: 0.0)
        self.members: list[Member] = []
        self.standing: list[bytes] = []
        self.published = 0

    @rule(count=st.integers(1, 5))
    def publish(self, count: int) -> None:
        for _ in range(count):
            self.published += 1
            body = b"%d" % self.published
            self.standing.append(body)
            self.broker.publish(QUEUE, body)
        self.broker.dispatch()

    @rule(window=st.integers(1, 4), ack=st.sampled_from(["client", "client-individual"]))
    def subscribe(self, window: int, ack: str) -> None:
        member = Member(Outlet())
        self.broker.subscribe(member, "0", QUEUE, ack=ack, window=window)
        self.members.append(member)
        self.broker.dispatch()

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from(self.members))
        self.members.remove(member)
        self.broker.leave(member)
        self.broker.dispatch()

    @precondition(lambda self: self.holders())
    @rule(data=st.data(), reject=st.booleans())
    def ack_or_nack(self, data: st.DataObject, reject: bool) -> None:
        member = data.draw(st.sampled_from(self.holders()))
        subscription = member.subscriptions["0"]
        handle = data.draw(st.sampled_from(list(subscription.unacked)))
        if reject:
            self.broker.reject(subscription, handle)
        else:
            for covered in subscription.covered(handle):
                self.standing.remove(subscription.unacked[covered].body)
            self.broker.acknowledge(subscription, handle)
        self.broker.dispatch()

    def holders(self) -> list[Member]:
        return [member for member in self.members if member.subscriptions["0"].unacked]

    @invariant()
    def nothing_is_lost_doubled_or_out_of_order(self) -> None:
        assert self.broker.bodies(QUEUE) == self.standing

    @invariant()
    def the_figures_agree(self) -> None:
        view = self.broker.view(QUEUE)
        held = sum(len(member.subscriptions["0"].unacked) for member in self.members)
        assert view.enqueued == self.published
        assert view.depth == len(self.standing)
        assert view.unacked == held
        assert view.acked == self.published - len(self.standing)
        assert view.delivered >= view.redelivered

    @invariant()
    def windows_are_kept_and_used(self) -> None:
        ready = len(self.standing) - self.broker.view(QUEUE).unacked
        for member in self.members:
            subscription = member.subscriptions["0"]
            assert len(subscription.unacked) <= subscription.window
            assert not ready or len(subscription.unacked) == subscription.window


TestQueue = QueueMachine.TestCase
