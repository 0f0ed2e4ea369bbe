"""spark_stomp.errors: codes are stable, unique, documented, and survive the way between processes."""

from __future__ import annotations

import pickle
import re

import pytest

from spark_stomp import errors
from spark_stomp.errors import OptionError, StompError

CLASSES = [getattr(errors, name) for name in errors.__all__]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
class TestEveryError:
    @pytest.mark.rule("7.3")
    def test_text_begins_with_its_code(self, cls: type[StompError]) -> None:
        assert str(cls("what was wrong")) == f"[{cls.code}] what was wrong"
        assert re.fullmatch(r"STOMP_[A-Z_]+", cls.code)

    @pytest.mark.rule("7.3")
    def test_survives_pickling(self, cls: type[StompError]) -> None:
        again = pickle.loads(pickle.dumps(cls("what was wrong")))
        assert (type(again), str(again)) == (cls, str(cls("what was wrong")))

    def test_has_its_own_code(self, cls: type[StompError]) -> None:
        assert [other.__name__ for other in CLASSES if other.code == cls.code] == [cls.__name__]

    def test_is_in_the_tree(self, cls: type[StompError]) -> None:
        assert re.search(rf"\b{cls.__name__}\b", errors.__doc__ or "")


def test_the_tree_names_the_right_codes() -> None:
    named = dict(re.findall(r"(\w+) +(STOMP_[A-Z_]+)", errors.__doc__ or ""))
    assert named
    assert named == {name: getattr(errors, name).code for name in named}


def test_an_option_error_lists_all_its_problems() -> None:
    error = OptionError(["one", "two"])
    assert error.problems == ("one", "two")
    assert str(error) == "[STOMP_OPTIONS_INVALID] 2 problems:\n  - one\n  - two"
    assert str(OptionError(["one"])) == str(OptionError("one")) == "[STOMP_OPTIONS_INVALID] one"
    assert isinstance(error, ValueError)
