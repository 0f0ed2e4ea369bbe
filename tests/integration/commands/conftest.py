"""Fixtures of the tests of commands."""

from __future__ import annotations

from support.commands import command

__all__ = ["command"]
