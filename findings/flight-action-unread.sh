#!/usr/bin/env bash
# pyarrow 26.0.1, Flight. A do_action whose results nobody reads begins, and is ended in the middle of its work when the
# client drops the results. The client gets no error, and `except Exception` in the handler sees none.
set -euo pipefail
stated="\
results read: all 5 steps done: True
results not read: some of 5 steps done, and not the last: True
exceptions in the handler: none"

source "$(dirname "$0")/lib/common.sh"
python_with pyarrow==26.0.1
as_stated <<'PY'
import time
import pyarrow.flight as flight

done, exceptions = [], []


class Server(flight.FlightServerBase):
    def do_action(self, context, action):
        try:
            for step in range(5):
                done.append(step)
                yield f"step {step}".encode()
                time.sleep(0.5)
        except Exception as error:
            exceptions.append(error)


with Server("grpc://127.0.0.1:0") as server, flight.connect(f"grpc://127.0.0.1:{server.port}") as client:
    list(client.do_action("delete"))
    print("results read: all 5 steps done:", done == [0, 1, 2, 3, 4])
    done.clear()
    client.do_action("delete")
    time.sleep(5)
    print("results not read: some of 5 steps done, and not the last:", 0 in done and 4 not in done)
print("exceptions in the handler:", exceptions or "none")
PY
