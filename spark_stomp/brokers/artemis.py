"""Apache ActiveMQ Artemis."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from spark_stomp.brokers.bodies import LOST_CONTENT, BodyMarks
from spark_stomp.brokers.destinations import DurableTopics, Naming
from spark_stomp.brokers.dialect import Dialect, ErrorTexts
from spark_stomp.brokers.outgoing import DELIVERY, EXPIRES, GROUPS, JMS, NOT_TEMPORARY, PRIORITY, Outgoing
from spark_stomp.brokers.sentences import either, of_message, passes, stays
from spark_stomp.brokers.standing import PASSING, Asks, ByStomp, Question, Standing, StompAnswers
from spark_stomp.errors import UnsupportedError
from spark_stomp.protocol.encoder import HeaderNames
from spark_stomp.quoting import shown

# It distinguishes upper and lower case in these names.
_LEFT_OUT = HeaderNames(
    # A message from a queue may be sent on to a topic, so destination-type is left out.
    DELIVERY | {"amqMessageId", "destination-type", "ingress-timestamp"},
    # Properties of the broker for duplicate detection, last values, delays and routes; properties of MQTT,
    # which must be numbers.
    ("AMQ_", "_AMQ", "__AMQ_", "__HDR_", "_HQ_", JMS, "mqtt."),
    GROUPS,
)

# A map of JMS as text: Artemis takes the number of its entries for a length, and so many octets from the
# length of the first key on for characters of UTF-16 (seen with 2.56.0 in November 2026).
_MAP = re.compile(rb"\0(?:[\xc8\xd0\xd8]\x80|[\xe0-\xef][\x80-\xbf]\x80)*")


# Seen with 2.56.0, or in its source (November 2026). Artemis does not say the cause of most: the same words
# are for a full address and for a right that is missing.
_SENTENCES = (
    passes(
        r"^AMQ229(?:005|014|034|107|108|119|120|232|237|238|240|250)\b",
        "AMQ229119: Free storage space is at 70.2GB of 270.6GB total. Usage rate is 74.0% which is "
        "beyond the configured <max-disk-usage>",
        "the disk is full, an operator has closed the connection or the consumer, a slow consumer "
        "is killed, or the broker starts or moves connections",
    ),
    passes(
        r"^(?:AMQ3390(?:07|08|09|10)\b|Error sending reply\b)",
        "AMQ339010 Connection is not valid.",
        "the broker has closed the connection, or its store failed",
    ),
    stays(
        r"^AMQ(?:229032|229213)\b.*does not have permission\b",
        "AMQ229213: User: u does not have permission='CREATE_DURABLE_QUEUE' for queue q on address q",
        "the login lacks a right",
    ),
    stays(
        r"^AMQ(?:339001|339041)\b",
        "AMQ339001 Destination does not exist q",
        "the address does not exist, or it is of the other kind (queue or topic)",
    ),
    stays(r"^AMQ229216\b", "AMQ229216: Invalid queue name:", "the name of a queue is not valid"),
    stays(
        r"^(?:Invalid selector\b|Selector cannot be empty\b|No enum constant\b)",
        'Invalid selector "a ="',
        "the selector, or the kind of the destination, is not valid",
    ),
    of_message(r"^AMQ339(?:031|040)\b", "AMQ339031 Error handling send", "a header of the message is wrong"),
    either(
        r"^AMQ(?:339011|229102)\b",
        "AMQ339011 Error sending message CoreMessage[messageID=1]",
        "the address is full, and its address-full-policy is FAIL; or the login may not send",
        remedy="Artemis says so if the address is full, and its address-full-policy is FAIL: make room "
        "there; and if the login may not send to it",
    ),
    either(
        r"^AMQ339016\b",
        "AMQ339016 Error creating subscription 1",
        "the queue has max-consumers; or the login may not read from it",
        remedy="Artemis says so if the login may not read from it, and if the queue has as many consumers "
        "as its max-consumers allows",
    ),
    of_message(
        r"^consumer with ID\b.*\bdisconnected by server",
        "consumer with ID ServerConsumerImpl [id=25, filter=null] disconnected by server",
        "a message cannot be turned into STOMP, or somebody has deleted the queue",
        unasked=True,
        remedy="Artemis says so if it cannot turn a message into STOMP, or somebody has closed the consumer",
    ),
)

_MANAGEMENT: Final = "activemq.management"
_WILDCARDS: Final = re.compile(r"[*#>]")
# The percentage of an address' limit at which it is full.
_FULL: Final = 100


def _questions(destination: str, selector: str | None) -> dict[str, Question]:
    if _WILDCARDS.search(destination):
        raise UnsupportedError("the broker tells the figures of one queue, and this is a wildcard")
    address, _, queue = destination.removeprefix("/queue/").partition("::")
    name = queue or address
    which = json.dumps({"field": "name", "operation": "EQUALS", "value": name})
    # It looks at all messages of the queue to count them.
    wanted = {"wanted": _call(f"queue.{name}", "countMessages", selector)}
    limit = (("_AMQ_ResourceName", f"address.{address}"), ("_AMQ_Attribute", "addressLimitPercent"))
    return ({} if selector is None else wanted) | {
        "queues": _call("broker", "listQueues", which, 1, 1),
        "settings": _call("broker", "getAddressSettingsAsJSON", address),
        "limit": Question(_MANAGEMENT, limit, b"[]"),
    }


def _call(resource: str, operation: str, *arguments: str | int | None) -> Question:
    headers = (("_AMQ_ResourceName", resource), ("_AMQ_OperationName", operation))
    return Question(_MANAGEMENT, headers, json.dumps(arguments).encode())


def _standing(answers: StompAnswers, selector: str | None) -> Standing:
    results = {name: json.loads(bodies[0])[0] for name, bodies in answers.items()}
    listed, percent = json.loads(results["queues"])["data"], results["limit"]
    settings = json.loads(results["settings"])
    policy = str(settings.get("addressFullMessagePolicy"))
    # With PAGE, messages that find no room in memory go to disk. With BLOCK a producer by STOMP does not wait
    # (seen with 2.56.0 in November 2026).
    full = isinstance(percent, int) and percent >= _FULL and policy in ("DROP", "FAIL")
    alarm = f"the address is full (address-full-policy {shown(policy)})" if full else None
    if not listed:
        return Standing(is_there=False, alarm=alarm)
    queue = listed[0]
    keys = ("messageCount", "deliveringCount", "scheduledCount", "consumerCount")
    messages, unacked, scheduled, consumers = (int(queue.get(key, 0)) for key in keys)
    ready = messages - unacked - scheduled
    wanted = None if selector is None else _wanted(results["wanted"], ready, unacked)
    passing = queue.get("autoDelete") == "true"
    forgetful = _forgetful(queue, settings)
    return Standing(True, ready, unacked, consumers, alarm, scheduled, wanted, passing, forgetful)


def _wanted(count: object, ready: int, unacked: int) -> int:
    """Its count has what consumers have, too. A selector that is none has a text for an answer."""
    if not isinstance(count, int):
        return ready
    return min(max(0, count - unacked), ready)


def _forgetful(queue: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    if int(queue.get("ringSize", -1)) >= 0:
        return f"a ring queue (ring-size {int(queue['ringSize'])})"
    # By default-last-value-key of an address setting it is one, and says that it is none (2.56.0).
    if queue.get("lastValue") == "true" or queue.get("lastValueKey"):
        return "a last-value queue"
    if queue.get("purgeOnNoConsumers") == "true":
        return "a queue that is purged when nobody reads it (purge-on-no-consumers)"
    passing = queue.get("autoDelete") == queue.get("autoCreated") == "true"
    return PASSING if passing and settings.get("autoDeleteQueuesMessageCount") == -1 else ""


ARTEMIS = Dialect(
    name="artemis",
    server_prefix="activemq-artemis",
    window_header="consumer-window-size",
    # The value is "consumer,message". The first part differs for each consumer.
    id_header="message-id",
    id_separator=",",
    # The broker gives ack and message-id the same value, and the first of two equal headers counts. A
    # producer's own ack comes before the broker's, its own message-id after.
    ack_header="message-id",
    # Two nodes, or one whose data was deleted, use the same numbers. The timestamp of a message by STOMP
    # is the time at which the broker took it; that of any other message is the time at which it was sent,
    # or 0. If a producer sets the header by STOMP, it comes after the broker's.
    id_time_header="timestamp",
    # Other clients translate these names; what STOMP sends is taken as it is (seen with 2.56.0 in November
    # 2026).
    not_in_selectors={
        "JMSPriority": "AMQPriority",
        "JMSTimestamp": "AMQTimestamp",
        "JMSExpiration": "AMQExpiration",
        "JMSDeliveryMode": "AMQDurable, with DURABLE for PERSISTENT and NON_DURABLE for NON_PERSISTENT",
        "JMSXGroupID": "_AMQ_GROUP_ID",
    },
    forged_versions=("1.0",),
    # It ignores "browser:true" and would consume the messages.
    browse_headers=None,
    # Without these the destination is an address that keeps no messages, unless the acceptor has
    # prefixes.
    subscribe_kind_header="subscription-type",
    send_kind_header="destination-type",
    # ADDRESS::QUEUE
    naming=Naming(queue_infix="::"),
    durable_topics=DurableTopics(
        "durable-subscription-name", needs_client_id=True, shared=True, by_name_alone=True
    ),
    most_deliveries=10,
    # Only the first message of a lost connection is marked.
    marks_redelivered=False,
    unsubscribe_returns=True,
    orphans_subscriptions=True,
    outgoing=Outgoing(
        expires_header="expires",
        text_without_length=True,
        # It drops a message if one of the last id-cache-size messages at that address had the same value.
        dedup_header="_AMQ_DUPL_ID",
        joins_messages=True,
        left_out=_LEFT_OUT,
        values=(PRIORITY, EXPIRES, NOT_TEMPORARY),
    ),
    content_types=("content-type", "JMS_AMQP_ContentType", "mqtt.content.type"),
    bodies=BodyMarks(
        lost_content=LOST_CONTENT,
        # In place of the octets of such a value the body may have others (seen with 2.56.0 in November 2026).
        scalars="JMS_AMQP_HEADER",
        # The header is of OpenWire and Artemis' own protocol; over AMQP a map has ENCODING.
        map_of_jms=("__AMQ_CID", _MAP),
        hollow=True,
        remedy="Artemis has no setting for that: have the producer send text or octets",
    ),
    errors=ErrorTexts(sentences=_SENTENCES, client_id_in_use=r"(?i:client.?id.*\bin use)"),
    asks=Asks(
        # The answers come by a topic that all askers share, so that no queue is left behind.
        ByStomp(
            replies=(("destination", "spark_stomp.replies"), ("subscription-type", "MULTICAST")),
            questions=_questions,
            standing=_standing,
            only=f"Artemis tells it only to a login with the right manage on {_MANAGEMENT}",
        ),
        withheld="the queue is paused, it waits for more consumers (consumers-before-dispatch), another "
        "consumer has it or their groups for itself (exclusive), or it is paged to disk, and what others "
        "have un-acked, or a selector leaves out, is all that is read of it (max-read-page-bytes)",
    ),
    head_of_queue="Browse it with AMQP or in the console, and remove it or move it to another address there",
    blocked_advice="look at the address's address-full-policy (DROP drops, FAIL refuses), and for AMQ222210, "
    "a full disk (max-disk-usage), in the broker's log",
    listener="Artemis: an acceptor",
)
