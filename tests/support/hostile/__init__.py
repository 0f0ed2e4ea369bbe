"""Peers that mean harm, and what becomes of those who meet them.

``python -m support.hostile`` (in tests/) runs every case and prints the table of docs/hostile-peers.md.
"""

from __future__ import annotations

from support.hostile.case import BrokerCase
from support.hostile.clients import CLIENTS, ClientCase
from support.hostile.handshakes import HANDSHAKES
from support.hostile.heartbeats import HEARTBEATS
from support.hostile.sessions import SESSIONS
from support.hostile.sinks import SINKS
from support.hostile.websockets import WEBSOCKETS

__all__ = ["CASES"]

CASES: tuple[BrokerCase | ClientCase, ...] = (
    *HANDSHAKES,
    *HEARTBEATS,
    *SESSIONS,
    *SINKS,
    *WEBSOCKETS,
    *CLIENTS,
)
