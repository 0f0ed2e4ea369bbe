#!/usr/bin/env bash
# pyarrow 26.0.1, Flight. A server's GeneratorStream may yield record batches or tables. With a dictionary-encoded column
# a record batch fails at the client, before any row, and a table of that same batch arrives.
set -euo pipefail
stated="\
RecordBatch, plain column: ['a', 'b']
RecordBatch, dictionary column: ArrowInvalid
Table, dictionary column: ['a', 'b']"

source "$(dirname "$0")/lib/common.sh"
python_with pyarrow==26.0.1
as_stated <<'PY'
import pyarrow as pa
import pyarrow.flight as flight

plain = pa.record_batch({"v": ["a", "b"]})
encoded = pa.record_batch({"v": plain["v"].dictionary_encode()})
streams = {
    "RecordBatch, plain column": (plain.schema, plain),
    "RecordBatch, dictionary column": (encoded.schema, encoded),
    "Table, dictionary column": (encoded.schema, pa.Table.from_batches([encoded])),
}


class Server(flight.FlightServerBase):
    def do_get(self, context, ticket):
        schema, data = streams[ticket.ticket.decode()]
        return flight.GeneratorStream(schema, iter([data]))


with Server("grpc://127.0.0.1:0") as server, flight.connect(f"grpc://127.0.0.1:{server.port}") as client:
    for title in streams:
        try:
            seen = client.do_get(flight.Ticket(title)).read_all()["v"].to_pylist()
        except pa.ArrowInvalid as error:
            assert "dictionaries at the start of the stream" in str(error), error
            seen = "ArrowInvalid"
        print(f"{title}: {seen}")
PY
