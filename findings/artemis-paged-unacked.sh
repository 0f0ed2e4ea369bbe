#!/usr/bin/env bash
# Apache Artemis 2.56.0, STOMP 1.2. `consumer-window-size:-1` asks for no limit of un-acked messages, but a queue that is
# paged to disk has one. It delivers what may be read from the pages (max-read-page-messages, here 100; max-read-page-bytes
# is 20 MB by default), and what is not ACKed counts: nothing more comes to this consumer, nor to another one.
set -euo pipefail
stated="\
not paged: about 1000 of 1000 come without an ACK
paged: about 100 of 1000 come without an ACK
paged, to a second consumer: 0
paged, after ACKs of these: about 100 more"

source "$(dirname "$0")/lib/artemis.sh"
start_artemis 's|<address-settings>|&\
    <address-setting match="paged">\
        <max-size-messages>10</max-size-messages>\
        <max-read-page-messages>100</max-read-page-messages>\
    </address-setting>|'
as_stated "$port" <<'PY'
import sys
from wire import Wire


def fill(queue):
    producer = Wire(sys.argv[1])
    to = [("destination", queue), ("destination-type", "ANYCAST"), ("persistent", "true")]
    for number in range(1, 1001):
        producer.send("SEND", to + [("receipt", "r")] * (number == 1000), b"order")
    assert producer.frame(60)[0] == "RECEIPT"


def consumer_of(queue):
    consumer = Wire(sys.argv[1])
    every = {"subscription-type": "ANYCAST", "consumer-window-size": "-1", "ack": "client-individual"}
    consumer.send("SUBSCRIBE", {"id": "1", "destination": queue, **every})
    return consumer


def come(consumer):
    """The ids of the ACKs of what comes until three seconds pass without a message."""
    acks = []
    while frame := consumer.frame(3):
        acks.append(frame[1]["ack"])
    return acks


def about(acks):
    """Up to ten more are there before the paging begins."""
    return f"about {round(len(acks), -2)}"


for title, queue in {"not paged": "plain", "paged": "paged"}.items():
    fill(queue)
    consumer = consumer_of(queue)
    acks = come(consumer)
    print(f"{title}: {about(acks)} of 1000 come without an ACK")
second = consumer_of("paged")
print("paged, to a second consumer:", len(come(second)))
second.close()
for ack in acks:
    consumer.send("ACK", {"id": ack})
print(f"paged, after ACKs of these: {about(come(consumer))} more")
PY
