"""The journal on an object store, or on a mount whose files cannot be appended to."""
