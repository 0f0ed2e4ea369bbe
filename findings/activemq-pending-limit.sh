#!/usr/bin/env bash
# Apache ActiveMQ Classic 6.3.1, STOMP 1.2. A subscriber of a topic that asks with `activemq.maximumPendingMessageLimit` to be
# spared old messages gets all of them, unless the policy of the topic has a limit of its own: then the lower one holds. What
# is left out is then among the dead letters of the broker, though the subscription is not durable.
set -euo pipefail
stated="\
policy without a limit: 100 of 100, dead letters 0
policy with a limit of 50: 20 of 100, dead letters 80"

source "$(dirname "$0")/lib/activemq.sh"
activemq_setup='
        var limit = new org.apache.activemq.broker.region.policy.ConstantPendingMessageLimitStrategy();
        limit.setLimit(50);
        var policy = new org.apache.activemq.broker.region.policy.PolicyEntry();
        policy.setTopic("limited.>");
        policy.setPendingMessageLimitStrategy(limit);
        var policies = new org.apache.activemq.broker.region.policy.PolicyMap();
        policies.setPolicyEntries(java.util.List.of(policy));
        broker.setDestinationPolicy(policies);'
start_activemq
as_stated "$stomp" <<'PY'
import sys
from wire import Wire


def come(wire):
    """How many messages come; what has come is ACKed when there is a pause."""
    acks, count = [], 0
    while True:
        frame = wire.frame(0.5 if acks else 3)
        if frame:
            acks.append(frame[1]["ack"])
        elif acks:
            count += len(acks)
            for one in acks:
                wire.send("ACK", {"id": one})
            acks = []
        else:
            return count


asked = {"activemq.maximumPendingMessageLimit": "10", "activemq.prefetchSize": "10"}
for title, topic in {"without a limit": "/topic/prices", "with a limit of 50": "/topic/limited.prices"}.items():
    wire, producer = Wire(sys.argv[1]), Wire(sys.argv[1])
    wire.subscribe(topic, ack="client-individual", **asked)
    for number in range(100):
        producer.confirmed("SEND", {"destination": topic, "persistent": "true"}, str(number).encode())
    count = come(wire)
    dead = Wire(sys.argv[1])
    dead.subscribe("/queue/ActiveMQ.DLQ", ack="client-individual")
    print(f"policy {title}: {count} of 100, dead letters {come(dead)}")
PY
