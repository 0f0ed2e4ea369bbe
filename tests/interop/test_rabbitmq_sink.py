"""The sink and what RabbitMQ confirms or refuses without a word."""

from __future__ import annotations

import json
import threading
from collections import Counter

import pytest
from support.brokers import RabbitMQ
from support.brokers.fixtures import on_every_rabbitmq
from support.driven import Run, publish, write_columns
from support.streams import messages_of, new_stream
from support.waiting import wait_until

from spark_stomp.errors import ConnectionLost, DestinationRefused, StompError

pytestmark = pytest.mark.broker


def named(queue: str) -> str:
    return queue.replace("/queue/", "/amq/queue/")


@on_every_rabbitmq
class TestAFullQueue:
    """With reject-publish RabbitMQ ends the connection, and says nothing."""

    LIMIT = 20

    def bounded(self, rabbitmq: RabbitMQ) -> str:
        queue = rabbitmq.new_queue()
        rabbitmq.declare(queue, {"x-max-length": self.LIMIT, "x-overflow": "reject-publish"})
        return named(queue)

    @pytest.mark.rule("S.5")
    def test_is_an_error_that_says_what_is_known(self, rabbitmq: RabbitMQ) -> None:
        queue = self.bounded(rabbitmq)
        options = rabbitmq.options(reconnectTimeout="3s")
        problem = f"alone was sent to {queue}.*or the node of its queue is away.*reject-publish"
        with pytest.raises(ConnectionLost, match=problem):
            publish(options, queue, [b"%d" % number for number in range(100)])
        assert rabbitmq.standing(queue).ready == self.LIMIT

    @pytest.mark.rule("S.3")
    def test_that_is_emptied_gets_few_copies(
        self, rabbitmq: RabbitMQ, caplog: pytest.LogCaptureFixture
    ) -> None:
        queue, rows = self.bounded(rabbitmq), [b"%d" % number for number in range(300)]
        options = rabbitmq.options(reconnectDelay="20ms", reconnectDelayMax="50ms")
        writer = threading.Thread(target=publish, args=(options, queue, rows))
        came = Counter[bytes]()
        with Run(rabbitmq.options(destination=queue), prefetch=5) as query:
            writer.start()
            while writer.is_alive() or rabbitmq.depth(queue):
                query.end = query.reader.latestOffset(query.start, None)
                if query.end != query.start:
                    came.update(row["body"] for row in query.read())
                    query.commit()
            writer.join()
        assert came.keys() == {*rows}
        assert came.total() < 2 * len(rows)
        assert "RabbitMQ does so if a queue is full" in caplog.text


@pytest.mark.rule("S.5")
def test_a_frame_beyond_the_limit_is_an_error_that_names_the_limit(rabbitmq: RabbitMQ) -> None:
    """RabbitMQ 4 ends the connection, and says nothing. 3.10 has no such limit."""
    if not rabbitmq.limits_frames:
        pytest.skip("this release has no limit for frames")
    queue, setting = rabbitmq.new_queue(), "rabbitmq_stomp, max_frame_size"
    limit = rabbitmq.evaluate(f"{{ok, Limit}} = application:get_env({setting}), Limit.")
    rabbitmq.evaluate(f"application:set_env({setting}, {4 << 20}).")
    try:
        options = rabbitmq.options(reconnectTimeout="5s")
        with pytest.raises(ConnectionLost, match=f"alone was sent to {queue}.*4 MiB.*stomp.max_frame_size"):
            publish(options, queue, [b"small", b"x" * (5 << 20), b"after"])
    finally:
        rabbitmq.evaluate(f"application:set_env({setting}, {limit}).")
    # The small one comes twice if the connection ended before its receipt was read.
    assert rabbitmq.standing(queue).ready in (1, 2)


@on_every_rabbitmq
class TestAQueueThatNoSendDeclares:
    """RabbitMQ confirms and drops what is sent to any other, and to a stream while the node starts."""

    @pytest.mark.rule("S.14")
    def test_has_to_be_there(self, rabbitmq: RabbitMQ) -> None:
        queue = named(rabbitmq.new_queue())
        with pytest.raises(DestinationRefused, match="NOT_FOUND"):
            publish(rabbitmq.options(), queue, [b"x"])
        rabbitmq.declare(queue, {})
        assert publish(rabbitmq.options(), queue, [b"x"]) == 1
        assert rabbitmq.standing(queue).ready == 1

    @pytest.mark.rule("S.9", "S.14")
    def test_is_the_problem_of_the_rows_that_name_it(self, rabbitmq: RabbitMQ) -> None:
        queue, gone = rabbitmq.new_queue(), named(rabbitmq.new_queue())
        rows = {"destination": [queue, gone, queue, gone], "body": [b"0", b"1", b"2", b"3"]}
        figures = write_columns(rabbitmq.options(onError="drop"), rows).figures
        assert (figures.confirmed, figures.dropped, figures.connections) == (2, 2, 1)
        assert rabbitmq.standing(queue).ready == 2

    @pytest.mark.rule("S.14")
    def test_is_found_by_a_login_whose_password_is_a_word_of_the_answer(self, rabbitmq: RabbitMQ) -> None:
        queue = named(rabbitmq.new_queue())
        rabbitmq.declare(queue, {})
        login = f"w{queue[-8:]}"
        rabbitmq.add_user(login, "invalid", configure="", write=".*", read=".*")
        assert publish(rabbitmq.options(login=login, password="invalid"), queue, [b"x"]) == 1

    @pytest.mark.rule("S.14")
    @pytest.mark.parametrize("may", ["only write", "have one connection"])
    def test_is_not_known_to_who_may(
        self, rabbitmq: RabbitMQ, may: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Nor does this process take the refusal of a second connection for a wrong password."""
        queue = named(rabbitmq.new_queue())
        rabbitmq.declare(queue, {})
        login = f"w{queue[-8:]}"
        rabbitmq.add_user(login, "secret", configure="", write=".*", read="" if may == "only write" else ".*")
        if may == "have one connection":
            rabbitmq.limit_connections(login, 1)
        for _ in range(2):
            assert publish(rabbitmq.options(login=login, password="secret"), queue, [b"x"]) == 1
            wait_until(lambda: rabbitmq.connections == 0, what="the end of the connection")
        assert caplog.text.count(f"whether the queue of {queue} exists is not known") == 1
        assert rabbitmq.standing(queue).ready == 2

    @pytest.mark.rule("S.14")
    def test_is_there_if_another_connection_has_it_as_exclusive(self, rabbitmq: RabbitMQ) -> None:
        """Only its owner may read from it. Everyone may send to it."""
        queue = rabbitmq.new_queue()
        exclusive = json.dumps({"exclusive": "true", "durable": "false", "auto-delete": "true"})
        with Run(rabbitmq.options(destination=queue, subscribeHeaders=exclusive, allowLoss="true")) as query:
            query.idle()
            assert publish(rabbitmq.options(), named(queue), [b"x"]) == 1
            assert [row["body"] for row in query.gather(1)] == [b"x"]

    @pytest.mark.soak
    @pytest.mark.rule("S.14")
    def test_of_a_stream_nothing_is_lost_while_the_node_starts(self, rabbitmq: RabbitMQ) -> None:
        stream = new_stream(rabbitmq)
        options = rabbitmq.options(reconnectDelay="50ms", reconnectDelayMax="100ms")
        confirmed, over, number = list[str](), threading.Event(), 0

        def write() -> None:
            nonlocal number
            while not over.is_set():
                rows = [str(number + one) for one in range(5)]
                number += 5
                try:
                    publish(options, stream, [row.encode() for row in rows])
                except StompError:
                    over.wait(0.02)  # the node is away
                else:
                    confirmed.extend(rows)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(2):
                before = len(confirmed)
                wait_until(lambda count=before: len(confirmed) > count + 50, what="messages before it stops")
                rabbitmq.restart()
                before = len(confirmed)
                wait_until(lambda count=before: len(confirmed) > count + 50, what="messages after it started")
        finally:
            over.set()
            writer.join()
        assert not {*confirmed} - {body for _, body in messages_of(rabbitmq, stream)}
