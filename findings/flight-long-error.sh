#!/usr/bin/env bash
# pyarrow 26.0.1, Flight. An error travels in gRPC's metadata. If its text has 10,000 characters, the client gets it as an
# OSError, whatever was raised; at 20,000 the text is gone too, and there is an ArrowInvalid about metadata in its place.
set -euo pipefail
stated="\
FlightUnavailableError of 1000 characters: FlightUnavailableError, with its text
FlightUnavailableError of 10000 characters: OSError, with its text
FlightUnavailableError of 20000 characters: ArrowInvalid, received metadata size exceeds hard limit
FlightServerError of 1000 characters: FlightServerError, with its text
FlightServerError of 10000 characters: OSError, with its text
FlightServerError of 20000 characters: ArrowInvalid, received metadata size exceeds hard limit"

source "$(dirname "$0")/lib/common.sh"
python_with pyarrow==26.0.1
as_stated <<'PY'
import pyarrow as pa
import pyarrow.flight as flight

limit = "received metadata size exceeds hard limit"


class Server(flight.FlightServerBase):
    def do_get(self, context, ticket):
        name, length = ticket.ticket.decode().split()
        raise getattr(flight, name)("x" * int(length))


with Server("grpc://127.0.0.1:0") as server, flight.connect(f"grpc://127.0.0.1:{server.port}") as client:
    for name in "FlightUnavailableError", "FlightServerError":
        for length in 1000, 10000, 20000:
            try:
                client.do_get(flight.Ticket(f"{name} {length}")).read_all()
            except (flight.FlightError, pa.ArrowInvalid, OSError) as error:
                text = str(error)
                seen = "with its text" if text.startswith("x" * length) else limit if limit in text else text
                print(f"{name} of {length} characters: {type(error).__name__}, {seen}")
PY
