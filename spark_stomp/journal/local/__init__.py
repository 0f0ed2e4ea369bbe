"""The journal in a local directory."""
