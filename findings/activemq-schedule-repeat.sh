#!/usr/bin/env bash
# Apache ActiveMQ Classic 6.3.1 with its scheduler, STOMP 1.2. AMQ_SCHEDULED_REPEAT or AMQ_SCHEDULED_PERIOD alone schedules
# nothing: the message comes once, with the header as it was sent. The number of repetitions counts only beside both others
# or beside a delay, and counts what comes after the first.
set -euo pipefail
stated="\
AMQ_SCHEDULED_REPEAT 2: once
AMQ_SCHEDULED_PERIOD 300: once
AMQ_SCHEDULED_REPEAT 2, AMQ_SCHEDULED_PERIOD 300: 3 times"

source "$(dirname "$0")/lib/activemq.sh"
activemq_setup='broker.setSchedulerSupport(true);'
start_activemq
as_stated "$stomp" <<'PY'
import sys
from wire import Wire

wire = Wire(sys.argv[1])
wire.subscribe("/queue/reminders")
repeat, period = {"AMQ_SCHEDULED_REPEAT": "2"}, {"AMQ_SCHEDULED_PERIOD": "300"}
for headers in repeat, period, repeat | period:
    wire.confirmed("SEND", {"destination": "/queue/reminders", **headers}, b"pay")
    times = 0
    while wire.frame(3):
        times += 1
    print(", ".join(map(" ".join, headers.items())) + ":", "once" if times == 1 else f"{times} times")
PY
