from __future__ import annotations

import pytest

from spark_stomp.errors import VersionError
from spark_stomp.protocol.handshake import (
    ack_modes,
    best_version,
    check_refusal,
    client_version,
    has_heartbeats,
    server_version,
)

ALL = ("1.2", "1.1", "1.0")


class TestBestVersion:
    """STOMP 1.2, "Protocol Negotiation"."""

    def test_compares_numbers_not_letters(self) -> None:
        assert best_version(["1.9", "1.10"], ["1.9", "1.10"]) == "1.10"

    def test_ignores_what_is_no_version(self) -> None:
        assert best_version(["lenient", "x"], ["lenient", "x"]) is None


@pytest.mark.parametrize(
    ("version", "new"), [("1.0", False), ("1.1", True), ("1.2", True), ("lenient", False)]
)
def test_what_came_with_1_1(version: str, new: bool) -> None:
    assert has_heartbeats(version) is new
    assert ("client-individual" in ack_modes(version)) is new
    assert {"auto", "client"} <= set(ack_modes(version))


@pytest.mark.parametrize(
    ("offered", "named", "version"),
    [
        (ALL, "1.1", "1.1"),
        (ALL, "1.2", "1.2"),
        (ALL, None, "1.0"),
        (ALL, "", "1.0"),
        (("lenient",), None, "lenient"),
        (("lenient",), "1.0", "lenient"),
        (("lenient", "1.0"), "1.0", "1.0"),
        (("lenient", "1.0"), None, "lenient"),
        (("1.2", "lenient"), "1.2", "1.2"),
    ],
)
def test_the_version_that_connected_names(offered: tuple[str, ...], named: str | None, version: str) -> None:
    assert client_version(offered, named) == version


@pytest.mark.parametrize(
    ("offered", "named", "said"),
    [
        (("1.2",), "1.1", "version:1.1"),
        (("1.2",), None, "no version, which means 1.0"),
        (ALL, "2.0", "version:2.0"),
        (("lenient",), "1.1", "version:1.1"),
        (("1.2", "lenient"), "lenient", "version:lenient"),
    ],
)
def test_a_version_that_was_not_offered(offered: tuple[str, ...], named: str | None, said: str) -> None:
    with pytest.raises(VersionError, match=f"offered STOMP {', '.join(offered)}, but CONNECTED says {said}"):
        client_version(offered, named)


class TestRefusedByTheBroker:
    @pytest.mark.parametrize("versions", [None, "", "1.0,1.1,1.2", "1.2,2.0"])
    def test_another_error_is_left_alone(self, versions: str | None) -> None:
        check_refusal(("1.2",), versions, "no")

    def test_says_what_the_broker_has(self) -> None:
        with pytest.raises(
            VersionError, match=r"offered STOMP 1\.2, but the broker has 1\.1, 2\.0: cannot talk"
        ):
            check_refusal(("1.2",), "1.1,2.0", "cannot talk to you")

    def test_the_lenient_dialect_counts_as_1_0(self) -> None:
        check_refusal(("lenient",), "1.0", "no")
        with pytest.raises(VersionError):
            check_refusal(("lenient",), "1.1", "no")


class TestServerVersion:
    def test_silence_of_a_lenient_client_means_lenient_where_that_is_supported(self) -> None:
        assert server_version(None, (*ALL, "lenient"), lenient=True) == "lenient"
        assert server_version(None, ALL, lenient=True) == "1.0"
        assert server_version("1.0", (*ALL, "lenient"), lenient=True) == "1.0"
        assert server_version(None, (*ALL, "lenient"), lenient=False) == "1.0"

    @pytest.mark.parametrize("offered", ["2.0", "", None])
    def test_nothing_in_common(self, offered: str | None) -> None:
        with pytest.raises(VersionError, match=r"supported are 1\.2"):
            server_version(offered, ("1.2",), lenient=False)
