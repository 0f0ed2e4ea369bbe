"""Each rule of the delivery contract, broken in one line, and the test that notices.

Every entry is applied to a copy of the package, and its test must fail there. A rule whose test passes on the
broken copy is not guarded by anything.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import spark_stomp

TESTS = Path(__file__).parents[1]
PACKAGE = Path(spark_stomp.__file__).parent
SOURCE = "unit/source"
WRITER = "unit/source/test_journal_writer.py"
JOURNAL = "unit/journal/test_local.py"
OBJECTS = "unit/journal/test_objects.py"
JOURNALED = "faults/test_journal.py"
READER = f"{SOURCE}/test_stream_reader.py"
RECEIVER = "unit/receiver/test_receiver.py"
DELIVERIES = "unit/receiver/test_deliveries.py"


@dataclass(frozen=True)
class Broken:
    """``old`` becomes ``new`` in ``module``; ``test`` fails then."""

    rule: str
    module: str
    old: str
    new: str
    test: str


RULES = [
    Broken(
        "1: planning is no evidence",
        "source/commits.py",
        "        self._uncommitted_plan = end\n",
        "        self._committed(end)\n",
        f"{SOURCE}/test_commits.py::TestCalls::test_planning_alone_proves_nothing",
    ),
    Broken(
        "1: an older start does not prove a newer plan",
        "source/commits.py",
        "            self._committed(start)\n",
        "            self._committed(self._uncommitted_plan or start)\n",
        f"{SOURCE}/test_commits.py::TestCalls::test_an_older_start_does_not_prove_the_newer_plan",
    ),
    Broken(
        "1: before 4.2 latestOffset after partitions is evidence",
        "source/commits.py",
        "        elif self._uncommitted_plan is not None:\n",
        "        elif False:\n",
        f"{READER}::test_40_latest_offset_after_partitions_is_the_evidence",
    ),
    Broken(
        "1: where the checkpoint is named, calls do not count",
        "source/commits.py",
        "call_evidence=checkpoint is None",
        "call_evidence=True",
        f"{READER}::TestCheckpointNamed::test_calls_alone_are_not_enough",
    ),
    Broken(
        "1: the checkpoint is read once more at the end",
        "source/commits.py",
        "            self.check_checkpoint()\n        except StompError as error:\n            log",
        "            pass\n        except StompError as error:\n            log",
        f"{READER}::TestCheckpointNamed::test_at_the_end_the_checkpoint_is_read_once_more",
    ),
    Broken(
        "1: an offset log that does not hold the plan is another query's",
        "source/commits.py",
        "                if checkpoint.holds(end):\n",
        "                if True:\n",
        f"{READER}::TestCheckpointNamed::test_another_querys_checkpoint_is_refused",
    ),
    Broken(
        "1: a fenced epoch gets no ACK",
        "source/commits.py",
        "if checkpoint.fenced(self._fleet.epochs):",
        "if False:",
        f"{READER}::TestCheckpointNamed::test_a_fenced_reader_acks_nothing",
    ),
    Broken(
        "1: whoever plans another epoch as lost fences it first",
        "source/query.py",
        "        self._committer.fence({part.epoch for part in lost})\n",
        "",
        f"{READER}::TestCheckpointNamed::test_a_fenced_reader_acks_nothing",
    ),
    Broken(
        "1: stop is no evidence",
        "source/query.py",
        "                self._committer.stop()\n",
        "                self._fleet.acknowledge(self._holdings.received())\n",
        f"{READER}::test_the_end_without_evidence_acks_nothing_and_says_which_option_helps",
    ),
    Broken(
        "1: only what is committed is ACKed",
        "receiver/deliveries.py",
        "            acks = self._ledger.take(self._committed, ",
        "            acks = self._ledger.take(self.window.end, ",
        "unit/receiver/test_receiver.py::test_exactly_what_is_committed_is_acked",
    ),
    Broken(
        "1: ACKed means receipted",
        "receiver/ack_ledger.py",
        "        return self._confirmed\n",
        "        return self._sent\n",
        "unit/receiver/test_ack_ledger.py::test_confirmed_grows_with_receipts_only",
    ),
    Broken(
        "2: a range stays readable until it is committed",
        "receiver/deliveries.py",
        "                self._ledger.add(first, fresh.acks)\n",
        "                self._ledger.add(first, fresh.acks)\n"
        "                self.window.release(self.window.end)\n",
        "unit/receiver/test_receiver.py::test_frames_arrive_in_order_and_stay_readable",
    ),
    Broken(
        "2: an epoch is never used again",
        "receiver/receiver.py",
        "    return secrets.token_hex(8)\n",
        '    return "0"\n',
        "unit/receiver/test_receiver.py::test_every_life_has_an_epoch_of_its_own",
    ),
    Broken(
        "3: a lost range is never refilled",
        "source/planning.py",
        "        known = before is not None and before.epoch == position.epoch\n",
        "        known = before is not None\n",
        f"{SOURCE}/test_planning.py::TestPlan::test_another_epoch_starts_at_zero",
    ),
    Broken(
        "3: the frames of a dead epoch are not taken from a living one",
        "source/query.py",
        "        held = [held for held in ranges if held.epoch in self._fleet.epochs]\n",
        "        held = [held if held.epoch in self._fleet.epochs else "
        "Range(held.name, next(iter(self._fleet.epochs)), held.low, held.high) for held in ranges]\n",
        f"{READER}::test_40_after_a_restart_partitions_of_the_last_end_prove_nothing",
    ),
    Broken(
        "3: a task that did not get its whole range fails",
        "exchange/client.py",
        "    if expected != ticket.high:\n",
        "    if False:\n",
        "unit/exchange/test_exchange.py::test_less_than_the_whole_range_fails_the_task",
    ),
    Broken(
        "3: a committed and freed range is an error",
        "source/holdings.py",
        "        if wanted.low < released:\n",
        "        if False:\n",
        f"{READER}::test_a_range_can_be_read_again_until_it_is_committed",
    ),
    Broken(
        "2: a choice that a discard has overtaken is made again",
        "source/holdings.py",
        "                return False\n            for",
        "                pass\n            for",
        f"{READER}::test_an_end_chosen_before_a_discard_is_chosen_again",
    ),
    Broken(
        "2: what was offered survives its connection",
        "receiver/deliveries.py",
        "        self._kept = max(self._kept, upto)\n\n    def take",
        "        pass\n\n    def take",
        f"{DELIVERIES}::test_what_was_offered_stays_and_the_rest_is_discarded",
    ),
    Broken(
        "2: what was not offered is discarded",
        "receiver/deliveries.py",
        "        if self.window.end > self._kept:\n",
        "        if False:\n",
        f"{DELIVERIES}::test_what_was_offered_stays_and_the_rest_is_discarded",
    ),
    Broken(
        "2: but not where nothing would bring it again",
        "receiver/deliveries.py",
        "            if redelivers:\n",
        "            if True:\n",
        f"{DELIVERIES}::test_where_nothing_comes_again_everything_stays",
    ),
    Broken(
        "2: nor where another delivery counts on it",
        "receiver/deliveries.py",
        "            self._book.pin(place)\n",
        "            pass\n",
        f"{DELIVERIES}::test_a_frame_that_another_delivery_counts_on_is_not_discarded",
    ),
    Broken(
        "4: the old connection's handles are void",
        "receiver/deliveries.py",
        "            self._ledger = AckLedger(self._committed)\n",
        '            self._old = self._ledger = getattr(self, "_old", None) or AckLedger(self._committed)\n',
        f"{DELIVERIES}::test_old_handles_are_void_and_new_ones_are_acked",
    ),
    Broken(
        "4: a held message that comes again gives no second row, marked or not",
        "receiver/deliveries.py",
        "        if not self._book.hold_new(block.ids, ",
        "        if marked and not self._book.hold_new(block.ids, ",
        f"{DELIVERIES}::test_the_mark_of_redelivery_does_not_matter",
    ),
    Broken(
        "4: every live handle is ACKed",
        "receiver/ack_ledger.py",
        "                taken.append((key, handle))\n",
        "                taken[:] = [(key, handle)]\n",
        f"{DELIVERIES}::test_every_live_handle_is_acked_on_its_own_connection",
    ),
    Broken(
        "4: and none before the commit",
        "receiver/ack_ledger.py",
        "            while heap and heap[0][0] < committed and",
        "            while heap and",
        f"{DELIVERIES}::test_every_live_handle_is_acked_on_its_own_connection",
    ),
    Broken(
        "4: what was committed already is ACKed again",
        "receiver/deliveries.py",
        "        self._ledger.attach(place, key, handle)\n",
        "        if place.owner >= 0:\n            self._ledger.attach(place, key, handle)\n",
        f"{DELIVERIES}::test_committed_and_unconfirmed_is_acked_again_and_dropped",
    ),
    Broken(
        "4: and gives no second row",
        "receiver/deliveries.py",
        "            self._book.settle(self._keys(first, ids))\n",
        "            pass\n",
        f"{DELIVERIES}::test_committed_and_unconfirmed_is_acked_again_and_dropped",
    ),
    Broken(
        "4: the same key with another body is a new message",
        "receiver/keys.py",
        "blake2b(raw[body : end - 1], digest_size=16).digest()",
        'b""',
        f"{DELIVERIES}::test_the_same_key_with_another_body_is_new_and_counted",
    ),
    Broken(
        "4: without an id every message is new, and counted",
        "receiver/deliveries.py",
        "        self._count(doubled=self._book.take_at_risk(min(marked, nameless)))\n",
        "",
        f"{DELIVERIES}::test_without_an_id_everything_is_new_and_counted",
    ),
    Broken(
        "4: a refused login is not tried again",
        "receiver/retry.py",
        "    if isinstance(error, LoginRefused | DestinationRefused):\n",
        "    if isinstance(error, DestinationRefused):\n",
        f"{RECEIVER}::TestReconnect::test_a_login_that_is_refused_now_ends_it_at_once",
    ),
    Broken(
        "4: ACKs without a receipt in time mean a dead connection",
        "receiver/receiver.py",
        "        if deadline is not None and time.monotonic() >= max(deadline, patience):\n",
        "        if False:\n",
        "unit/receiver/test_receiver.py::test_missing_receipts_of_acks_mean_a_dead_connection",
    ),
    Broken(
        "5: a full window counts as enough",
        "source/planning.py",
        "or any(receiver.full and receiver.new for receiver in available)",
        "",
        f"{SOURCE}/test_planning.py::TestIsReady::test_a_full_window_ends_the_wait_since_no_more_can_come",
    ),
    Broken(
        "5: every batch takes at least one message",
        "source/planning.py",
        "        if least > budgets[first.name]:\n",
        "        if False:\n",
        f"{SOURCE}/test_planning.py::TestChooseEnd::test_a_message_larger_than_the_limit_is_taken_alone",
    ),
    Broken(
        "5: silence does not count while ACKs are unconfirmed",
        "source/planning.py",
        "one.acks_pending or ",
        "",
        f"{SOURCE}/test_waiting.py"
        "::test_unconfirmed_acks_are_no_silence_since_the_window_may_be_full_until_then",
    ),
    Broken(
        "5: frames beyond the memory bound are spilled",
        "receiver/frame_store.py",
        "            fits = not self._blocks or ",
        "            fits = True or ",
        "unit/receiver/test_frame_store.py::test_memory_stays_within_the_bound_however_much_arrives",
    ),
    Broken(
        "6: with nothing new the last end comes back byte for byte",
        "source/stream_reader.py",
        "        return start if start is not None and end == begin else end.to_dict()\n",
        "        return end.to_dict()\n",
        f"{READER}::test_with_nothing_new_the_last_end_comes_back_byte_for_byte",
    ),
    Broken(
        "journal: durable means synced",
        "journal/local/journal.py",
        "            segment.sync()\n        self._durable_commit = self._committed\n        self._end",
        "            pass\n        self._durable_commit = self._committed\n        self._end",
        f"{JOURNAL}::TestCrash::test_a_damaged_byte_that_was_synced_is_an_error",
    ),
    Broken(
        "journal: only what is behind everything durable may be cut off",
        "journal/local/segment.py",
        "                if last and not self._was_durable(offset, length):\n",
        "                if last:\n",
        f"{JOURNAL}::TestCrash::test_a_damaged_byte_that_was_synced_is_an_error",
    ),
    Broken(
        "journal: and nothing in another file than the last",
        "journal/local/segment.py",
        "                if last and not self._was_durable(offset, length):\n",
        "                if not self._was_durable(offset, length):\n",
        f"{JOURNAL}::TestDamage::test_what_is_damaged_is_left_as_it_is",
    ),
    Broken(
        "journal: one writer at a time",
        "journal/local/journal.py",
        "            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
        "",
        f"{JOURNAL}::TestLock::test_a_second_query_is_refused",
    ),
    Broken(
        "journal of objects: the fence is checked before append returns",
        "journal/objects/journal.py",
        "            if put:\n                self._fence.check()\n",
        "",
        f"{OBJECTS}::TestTakeover::test_the_older_writer_stops_and_what_it_put_then_is_void",
    ),
    Broken(
        "journal of objects: what a newer writer did not accept is void for ever",
        "journal/objects/fencing.py",
        "            frames.writer == writer and low <= frames.first and frames.end <= high\n",
        "            frames.writer == writer\n",
        f"{OBJECTS}::TestTakeover::test_the_older_writer_stops_and_what_it_put_then_is_void",
    ),
    Broken(
        "journal of objects: a position is never put with other bytes",
        "journal/objects/journal.py",
        "            raise self._failure\n",
        "            self._failure = None\n",
        f"{OBJECTS}::TestFailures::test_a_put_that_failed_for_good_is_the_last",
    ),
    Broken(
        "journal of objects: durable means synced",
        "journal/objects/blobs.py",
        "            write_fully(descriptor, [data])\n            os.fsync(descriptor)\n",
        "            write_fully(descriptor, [data])\n",
        f"{OBJECTS}::TestFailures::test_frames_are_synced_before_they_have_positions",
    ),
    Broken(
        "journal of objects: that all are committed is durable before the first is deleted",
        "journal/objects/journal.py",
        "            if self._durable_commit < old[-1].end:\n                self._mark()\n",
        "",
        f"{OBJECTS}::TestCrash::test_what_was_committed_is_told_before_it_is_deleted",
    ),
    Broken(
        "journal of objects: only the last object may be unfinished, and only if it was never returned",
        "journal/objects/listing_state.py",
        "and last.first >= durable\n",
        "\n",
        f"{OBJECTS}::TestDamage::test_one_is_cut_off",
    ),
    Broken(
        "journal: durable alone is no reason to ACK, unless ackAfter=journal",
        "source/journal_writer.py",
        "            if self._ack_when_durable:\n",
        "            if True:\n",
        f"{WRITER}::test_durable_alone_is_no_reason_to_ack",
    ),
    Broken(
        "journal: with ackAfter=journal it is",
        "source/journal_writer.py",
        "            if self._ack_when_durable:\n",
        "            if False:\n",
        f"{WRITER}::test_with_ack_after_journal_it_is_and_not_before",
    ),
    Broken(
        "journal: what is on its way there is not discarded",
        "receiver/deliveries.py",
        "            self._kept = max(self._kept, runs[-1].end if runs else 0)\n",
        "",
        f"{WRITER}::test_frames_on_their_way_to_the_disk_are_not_discarded",
    ),
    Broken(
        "journal: frames leave their keys behind",
        "source/journal_writer.py",
        "            self._journal.remember(self._book.take_unsaved())\n",
        "",
        f"{WRITER}::TestRoom::test_so_does_a_connection_that_ended_before_its_receipts",
    ),
    Broken(
        "journal: what the broker did not confirm as ACKed is not deleted",
        "source/journal_writer.py",
        "            upto = upto if unconfirmed is None else min(upto, unconfirmed)\n",
        "",
        f"{WRITER}::TestRoom::test_a_commit_whose_acks_are_confirmed_makes_room",
    ),
    Broken(
        "journal: at its bound frames wait",
        "source/journal_writer.py",
        "        return not self._full\n",
        "        return True\n",
        f"{WRITER}::TestRoom::test_at_the_bound_frames_wait_un_acked_and_un_offered",
    ),
    Broken(
        "journal: but never for what nothing brings",
        "source/journal_writer.py",
        " > self._max_bytes and self._holds_anything()\n",
        " > self._max_bytes\n",
        f"{WRITER}::TestRoom::test_a_bound_that_is_smaller_than_any_group_lets_one_through",
    ),
    Broken(
        "journal: a redelivery after a restart gives no second row",
        "source/journal_recovery.py",
        "            known = run.end > journal.end - most\n",
        "            known = False\n",
        f"{WRITER}::TestAfterARestart::test_redelivered_and_not_committed_gives_no_second_row",
    ),
    Broken(
        "journal: and if it was committed it is ACKed and dropped",
        "source/journal_recovery.py",
        "    recovered.commit(recovered.window.below(journal.committed))\n",
        "",
        f"{WRITER}::TestAfterARestart::test_redelivered_and_committed_is_acked_and_dropped",
    ),
    Broken(
        "journal: a broker may forget an ACK that it confirmed",
        "receiver/deliveries.py",
        "                self._book.retire(self._keys(first, ids))\n",
        "                pass\n",
        f"{WRITER}::test_what_a_broker_forgot_having_confirmed_gives_no_second_row",
    ),
    Broken(
        "journal: and one that was repeated",
        "receiver/dedup.py",
        "            self.retire(keys)\n",
        "            pass\n",
        "unit/receiver/test_dedup.py::TestJournaled::test_confirmed_is_still_known",
    ),
    Broken(
        "journal: of what is remembered the confirmed goes first",
        "receiver/dedup.py",
        "            surplus -= self._receipted.forget_oldest(surplus)\n",
        "",
        "unit/receiver/test_dedup.py::TestJournaled"
        "::test_beyond_the_bound_confirmed_ones_go_first_and_uncounted",
    ),
    Broken(
        "journal: a commit that overtakes the writer counts",
        "source/journal_writer.py",
        "            elif position < self._committed:\n",
        "            elif False:\n",
        f"{WRITER}::test_a_commit_that_overtakes_the_writer_counts",
    ),
    Broken(
        "journal: committed positions that are gone are nobody's loss",
        "source/holdings.py",
        "            journal.commit(committed or 0)\n",
        "",
        f"{JOURNALED}::TestRefused::test_an_older_copy_of_the_journal",
    ),
    Broken(
        "journal: a range in it is never empty",
        "source/query.py",
        "            self._holdings.missing(part)\n",
        "            pass\n",
        f"{JOURNALED}::TestRefused::test_a_first_batch_whose_journal_is_gone_after_another_call",
    ),
    Broken(
        "journal: the checkpoint's is the one that is there",
        "source/query.py",
        "        self._holdings.begin(begin, planned)\n",
        "",
        f"{JOURNALED}::TestRefused::test_the_option_that_was_left_out_with_nothing_planned",
    ),
    Broken(
        "journal: positions once given away are not given again",
        "source/holdings.py",
        "            journal.skip(given)\n",
        "",
        f"{JOURNALED}::TestRefused::test_an_older_copy_of_the_journal",
    ),
    Broken(
        "journal: nothing is received before a planned batch is known to be there",
        "source/stream_reader.py",
        "runtime.start(begin, planned or begin)",
        "runtime.start(begin, begin)",
        f"{JOURNALED}::TestRefused::test_an_older_copy_of_the_journal_under_a_planned_batch",
    ),
    Broken(
        "journal: nor before the journal that a first batch names is",
        "source/stream_reader.py",
        "runtime.start(begin, planned or begin)",
        "runtime.start(begin, begin)",
        f"{JOURNALED}::TestRefused::test_a_first_batch_whose_journal_is_gone",
    ),
    Broken(
        "journal: nor without one where a first batch names it",
        "source/holdings.py",
        "        position = start.get(JOURNAL) or planned.get(JOURNAL)\n",
        "        position = start.get(JOURNAL)\n",
        f"{JOURNALED}::TestRefused::test_a_first_batch_whose_journal_is_no_longer_named",
    ),
    Broken(
        "journal: on a fresh checkpoint reading begins at the committed position",
        "source/holdings.py",
        "        self._base = journal.committed\n",
        "        self._base = journal.first\n",
        f"{JOURNALED}::TestRestartedOtherwise"
        "::test_with_a_fresh_checkpoint_reading_begins_at_the_committed_position",
    ),
    Broken(
        "journal: where the first batch began is in its offset",
        "source/holdings.py",
        "base=0 if known else self._base",
        "base=0",
        f"{JOURNALED}::TestRestartedOtherwise"
        "::test_with_a_fresh_checkpoint_reading_begins_at_the_committed_position",
    ),
    Broken(
        "journal: what a named checkpoint has as committed is ACKed when it comes again",
        "source/commits.py",
        "            if self._checkpoint is not None and self._checkpoint.last_commit_holds(start):\n",
        "            if False:\n",
        f"{JOURNALED}::test_acks_that_the_broker_never_saw_need_no_further_batch",
    ),
    Broken(
        "7: a failure is never no data",
        "source/receivers.py",
        "                raise failure\n",
        "                return\n",
        f"{READER}::test_a_receiver_that_failed_is_an_error_and_not_no_data",
    ),
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package to break."""
    target = tmp_path / "broken" / "spark_stomp"
    shutil.copytree(PACKAGE, target, ignore=shutil.ignore_patterns("__pycache__"))
    return target


@pytest.mark.parametrize("broken", RULES, ids=lambda broken: broken.rule)
def test_the_line_that_keeps_the_rule_is_there(broken: Broken) -> None:
    assert (PACKAGE / broken.module).read_text().count(broken.old) == 1


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("broken", RULES, ids=lambda broken: broken.rule)
def test_breaking_the_rule_breaks_its_test(broken: Broken, copy: Path) -> None:
    module = copy / broken.module
    text = module.read_text()
    assert text.count(broken.old) == 1, "the line to break is not there, or not once"
    module.write_text(text.replace(broken.old, broken.new))
    run = _run(broken.test, copy.parent)
    assert run.returncode == 1, f"{broken.test} does not notice:\n{run.stdout[-2000:]}"
    assert "1 failed" in run.stdout


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("test", sorted({broken.test for broken in RULES}))
def test_each_test_passes_on_the_unbroken_copy(test: str, copy: Path) -> None:
    run = _run(test, copy.parent)
    assert run.returncode == 0, run.stdout[-2000:]


def _run(test: str, package: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), str(TESTS)])}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(TESTS / test)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=240, cwd=package, check=False
    )
