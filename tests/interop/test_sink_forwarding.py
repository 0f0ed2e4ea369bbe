"""Messages of a producer who sets what he likes, forwarded by the sink: none is lost, and no query stops."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from math import ceil

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.brokers import Broker
from support.brokers.fixtures import on_every_release, on_real_brokers
from support.driven import Run, write_columns
from support.hostile_headers import CHECKED, values_of
from support.options import sink_options
from support.session import send, subscribe
from support.waiting import PATIENCE, wait_until

from spark_stomp.brokers import dialect_named
from spark_stomp.errors import StompError
from spark_stomp.protocol import Frame
from spark_stomp.protocol.encoder import SEND_OWNS
from spark_stomp.sink.write import TaskResult
from spark_stomp.transport import open_connection

Pairs = list[tuple[str, str]]


def publish(broker: Broker, queue: str, headers: Iterable[tuple[str, str]]) -> None:
    """A message for each header that the broker lets a producer set, as any STOMP client may send it."""
    own = dialect_named(broker.dialect).queue_headers
    options = sink_options(broker.url, **broker.credentials).connection
    never = {*SEND_OWNS, *CHECKED}
    waiting = [pair for pair in headers if pair[0] not in never and pair not in own]
    while waiting:
        # A broker that refuses one may close the connection, and ActiveMQ is slow to take the next one then.
        with contextlib.suppress(StompError), open_connection(options) as connection:
            session = connection.session
            while waiting:
                header, receipt = waiting.pop(), session.new_receipt()
                others = [pair for pair in own if pair[0] != header[0]]
                send(session, queue, b"x", headers=[("persistent", "true"), *others, header], receipt=receipt)
                connection.await_receipts({receipt: "SEND"}, PATIENCE)


def produced(broker: Broker, queue: str) -> Iterator[Pairs]:
    """The headers of what came into the queue, as the source has them.

    Artemis confirms a few messages with nonsense in them and delivers them to nobody.
    """
    with Run(broker.options(destination=queue), ("body", "headers")) as query:
        yield from [[*row["headers"]] for row in query.gather(ceil(0.9 * broker.depth(queue)))]


def forward(broker: Broker, rows: list[Pairs], queues: list[str]) -> TaskResult:
    bodies = [b"%d" % number for number in range(len(rows))]
    options = broker.options(onError="drop", reconnectTimeout="5s")
    return write_columns(options, {"body": bodies, "headers": rows, "destination": queues})


def arrived(broker: Broker, queues: list[str], count: int) -> set[int]:
    """The numbers of the messages in all these queues, by another connection than the sink's."""
    dialect, found = dialect_named(broker.dialect), set[int]()
    with open_connection(sink_options(broker.url, **broker.credentials).connection) as connection:
        for number, queue in enumerate(queues):
            headers = dialect.subscribe_headers(queue, 10)
            subscribe(connection.session, str(number), queue, ack="client-individual", headers=headers)

        def complete() -> bool:
            events = connection.poll(0.2)
            found.update(int(event.body) for event in events if isinstance(event, Frame))
            others = [event for event in events if not isinstance(event, Frame)]
            assert not others, others
            return len(found) >= count

        wait_until(complete, what=f"{count} messages")
    return found


@on_real_brokers
@pytest.mark.timeout(300)
@pytest.mark.rule("S.13")
def test_what_a_producer_says_to_the_broker_is_not_said_again(broker: Broker) -> None:
    """Each message goes to a queue that is not there before, and is there when the sink has gone."""
    source = broker.new_queue()
    forward(broker, [[]], [source])
    hostile = values_of(broker)
    # This way RabbitMQ does not compare what the headers say with how the queue is.
    publish(
        broker, source.replace("/queue/", "/amq/queue/") if broker.dialect == "rabbitmq" else source, hostile
    )
    rows = [*produced(broker, source), *([header] for header in hostile)]
    queues = [f"{source}-{number}" for number in range(len(rows))]
    result = forward(broker, rows, queues)
    figures = result.figures
    assert (result.refused, figures.connections, figures.resent) == (None, 1, 0)
    assert figures.confirmed + figures.dropped == len(rows)
    there = arrived(broker, queues, figures.confirmed)
    assert len(there) == figures.confirmed
    for number in set(range(len(rows))) - there:
        # RabbitMQ: some values have at most 255 bytes.
        too_long = any(len(value.encode()) > 255 for _, value in rows[number])
        assert too_long or {name for name, _ in rows[number]} & set(CHECKED), rows[number]
    assert figures.dropped < len(hostile) / 5


class TestNames:
    """A row's ``destination`` is where its message came from, and the sink sends it there again."""

    @on_every_release
    # The same names in each run, and none are made smaller: each try takes seconds.
    @settings(
        max_examples=2,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(data=st.data())
    def test_a_round_trip(self, broker: Broker, data: st.DataObject) -> None:
        names = data.draw(st.lists(names_of(broker.dialect), min_size=20, max_size=20, unique=True))
        first = broker.new_queue()
        queues = [f"{first}{name}z{number}" for number, name in enumerate(names)]
        forward(broker, [[]] * len(queues), queues)
        columns = ("body", "headers", "destination")
        with Run(broker.options(destination=json.dumps(queues), connections=1), columns) as query:
            rows = query.gather(len(queues))
            query.commit()
            back = {row["body"]: row["destination"] for row in rows}
            forward(broker, [[*row["headers"]] for row in rows], [row["destination"] for row in rows])
            again = [row["destination"] for row in query.gather(len(queues))]
            query.commit()
        assert [back[b"%d" % number] for number in range(len(queues))] == queues
        assert sorted(again) == sorted(queues)


def names_of(dialect: str) -> st.SearchStrategy[str]:
    """Beginnings of queues' names. Commas, question marks, wildcards and ``::`` are more than names to
    ActiveMQ and Artemis, and to RabbitMQ ``%2F`` is a slash."""
    meant = {"activemq": ",?*>.", "artemis": ",?*#>.:", "rabbitmq": "/"}.get(dialect, "")
    letters = st.characters(
        codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"], exclude_characters=meant
    )
    signs = st.sampled_from(["%", "%25", "%C3%A9", "é", "漢", "+", "a b", "\\", ":", "~", '"', "😀"])
    return (
        st.lists(letters | signs, max_size=8)
        .map("".join)
        .filter(lambda name: "%2F" not in name and "::" not in name)
    )
