"""The engine for journals in an object store, or on a mount whose files cannot be appended to."""
