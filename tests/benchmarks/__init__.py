"""Programs that measure; run from ``tests/``: ``python -m benchmarks.codec``."""
