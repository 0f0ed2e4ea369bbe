#!/usr/bin/env bash
# Apache ActiveMQ Classic 6.3.1, STOMP 1.2. A topic's policy keeps the last three messages for retroactive subscribers. A
# durable subscription that asks for them gets them again after each new connection, though it has ACKed them, with the
# same ids and without `redelivered`; not if something has come for it meanwhile.
set -euo pipefail
stated="\
first connection: 4 5 6
second, all ACKed before: 4 5 6
third, with one more meanwhile: 7
marked as redelivered: none"

source "$(dirname "$0")/lib/activemq.sh"
activemq_setup='
        var last = new org.apache.activemq.broker.region.policy.FixedCountSubscriptionRecoveryPolicy();
        last.setMaximumSize(3);
        var policy = new org.apache.activemq.broker.region.policy.PolicyEntry();
        policy.setTopic(">");
        policy.setSubscriptionRecoveryPolicy(last);
        var policies = new org.apache.activemq.broker.region.policy.PolicyMap();
        policies.setPolicyEntries(java.util.List.of(policy));
        broker.setDestinationPolicy(policies);'
start_activemq
as_stated "$stomp" <<'PY'
import sys
from wire import Wire

marked = []


def send(number):
    to = {"destination": "/topic/prices", "persistent": "true"}
    Wire(sys.argv[1]).confirmed("SEND", to, str(number).encode())


def read():
    """What comes to the durable subscription, all of it ACKed."""
    wire, bodies, acks = Wire(sys.argv[1], **{"client-id": "spark"}), [], []
    durable = {"activemq.subscriptionName": "prices", "activemq.retroactive": "true"}
    wire.subscribe("/topic/prices", ack="client-individual", **durable)
    while frame := wire.frame(2):
        _, headers, body = frame
        bodies.append(body.decode())
        marked.extend(headers["redelivered"] for _ in "1" if headers.get("redelivered") == "true")
        acks.append(headers["ack"])
    for ack in acks:
        wire.confirmed("ACK", {"id": ack})
    wire.confirmed("DISCONNECT", {})
    wire.close()
    return " ".join(bodies)


for number in range(1, 7):
    send(number)
print("first connection:", read())
print("second, all ACKed before:", read())
send(7)
print("third, with one more meanwhile:", read())
print("marked as redelivered:", len(marked) or "none")
PY
