#!/usr/bin/env bash
# pyarrow 26.0.1, Flight. That `close()` of a do_put raised nothing does not mean that the server took the batches: a
# handler that reads one of five and returns is a success for the client.
set -euo pipefail
stated="\
written: 5 batches, close() raised nothing
read by the server: 1 batches"

source "$(dirname "$0")/lib/common.sh"
python_with pyarrow==26.0.1
as_stated <<'PY'
import threading
import pyarrow as pa
import pyarrow.flight as flight

batch = pa.record_batch({"v": [1, 2, 3]})
read, written = [], threading.Event()


class Server(flight.FlightServerBase):
    def do_put(self, context, descriptor, reader, writer):
        read.append(reader.read_chunk().data)
        assert written.wait(10)


with Server("grpc://127.0.0.1:0") as server, flight.connect(f"grpc://127.0.0.1:{server.port}") as client:
    writer, _ = client.do_put(flight.FlightDescriptor.for_path("table"), batch.schema)
    for _ in range(5):
        writer.write_batch(batch)
    written.set()
    writer.close()
    print("written: 5 batches, close() raised nothing")
print(f"read by the server: {len(read)} batches")
PY
