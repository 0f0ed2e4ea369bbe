#!/usr/bin/env bash
# Apache Artemis 2.56.0, STOMP 1.2. A selector finds a message behind 30 MB that it does not want, but not in a queue that is
# paged to disk: there the broker reads 20 MB and no further (max-read-page-bytes, by default two pages), so the consumer
# gets nothing for as long as nobody takes the others. SUBSCRIBE is confirmed.
set -euo pipefail
stated="\
not paged: urgent
paged: None
paged, once another consumer has taken the others: urgent"

source "$(dirname "$0")/lib/artemis.sh"
start_artemis 's|<address-settings>|&\
    <address-setting match="paged"><max-size-messages>10</max-size-messages></address-setting>|'
as_stated "$port" <<'PY'
import sys
from wire import Wire

anycast = {"subscription-type": "ANYCAST", "consumer-window-size": "-1", "ack": "client-individual"}


def consumer_of(queue, kind):
    consumer = Wire(sys.argv[1])
    consumer.subscribe(queue, selector=f"kind = '{kind}'", **anycast)
    return consumer


def fill(queue):
    producer = Wire(sys.argv[1])
    to = {"destination": queue, "destination-type": "ANYCAST", "persistent": "true"}
    for _ in range(1000):
        producer.send("SEND", {**to, "kind": "usual"}, b"x" * 30_000)
    producer.confirmed("SEND", {**to, "kind": "urgent"}, b"urgent")


fill("plain")
print("not paged:", consumer_of("plain", "urgent").body(10))
fill("paged")
urgent = consumer_of("paged", "urgent")
print("paged:", urgent.body(10))
usual = consumer_of("paged", "usual")
for _ in range(1000):
    _, headers, _ = usual.frame(20)
    usual.send("ACK", {"id": headers["ack"]})
print("paged, once another consumer has taken the others:", urgent.body(20))
PY
