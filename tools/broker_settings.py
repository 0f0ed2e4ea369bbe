"""The settings of brokers that meet a consumer of thousands of un-acked messages, each run by a test.

``reference_page.py`` writes them into ``docs/brokers.md``.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Setting(NamedTuple):
    """A ``setting`` of ``broker``, what ``happens`` to a query or a write, and what ``to_do`` about it.

    ``shown_by``: a file below ``tests``, and what in it runs the setting.
    """

    broker: str
    setting: str
    happens: str
    to_do: str
    shown_by: str


_RABBITMQ: Final = "RabbitMQ"
_ACTIVEMQ: Final = "ActiveMQ"
_ARTEMIS: Final = "Artemis"
SETTINGS: Final = (
    Setting(
        _RABBITMQ,
        "`consumer_timeout` (30 minutes)",
        "an older un-acked message ends the connection, from 4.3 on the consumer of a quorum queue",
        "longer than the longest batch and pause",
        "interop/test_rabbitmq_queues.py::test_a_cancelled_subscription_names_both_causes",
    ),
    Setting(
        _RABBITMQ,
        "`delivery-limit` (20 from 4.0 on) of a quorum queue",
        "a message is dropped or dead-lettered without a word. Runs that end without a commit and broken "
        "connections count for all that was delivered; the log warns from the tenth on",
        'the policy `{"delivery-limit": -1}`, or a `dead-letter-exchange`',
        "interop/test_rabbitmq_queues.py::test_a_count_of_deliveries_near_the_limit_is_said",
    ),
    Setting(
        _RABBITMQ,
        "`x-delayed-retry-type` of a quorum queue",
        "after a failed run nothing comes before its time, and the queue seems empty",
        "[`managementUrl`](operate.md#messages-that-do-not-come-again) tells it",
        "interop/test_withheld.py::delayed_retry",
    ),
    Setting(
        _RABBITMQ,
        "`max-connections` of a virtual host",
        "\"Virtual host '/' access denied\", tried again after 30 to 60 s",
        "room for each of `connections`, each task of a sink, and a question",
        "interop/test_forgotten.py::limit_is_reached",
    ),
    Setting(
        _RABBITMQ,
        "`x-overflow=reject-publish`",
        "a full queue breaks the connection of a write without a word",
        "room in the queue",
        "interop/test_rabbitmq_sink.py::TestAFullQueue",
    ),
    Setting(
        _RABBITMQ,
        "`stomp.max_frame_size` (4 MiB, from 3.12.2 on)",
        "a larger frame of a write breaks the connection without a word",
        "raise it: `conf/brokers/rabbitmq/frames.conf`",
        "interop/test_rabbitmq_sink.py::test_a_frame_beyond_the_limit_is_an_error_that_names_the_limit",
    ),
    Setting(
        _ACTIVEMQ,
        "`maxPageSize` (200)",
        "no batch has more of a queue, whatever `prefetch` is; all consumers share the page",
        "two batches; with `ackAfter=journal` it does not matter",
        "interop/test_dialects.py::test_pages_of_activemq_hold_no_batch_up",
    ),
    Setting(
        _ACTIVEMQ,
        "`maxPageSize` and a `selector`",
        "nothing behind so many messages that others leave there",
        "more than others leave there, without `lazyDispatch`",
        "interop/test_withheld.py::selector",
    ),
    Setting(
        _ACTIVEMQ,
        "`maxBrowsePageSize` (400)",
        "`spark.read` shows no more",
        "as many as you look at",
        "interop/test_dialects.py::test_activemq_ends_a_browse_early_and_a_batch_read_notices",
    ),
    Setting(
        _ACTIVEMQ,
        "`abortSlowAckConsumerStrategy`",
        "the consumer [goes without a word](operate.md#consumers-that-are-taken-away), after a batch of 30 s",
        "`maxTimeSinceLastAck` longer than the longest batch, or `abortConnection=true`",
        "interop/test_forgotten.py::is_slow",
    ),
    Setting(
        _ACTIVEMQ,
        "`<statisticsBrokerPlugin/>`",
        "without it nobody knows [how much waits](operate.md#why), and what was taken away",
        "switch it on",
        "interop/test_standing.py::test_it_is_what_the_management_says",
    ),
    Setting(
        _ARTEMIS,
        "`max-delivery-attempts` (10)",
        "a message is dropped, or goes to the dead letter address; lost connections count",
        "-1, or a dead letter address",
        "interop/test_looks.py::test_artemis_counts_a_look_that_is_killed",
    ),
    Setting(
        _ARTEMIS,
        "`slow-consumer-policy=KILL`",
        "closes the connection of a query in a long batch, which counts as a delivery each time",
        "NOTIFY, or a `slow-consumer-check-period` longer than the longest batch",
        "interop/test_forgotten.py::is_killed",
    ),
    Setting(
        _ARTEMIS,
        "`default-ring-size`, `default-last-value-key`, `auto-delete-queues-message-count=-1`",
        "what is un-acked when a run ends [may be gone](operate.md#messages-that-do-not-come-again)",
        "an ordinary queue that a divert fills",
        "interop/test_forgetful_queues.py::KINDS",
    ),
    Setting(
        _ARTEMIS,
        "`address-full-policy`",
        "DROP confirms a write and drops it; with FAIL the write fails",
        "PAGE, or BLOCK",
        "interop/test_artemis_queues.py::TestAFullAddress",
    ),
    Setting(
        _ARTEMIS,
        "the right `manage` on `activemq.management`",
        "without it nobody knows how much waits, nor that a queue is one of the above",
        "give it to the login",
        "interop/test_standing.py::test_a_broker_that_does_not_tell",
    ),
    Setting(
        _ARTEMIS,
        "`anycastPrefix=/queue/`, `multicastPrefix=/topic/` of the acceptor",
        "without them an address may be a topic, which keeps nothing",
        "set both, or `destinationType`",
        "interop/test_dialects.py::TestAnAddressOfArtemisWithoutPrefix",
    ),
)


def settings_table() -> str:
    """All settings as a Markdown table."""
    rows = [f"| {one.broker} | {one.setting} | {one.happens} | {one.to_do} |\n" for one in SETTINGS]
    return "| broker | setting (default) | what you meet | what to set |\n|---|---|---|---|\n" + "".join(rows)
