"""Where the password of a CONNECT comes from, and which logins are not sent again."""

from __future__ import annotations

import gc
import os
import traceback
import weakref
from pathlib import Path

import pytest
from support.options import source_options

from spark_stomp.errors import ClientIdInUse, LoginRefused, PasswordUnreadable
from spark_stomp.transport.logins import REFUSED_PAUSE, RefusedLogins, fingerprint, password_of

URL = "stomp://b"


def read(file: Path) -> str | None:
    return password_of(source_options(URL, login="ada", passwordFile=file).connection)


def test_without_a_file_it_is_the_option() -> None:
    assert password_of(source_options(URL).connection) is None
    assert password_of(source_options(URL, login="ada", password="x").connection) == "x"


@pytest.mark.parametrize(
    ("content", "password"),
    [("s3cret", "s3cret"), ("s3cret\n", "s3cret"), ("s3cret\r\n", "s3cret"), (" p ä ", " p ä "),
     ("\ufeffs3cret\r\n", "s3cret")],
)  # fmt: skip
def test_a_line_break_at_the_end_and_a_byte_order_mark_do_not_belong_to_it(
    tmp_path: Path, content: str, password: str
) -> None:
    (file := tmp_path / "password").write_bytes(content.encode())
    assert read(file) == password


def test_the_file_is_read_each_time(tmp_path: Path) -> None:
    (file := tmp_path / "password").write_text("old")
    options = source_options(URL, login="ada", passwordFile=file).connection
    assert password_of(options) == "old"
    file.write_text("new")
    assert password_of(options) == "new"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"\xff\xfes3cret", "is not UTF-8 text"),
        (b"s3cret\n\n", "more than one line"),
        (b"s3cret\nanother", "more than one line"),
        (b"s3cret\0", "a NUL"),
        (b"s3cret" * 20_000, "more than 64 KiB"),
    ],
)
def test_what_is_no_password_is_said_without_it(tmp_path: Path, content: bytes | None, said: str) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(PasswordUnreadable, match=said) as error:
        read(file)
    assert f"[STOMP_PASSWORD_UNREADABLE] passwordFile {file} " in str(error.value)
    assert "s3cret" not in "".join(traceback.format_exception(error.value))
    # Tools that report errors also look at the context, which Python does not print here.
    assert error.value.__context__ is None or isinstance(error.value.__context__, OSError)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(file := tmp_path / "password")
    with pytest.raises(PasswordUnreadable, match="is not a regular file"):
        read(file)


def test_the_content_is_in_no_repr(tmp_path: Path) -> None:
    (file := tmp_path / "password").write_text("s3cret")
    options = source_options(URL, login="ada", passwordFile=file)
    assert "s3cret" not in repr(options) and "s3cret" not in repr(read)


OLD = fingerprint("ada", "old")


@pytest.mark.rule("4.8")
class TestRefusedLogins:
    REFUSED = LoginRefused("b:1 refused CONNECT: no")

    def setup_method(self) -> None:
        self.now = 1000.0
        self.logins = RefusedLogins(lambda: self.now)

    def test_are_not_sent_again_for_half_a_minute(self) -> None:
        assert REFUSED_PAUSE >= 30
        self.logins.note(OLD, self.REFUSED)
        self.now += REFUSED_PAUSE - 1
        with pytest.raises(LoginRefused, match=r"refused CONNECT: no; that was 29 s ago, and"):
            self.logins.check(OLD)
        self.now += 1
        self.logins.check(OLD)

    def test_another_password_is_sent_at_once(self) -> None:
        self.logins.note(OLD, self.REFUSED)
        self.logins.check(fingerprint("ada", "new"))

    def test_a_client_id_in_use_is_no_refused_login(self) -> None:
        self.logins.note(OLD, ClientIdInUse("..."))
        self.logins.check(OLD)

    def test_old_ones_are_forgotten(self) -> None:
        for password in range(100):
            self.logins.note(fingerprint("ada", password), self.REFUSED)
            self.now += 1
        assert len(self.logins._known) <= REFUSED_PAUSE + 1

    def test_neither_the_password_nor_the_traceback_is_kept(self) -> None:
        class Kept:
            pass

        def refuse() -> weakref.ref[Kept]:
            local = Kept()
            try:
                raise LoginRefused("no")
            except LoginRefused as error:
                self.logins.note(fingerprint("ada", "s3cret"), error)
            return weakref.ref(local)

        kept = refuse()
        gc.collect()
        assert kept() is None
        assert "s3cret" not in repr(vars(self.logins))


def test_a_fingerprint_tells_texts_apart() -> None:
    every = [("a", "b"), ("ab",), ("ab", None), ("ab", "None"), ("a", ("b",)), ("a', 'b",)]
    assert len({fingerprint(*texts) for texts in every}) == len(every)
    assert fingerprint("a", "\udc80") == fingerprint("a", "\udc80")
