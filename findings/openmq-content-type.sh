#!/usr/bin/env bash
# Open MQ 6.5.0, STOMP 1.2 by its bridge. A SEND with STOMP's own header `content-type` is refused, and so is every header
# whose name is no Java identifier, because each one becomes a property of JMS.
set -euo pipefail
stated="\
no further header: RECEIPT
content-type: ERROR, Illegal character '-' used in property name content-type
order-id: ERROR, Illegal character '-' used in property name order-id
order_id: RECEIPT
2nd: ERROR, Illegal first character '2' of property name 2nd"

source "$(dirname "$0")/lib/openmq.sh"
start_openmq
as_stated "$port" <<'PY'
import sys
from wire import Wire

for header in "no further header", "content-type", "order-id", "order_id", "2nd":
    wire = Wire(sys.argv[1], login="guest", passcode="guest")
    to = {"destination": "/queue/orders", "receipt": "r"}
    wire.send("SEND", to if " " in header else {**to, header: "text/plain"}, b"order 1")
    command, headers, _ = wire.frame()
    reason = headers["message"].split("\\c ")[-1] if command == "ERROR" else None
    print(f"{header}: {command}" + (f", {reason}" if reason else ""))
    wire.close()
PY
