"""Who may log in at a dev broker, and how often that was asked."""

from __future__ import annotations

from typing import Any


class CountedUsers(dict[str, str]):
    """The passwords by login, which may change at any time. ``asked`` counts the CONNECT frames."""

    asked = 0

    def get(self, login: str, default: Any = None) -> Any:
        self.asked += 1
        return super().get(login, default)
