"""What is remembered: the oldest goes first, and nothing is left behind."""

from __future__ import annotations

from support.keys import key

from spark_stomp.receiver.dedup import RememberedKeys


class TestRemembered:
    def test_the_oldest_go_first_whatever_was_taken_out(self) -> None:
        remembered = RememberedKeys()
        keys = [key(b"%d" % number) for number in range(6)]
        remembered.add(keys)
        remembered.remove(keys[0])
        remembered.remove(keys[3])
        assert remembered.evict_oldest(2) == 2
        assert [name for name in (b"0", b"1", b"2", b"3", b"4", b"5") if remembered.of(name)] == [b"4", b"5"]
        assert remembered.evict_oldest(5) == 2
        assert len(remembered) == 0

    def test_an_id_may_mean_several_messages(self) -> None:
        remembered = RememberedKeys()
        one, other, third = (key(b"1", body) for body in (b"a", b"b", b"c"))
        remembered.add([one, other, one])
        remembered.add([third])
        assert remembered.of(b"1") == [one, other, third]
        remembered.remove(one)
        assert remembered.of(b"1") == [other, third]
        remembered.remove(other)
        remembered.remove(third)
        assert (remembered.of(b"1"), remembered.has_any([b"1"])) == ([], False)

    def test_what_was_taken_out_and_came_again_is_the_youngest(self) -> None:
        remembered = RememberedKeys()
        remembered.add([key(b"1"), key(b"2")])
        remembered.remove(key(b"1"))
        remembered.add([key(b"1")])
        remembered.evict_oldest(1)
        assert (remembered.of(b"1"), remembered.of(b"2")) == ([key(b"1")], [])

    def test_an_id_keeps_its_place_while_any_message_of_it_is_left(self) -> None:
        remembered = RememberedKeys()
        remembered.add([key(b"1"), key(b"1", b"other"), key(b"2")])
        remembered.remove(key(b"1"))
        remembered.remove(key(b"1", b"unknown"))
        remembered.evict_oldest(1)
        assert (remembered.of(b"1"), remembered.of(b"2")) == ([], [key(b"2")])

    def test_forgetting_an_id_forgets_all_its_messages(self) -> None:
        remembered = RememberedKeys()
        remembered.add([key(b"1"), key(b"1", b"other")])
        remembered.evict_oldest(1)
        remembered.add([key(b"1", b"third")])
        assert remembered.of(b"1") == [key(b"1", b"third")]
