"""The pair of a run, made either way: what is in it, and where its key is not."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from spark_stomp.errors import OptionError
from spark_stomp.exchange import pair
from spark_stomp.exchange.pair import NAME, Pair, new_pair

Make = Callable[[], Pair]


@pytest.fixture(params=["cryptography", "openssl"])
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes a pair with one of the two alone."""

    def made() -> Pair:
        with monkeypatch.context() as patch:
            if request.param == "openssl":
                without_cryptography(patch)
            else:
                patch.setenv("PATH", "")
            return new_pair()

    return made


def without_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)


def certificate(made: Pair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(made.certificate)


def test_it_is_self_signed_for_the_fixed_name(make: Make) -> None:
    found = certificate(make())
    found.verify_directly_issued_by(found)
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [NAME]


def test_its_key_is_the_certificates(make: Make) -> None:
    made = make()
    key = load_pem_private_key(made.key, password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.public_key() == certificate(made).public_key()


def test_no_clock_is_so_wrong_that_it_is_not_valid(make: Make) -> None:
    found, now = certificate(make()), datetime.now(timezone.utc)
    assert found.not_valid_before_utc < now - timedelta(days=20 * 365)
    assert found.not_valid_after_utc > now + timedelta(days=1000 * 365)


def test_each_is_another(make: Make) -> None:
    one, two = make(), make()
    assert one.key != two.key
    assert certificate(one).serial_number != certificate(two).serial_number


def test_it_is_not_shown_and_travels_whole(make: Make) -> None:
    made = make()
    assert "BEGIN" not in repr(made)
    assert pickle.loads(pickle.dumps(made)) == made


def test_no_file_ever_holds_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []
    run: Any = subprocess.run

    def look_and_run(command: list[str], **more: Any) -> Any:
        done = run(command, **more)
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert not any("PRIVATE KEY" in path.read_text() for path in files)
        assert all(path.parent.stat().st_mode & 0o77 == 0 for path in files)
        assert "PRIVATE KEY" not in " ".join(command)
        seen.extend(files)
        return done

    without_cryptography(monkeypatch)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(subprocess, "run", look_and_run)
    new_pair()
    assert seen, "the commands left no trace: this test looked in the wrong place"
    assert list(tmp_path.iterdir()) == []


def test_the_temporary_folder_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = tmp_path / "a $b #c"
    odd.mkdir()
    without_cryptography(monkeypatch)
    monkeypatch.setattr("tempfile.tempdir", str(odd))
    assert b"CERTIFICATE" in new_pair().certificate


def test_with_neither_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_cryptography(monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        OptionError, match=r"cryptography.*openssl.*spark-stomp\[exchange\].*exchangeTls=false"
    ):
        new_pair()


def test_a_command_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "openssl"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    without_cryptography(monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OptionError, match=r"openssl failed.*status 3"):
        new_pair()


def test_a_command_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hanging = tmp_path / "openssl"
    hanging.write_text("#!/bin/sh\nexec /bin/sleep 600\n")
    hanging.chmod(0o755)
    without_cryptography(monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(pair, "_LONGEST", 0.1)
    with pytest.raises(OptionError, match=r"openssl failed.*timed out"):
        new_pair()
