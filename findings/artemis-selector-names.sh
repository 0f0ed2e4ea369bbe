#!/usr/bin/env bash
# Apache Artemis 2.56.0, STOMP 1.2. Of the names that JMS has for a selector, some work over STOMP and some match nothing,
# though each SUBSCRIBE is confirmed: JMSType and JMSCorrelationID are found, JMSPriority, JMSTimestamp, JMSDeliveryMode
# and JMSXGroupID are not. The broker's own names are.
set -euo pipefail
stated="\
JMSType = 'invoice': b'one'
JMSCorrelationID = 'c': b'one'
JMSPriority = 7: None
AMQPriority = 7: b'one'
JMSTimestamp > 0: None
AMQTimestamp > 0: b'one'
JMSDeliveryMode = 'PERSISTENT': None
AMQDurable = 'DURABLE': b'one'
JMSXGroupID = 'g': None
_AMQ_GROUP_ID = 'g': b'one'"

source "$(dirname "$0")/lib/artemis.sh"
start_artemis
as_stated "$port" <<'PY'
import sys
from wire import Wire

port = int(sys.argv[1])
message = {
    "destination": "orders",
    "destination-type": "ANYCAST",
    "type": "invoice",
    "correlation-id": "c",
    "priority": "7",
    "persistent": "true",
    "JMSXGroupID": "g",
}
Wire(port).confirmed("SEND", message, b"one")
for selector in (
    "JMSType = 'invoice'",
    "JMSCorrelationID = 'c'",
    "JMSPriority = 7",
    "AMQPriority = 7",
    "JMSTimestamp > 0",
    "AMQTimestamp > 0",
    "JMSDeliveryMode = 'PERSISTENT'",
    "AMQDurable = 'DURABLE'",
    "JMSXGroupID = 'g'",
    "_AMQ_GROUP_ID = 'g'",
):
    # It is not acknowledged, so the next one may have it.
    wire = Wire(port)
    wire.subscribe("orders", ack="client-individual", selector=selector, **{"subscription-type": "ANYCAST"})
    frame = wire.frame(2)
    print(f"{selector}: {frame and frame[2]}")
    wire.close()
PY
