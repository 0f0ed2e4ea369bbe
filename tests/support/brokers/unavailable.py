"""Why a broker cannot be had."""

from __future__ import annotations


class Unavailable(Exception):
    """This broker cannot be had on this machine; the text says why."""
