"""Which modules are mutated, and which quick tests each must be caught by, the most likely catcher first.

Paths in tests/, or parts of a test module as pytest names them. They run without conftest.py.
"""

from __future__ import annotations

TABLES = "property/test_session_tables.py"
CODEC = ("unit/protocol/test_decoder.py", "unit/protocol/test_scanner.py", "conformance/test_frames.py")

TARGETS: dict[str, tuple[str, ...]] = {
    "protocol/frames.py": ("unit/protocol/test_frames.py",),
    "protocol/grammar.py": ("unit/protocol/test_grammar.py", "unit/protocol/test_encoder.py", *CODEC),
    "protocol/encoder.py": ("unit/protocol/test_encoder.py",),
    "protocol/buffer.py": ("unit/protocol/test_buffer.py", *CODEC),
    "protocol/reader.py": (*CODEC, "unit/protocol/test_malformed.py", "unit/protocol/test_client.py"),
    "protocol/decoder.py": CODEC,
    "protocol/layouts.py": ("unit/protocol/test_layouts.py", "unit/protocol/test_runs.py", *CODEC),
    "protocol/scanner.py": (
        "unit/protocol/test_scanner.py",
        "unit/protocol/test_runs.py",
        "unit/protocol/test_malformed.py",
        "unit/protocol/test_decoder.py::TestWaiting",
        "conformance/test_frames.py",
    ),
    "protocol/malformed.py": ("unit/protocol/test_malformed.py",),
    "protocol/heartbeat.py": ("unit/protocol/test_heartbeat.py",),
    "protocol/versions.py": ("unit/protocol/test_versions.py",),
    "protocol/ids.py": ("unit/protocol/test_ids.py",),
    "protocol/states.py": (
        "unit/protocol/test_states.py",
        *(f"{TABLES}::{part}" for part in ("TestTables", "TestServer", "TestClient::test_remote")),
        *(f"{TABLES}::TestClient::{part}" for part in ("test_local", "test_the_end_of_input")),
    ),
    "protocol/session.py": ("unit/protocol/test_client.py", "unit/protocol/test_server.py"),
    "protocol/handshake.py": ("unit/protocol/test_handshake.py", "unit/protocol/test_client.py"),
    "protocol/client.py": ("unit/protocol/test_client.py",),
    "protocol/server.py": ("unit/protocol/test_server.py",),
}
"""Modules under spark_stomp/. Test modules that do not exist are an error."""
