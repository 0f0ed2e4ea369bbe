"""The engine for journals in a local directory: segments, a dedup log, a lock."""
