"""Peers that mean harm, and what becomes of those who meet them.

``python -m hostile`` (in tests/) runs every case and prints the table of tests/hostile/README.md.
"""

from __future__ import annotations

from hostile.case import BrokerCase
from hostile.clients import CLIENTS, ClientCase
from hostile.scripts import SCRIPTS

__all__ = ["CASES"]

CASES: tuple[BrokerCase | ClientCase, ...] = (*SCRIPTS, *CLIENTS)
