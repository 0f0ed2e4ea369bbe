from __future__ import annotations

import pytest

from spark_stomp.errors import LocalProtocolError
from spark_stomp.protocol.versions import (
    accept_version_header,
    ack_modes,
    best_version,
    has_heartbeats,
    has_nack,
    parse_version_list,
    validate_versions,
)


class TestHeader:
    """STOMP 1.2, "CONNECT or STOMP Frame": accept-version."""

    def test_is_a_comma_list_without_spaces_newest_first(self) -> None:
        assert accept_version_header(("1.0", "1.2", "1.1")) == "1.2,1.1,1.0"

    def test_leaves_out_the_lenient_dialect_and_repeats(self) -> None:
        assert accept_version_header(("lenient", "1.1", "1.1")) == "1.1"

    def test_is_absent_where_nothing_is_negotiated(self) -> None:
        assert accept_version_header(("lenient",)) is None

    def test_reads_with_spaces_and_gaps(self) -> None:
        assert parse_version_list("1.2, 1.1 ,,1.0") == ("1.2", "1.1", "1.0")
        assert parse_version_list("") == ()


class TestBestVersion:
    """STOMP 1.2, "Protocol Negotiation"."""

    def test_is_the_highest_that_both_have(self) -> None:
        assert best_version(["1.0", "1.1"], ["1.2", "1.1", "1.0"]) == "1.1"

    def test_compares_numbers_not_letters(self) -> None:
        assert best_version(["1.9", "1.10"], ["1.9", "1.10"]) == "1.10"

    def test_is_none_without_a_common_one(self) -> None:
        assert best_version(["2.0"], ["1.2"]) is None

    def test_ignores_what_is_no_version(self) -> None:
        assert best_version(["lenient", "x"], ["lenient", "x"]) is None


@pytest.mark.parametrize("versions", [(), ("1.3",), ("1.2", "foo")])
def test_only_known_versions_can_be_offered(versions: tuple[str, ...]) -> None:
    with pytest.raises(LocalProtocolError, match=r"allowed are 1\.0, 1\.1, 1\.2, lenient"):
        validate_versions(versions)


@pytest.mark.parametrize(
    ("version", "new"), [("1.0", False), ("1.1", True), ("1.2", True), ("lenient", False)]
)
def test_what_came_with_1_1(version: str, new: bool) -> None:
    assert has_heartbeats(version) is new
    assert has_nack(version) is new
    assert ("client-individual" in ack_modes(version)) is new
    assert {"auto", "client"} <= set(ack_modes(version))
