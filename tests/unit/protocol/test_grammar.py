"""spark_stomp.protocol.grammar: the versions' differences."""

from __future__ import annotations

import pytest

from spark_stomp.errors import FrameSyntaxError, LocalProtocolError
from spark_stomp.protocol import VERSIONS, escape, grammar, unescape
from spark_stomp.protocol.grammar import grammar_of


def test_there_are_four_versions() -> None:
    assert VERSIONS == ("1.0", "1.1", "1.2", "lenient")
    assert [grammar_of(version).version for version in VERSIONS] == list(VERSIONS)


def test_any_other_version_is_refused() -> None:
    with pytest.raises(
        LocalProtocolError, match=r"unknown STOMP version '1\.3'; known are 1\.0, 1\.1, 1\.2, lenient"
    ):
        grammar_of("1.3")


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


class TestEscaping:
    def test_colons_alone_have_a_quicker_way(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delattr(grammar, "_ESCAPE")
        for version in ("1.1", "1.2"):
            assert unescape(b"ID\\cbroker\\c1\\c", version) == "ID:broker:1:"

    @pytest.mark.parametrize(
        ("version", "wire"),
        [
            ("1.0", "\\:\n\r"),
            ("lenient", "\\:\n\r"),
            ("1.1", "\\\\\\c\\n\r"),
            ("1.2", "\\\\\\c\\n\\r"),
        ],
    )
    def test_per_version(self, version: str, wire: str) -> None:
        assert escape("\\:\n\r", version) == wire
        assert unescape(wire, version) == unescape(wire.encode(), version) == "\\:\n\r"

    @pytest.mark.parametrize(
        ("wire", "text"),
        [
            ("\\\\n", "\\n"),
            ("\\\\\\n", "\\\n"),
            ("\\\\\\\\c", "\\\\c"),
            ("\\c\\\\c", ":\\c"),
            ("\\c\\c", "::"),
            ("a\\nb\\cc", "a\nb:c"),
        ],
    )
    def test_is_undone_in_one_pass(self, wire: str, text: str) -> None:
        assert unescape(wire, "1.2") == unescape(wire, "1.1") == text

    @pytest.mark.parametrize(
        ("version", "wire"),
        [("1.1", "a\\r"), ("1.1", "\\t"), ("1.2", "\\t"), ("1.2", "a\\"), ("1.2", "\\c\\\n")],
    )
    def test_an_undefined_escape_is_fatal(self, version: str, wire: str) -> None:
        """STOMP 1.2, "Value Encoding": undefined escape sequences are a fatal protocol error."""
        with pytest.raises(FrameSyntaxError, match=rf"undefined escape .* \(STOMP {version}\)"):
            unescape(wire, version)

    @pytest.mark.parametrize("version", ["1.0", "lenient"])
    def test_without_escapes_a_backslash_is_a_backslash(self, version: str) -> None:
        assert unescape(b"C:\\new\\t\\", version) == "C:\\new\\t\\"

    def test_invalid_utf_8_is_fatal(self) -> None:
        with pytest.raises(FrameSyntaxError, match="UTF-8"):
            unescape(b"\xff", "1.2")
