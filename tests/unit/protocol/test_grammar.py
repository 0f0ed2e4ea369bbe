"""spark_stomp.protocol.frames: the versions' differences."""

from __future__ import annotations

import pytest

from spark_stomp.protocol import VERSIONS
from spark_stomp.protocol.frames import grammar_of


def test_there_are_four_versions() -> None:
    assert VERSIONS == ("1.0", "1.1", "1.2", "lenient")
    assert [grammar_of(version).version for version in VERSIONS] == list(VERSIONS)


class TestCommands:
    @pytest.mark.parametrize("command", ["NACK", "STOMP"])
    def test_came_with_1_1(self, command: str) -> None:
        assert [command in grammar_of(version).commands for version in VERSIONS] == [False, True, True, True]
        assert [command in grammar_of(version).sendable for version in VERSIONS] == [False, True, True, False]

    def test_with_a_body(self) -> None:
        """STOMP 1.2, "Body"; 1.0 has no such rule."""
        assert grammar_of("1.1").with_body == grammar_of("1.2").with_body == {"SEND", "MESSAGE", "ERROR"}
        assert grammar_of("1.0").with_body == grammar_of("1.0").commands
        assert grammar_of("lenient").with_body == grammar_of("lenient").commands

    def test_never_escaped(self) -> None:
        """STOMP 1.2, "Value Encoding"; STOMP is handled as CONNECT."""
        assert grammar_of("1.1").raw == grammar_of("1.2").raw == {"CONNECT", "STOMP", "CONNECTED"}
