#!/usr/bin/env bash
# Apache Artemis 2.56.0, STOMP 1.2. An address with the address-full-policy BLOCK lets no producer wait that speaks STOMP:
# twenty times max-size-bytes are sent, confirmed and kept.
set -euo pipefail
stated="\
policy BLOCK, 20,000 bytes: 400 of 400 messages of 1,000 bytes confirmed
of these there: 400"

source "$(dirname "$0")/lib/artemis.sh"
start_artemis 's|<address-settings>|&\
    <address-setting match="orders">\
        <max-size-bytes>20000</max-size-bytes>\
        <address-full-policy>BLOCK</address-full-policy>\
    </address-setting>|'
as_stated "$port" <<'PY'
import sys
from wire import Wire

wire = Wire(sys.argv[1])
to = {"destination": "orders", "destination-type": "ANYCAST", "persistent": "true"}
confirmed = 0
for _ in range(400):
    wire.send("SEND", {**to, "receipt": "r"}, b"x" * 1000)
    confirmed += (wire.frame(5) or ("",))[0] == "RECEIPT"
print("policy BLOCK, 20,000 bytes:", confirmed, "of 400 messages of 1,000 bytes confirmed")
wire.subscribe("orders", ack="auto", **{"subscription-type": "ANYCAST"})
came = 0
while wire.frame(2):
    came += 1
print("of these there:", came)
PY
