#!/usr/bin/env bash
# deltalake 1.6.6 and pyarrow 26.0.1. A write with an application's transaction (app_id, version), made for writing a batch
# once, is not compared with what the table has of it: the same version is appended again, and an older one takes its place.
set -euo pipefail
stated="\
batch 7 written: 2 rows, version 7
batch 7 written again: 4 rows, version 7
batch 3 written: 6 rows, version 3"

source "$(dirname "$0")/lib/common.sh"
python_with deltalake==1.6.6 pyarrow==26.0.1
work="$work" as_stated <<'PY'
import os
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

table, rows = os.environ["work"] + "/orders", pa.table({"order": ["A1", "A2"]})
for batch, title in ((7, "batch 7 written"), (7, "batch 7 written again"), (3, "batch 3 written")):
    properties = CommitProperties(app_transactions=[Transaction("orders query", batch)])
    write_deltalake(table, rows, mode="append", commit_properties=properties)
    seen = DeltaTable(table)
    version = seen.transaction_version("orders query")
    print(f"{title}: {seen.to_pyarrow_table().num_rows} rows, version {version}")
PY
