"""The delivery contract: the code that keeps each rule, how to break it, and the test that notices."""

from __future__ import annotations

from dataclasses import dataclass

from support.replacement import Replacement

__all__ = ["RULES", "Broken"]

SOURCE = "unit/source"
EVIDENCE = f"{SOURCE}/test_evidence.py"
READER = f"{SOURCE}/test_stream_reader.py"
RECEIVER = "unit/receiver/test_receiver.py"
DELIVERIES = "unit/receiver/test_deliveries.py"
WRITER = "unit/journal/test_writer.py"
JOURNAL = "unit/journal/test_local.py"
OBJECTS = "unit/journal/test_objects.py"
JOURNALED = "faults/test_journal.py"


@dataclass(frozen=True)
class Broken:
    """The rule is broken, and ``test`` fails, once ``old`` is replaced by ``new`` in ``symbol``: see
    :class:`Replacement`."""

    rule: str
    symbol: str
    old: str
    new: str
    test: str

    @property
    def replacement(self) -> Replacement:
        return Replacement(self.symbol, self.old, self.new)


RULES = [
    Broken(
        "1: planning is no evidence",
        "source.evidence:CommitEvidence.planned",
        "self._uncommitted_plan = end",
        "self._committed(end)",
        f"{EVIDENCE}::TestCalls::test_planning_alone_proves_nothing",
    ),
    Broken(
        "1: an older start does not prove a newer plan",
        "source.evidence:CommitEvidence.latest_offset_called",
        "self._committed(start)",
        "self._committed(self._uncommitted_plan or start)",
        f"{EVIDENCE}::TestCalls::test_an_older_start_does_not_prove_the_newer_plan",
    ),
    Broken(
        "1: before 4.2 latestOffset after partitions is evidence",
        "source.evidence:CommitEvidence.latest_offset_called",
        "self._uncommitted_plan is not None",
        "False",
        f"{READER}::test_40_latest_offset_after_partitions_is_the_evidence",
    ),
    Broken(
        "1: where the checkpoint is named, calls do not count",
        "source.committer:Committer.__init__",
        "checkpoint is None",
        "True",
        f"{READER}::TestCheckpointNamed::test_calls_alone_are_not_enough",
    ),
    Broken(
        "1: the checkpoint is read once more at the end",
        "source.committer:Committer.stop",
        "self.check_checkpoint()",
        "",
        f"{READER}::TestCheckpointNamed::test_at_the_end_the_checkpoint_is_read_once_more",
    ),
    Broken(
        "1: an offset log that does not hold the plan is another query's",
        "source.committer:Committer._await_offset_log",
        "checkpoint.holds(end)",
        "True",
        f"{READER}::TestCheckpointNamed::test_another_querys_checkpoint_is_refused",
    ),
    Broken(
        "1: a fenced epoch gets no ACK",
        "source.committer:Committer._examine",
        "checkpoint.fenced(self._fleet.epochs)",
        "False",
        f"{READER}::TestCheckpointNamed::test_a_fenced_reader_acks_nothing",
    ),
    Broken(
        "1: whoever plans another epoch as lost fences it first",
        "source.runtime:StreamRuntime._declare_lost",
        "self._committer.fence({part.epoch for part in lost})",
        "",
        f"{READER}::TestCheckpointNamed::test_a_fenced_reader_acks_nothing",
    ),
    Broken(
        "1: stop is no evidence",
        "source.runtime:StreamRuntime.stop",
        "self._committer.stop()",
        "self._fleet.acknowledge(self._holdings.received())",
        f"{READER}::test_the_end_without_evidence_acks_nothing_and_says_which_option_helps",
    ),
    Broken(
        "1: only what is committed is ACKed",
        "receiver.deliveries:Deliveries.due",
        "self._ledger.take(self._committed, self._book.committed, most)",
        "self._ledger.take(self.window.end, self._book.committed, most)",
        f"{RECEIVER}::test_exactly_what_is_committed_is_acked",
    ),
    Broken(
        "1: ACKed means receipted",
        "receiver.ledger:AckLedger.confirmed",
        "self._confirmed",
        "self._sent",
        "unit/receiver/test_ledger.py::test_confirmed_grows_with_receipts_only",
    ),
    Broken(
        "2: a range stays readable until it is committed",
        "receiver.deliveries:Deliveries.receive",
        "self._ledger.add(first, fresh.acks)",
        """
            self._ledger.add(first, fresh.acks)
            self.window.release(self.window.end)
        """,
        f"{RECEIVER}::test_frames_arrive_in_order_and_stay_readable",
    ),
    Broken(
        "2: an epoch is never used again",
        "receiver.receiver:new_epoch",
        "secrets.token_hex(8)",
        '"0"',
        f"{RECEIVER}::test_every_life_has_an_epoch_of_its_own",
    ),
    Broken(
        "3: a lost range is never refilled",
        "source.planner:plan",
        "before is not None and before.epoch == position.epoch",
        "before is not None",
        f"{SOURCE}/test_planner.py::TestPlan::test_another_epoch_starts_at_zero",
    ),
    Broken(
        "3: the frames of a dead epoch are not taken from a living one",
        "source.runtime:StreamRuntime.partitions",
        "[held for held in ranges if held.epoch in self._fleet.epochs]",
        """
            [
                held
                if held.epoch in self._fleet.epochs
                else Range(held.name, next(iter(self._fleet.epochs)), held.low, held.high)
                for held in ranges
            ]
        """,
        f"{READER}::test_40_after_a_restart_partitions_of_the_last_end_prove_nothing",
    ),
    Broken(
        "3: a task that did not get its whole range fails",
        "exchange.client:fetch",
        "expected != ticket.high",
        "False",
        "unit/exchange/test_exchange.py::test_less_than_the_whole_range_fails_the_task",
    ),
    Broken(
        "3: a committed and freed range is an error",
        "source.holdings:WindowHoldings.readable",
        "wanted.low < released",
        "False",
        f"{READER}::test_a_range_can_be_read_again_until_it_is_committed",
    ),
    Broken(
        "2: a choice that a discard has overtaken is made again",
        "source.holdings:WindowHoldings.offer",
        "return False",
        "",
        f"{READER}::test_an_end_chosen_before_a_discard_is_chosen_again",
    ),
    Broken(
        "2: what was offered survives its connection",
        "receiver.deliveries:Deliveries.offer",
        "self._kept = max(self._kept, upto)",
        "",
        f"{DELIVERIES}::test_what_was_offered_stays_and_the_rest_is_discarded",
    ),
    Broken(
        "2: what was not offered is discarded",
        "receiver.deliveries:Deliveries._discard",
        "self.window.end > self._kept",
        "False",
        f"{DELIVERIES}::test_what_was_offered_stays_and_the_rest_is_discarded",
    ),
    Broken(
        "2: but not where nothing would bring it again",
        "receiver.deliveries:Deliveries.disconnected",
        "redelivers",
        "True",
        f"{DELIVERIES}::test_where_nothing_comes_again_everything_stays",
    ),
    Broken(
        "2: nor where another delivery counts on it",
        "receiver.deliveries:Deliveries._again",
        "self._book.pin(place)",
        "",
        f"{DELIVERIES}::test_a_frame_that_another_delivery_counts_on_is_not_discarded",
    ),
    Broken(
        "4: the old connection's handles are void",
        "receiver.deliveries:Deliveries.connected",
        "self._ledger = AckLedger(self._committed)",
        'self._ledger = self._first = getattr(self, "_first", None) or AckLedger(self._committed)',
        f"{DELIVERIES}::test_old_handles_are_void_and_new_ones_are_acked",
    ),
    Broken(
        "4: a held message that comes again gives no second row, marked or not",
        "receiver.deliveries:Deliveries._fresh",
        "not self._book.hold_new(block.ids, Place(self._owner, end))",
        "marked and not self._book.hold_new(block.ids, Place(self._owner, end))",
        f"{DELIVERIES}::test_the_mark_of_redelivery_does_not_matter",
    ),
    Broken(
        "4: every live handle is ACKed",
        "receiver.ledger:AckLedger._take_attached",
        "taken.append((key, handle))",
        "taken[:] = [(key, handle)]",
        f"{DELIVERIES}::test_every_live_handle_is_acked_on_its_own_connection",
    ),
    Broken(
        "4: and none before the commit",
        "receiver.ledger:AckLedger._take_attached",
        "heap[0][0] < committed",
        "True",
        f"{DELIVERIES}::test_every_live_handle_is_acked_on_its_own_connection",
    ),
    Broken(
        "4: what was committed already is ACKed again",
        "receiver.deliveries:Deliveries._again",
        "self._ledger.attach(place, key, handle)",
        """
            if place.owner >= 0:
                self._ledger.attach(place, key, handle)
        """,
        f"{DELIVERIES}::test_committed_and_unconfirmed_is_acked_again_and_dropped",
    ),
    Broken(
        "4: and gives no second row",
        "receiver.deliveries:Deliveries._settle",
        "self._book.settle(self._keys(first, ids))",
        "",
        f"{DELIVERIES}::test_committed_and_unconfirmed_is_acked_again_and_dropped",
    ),
    Broken(
        "4: the same key with another body is a new message",
        "receiver.keys:_plain_keys",
        "blake2b(raw[body : end - 1], digest_size=16).digest()",
        'b""',
        f"{DELIVERIES}::test_the_same_key_with_another_body_is_new_and_counted",
    ),
    Broken(
        "4: without an id every message is new, and counted",
        "receiver.deliveries:Deliveries._sorted_out",
        "self._count(doubled=self._book.take_at_risk(min(marked, nameless)))",
        "",
        f"{DELIVERIES}::test_without_an_id_everything_is_new_and_counted",
    ),
    Broken(
        "4: a refused login is not tried again",
        "receiver.retry:may_recover",
        "LoginRefused | DestinationRefused",
        "DestinationRefused",
        f"{RECEIVER}::TestReconnect::test_a_login_that_is_refused_now_ends_it_at_once",
    ),
    Broken(
        "4: ACKs without a receipt in time mean a dead connection",
        "receiver.receiver:Receiver._check_receipts",
        "deadline is not None and time.monotonic() >= max(deadline, patience)",
        "False",
        f"{RECEIVER}::test_missing_receipts_of_acks_mean_a_dead_connection",
    ),
    Broken(
        "5: a full window counts as enough",
        "source.planner:is_ready",
        "any(receiver.full and receiver.new for receiver in available)",
        "False",
        f"{SOURCE}/test_planner.py::TestIsReady::test_a_full_window_ends_the_wait_since_no_more_can_come",
    ),
    Broken(
        "5: every batch takes at least one message",
        "source.planner:_within_bytes",
        "least > budgets[first.name]",
        "False",
        f"{SOURCE}/test_planner.py::TestChooseEnd::test_a_message_larger_than_the_limit_is_taken_alone",
    ),
    Broken(
        "5: silence does not count while ACKs are unconfirmed",
        "source.waiting:Situation.silence",
        "one.acks_pending or not one.subscribed",
        "not one.subscribed",
        (
            f"{SOURCE}/test_waiting.py"
            "::test_unconfirmed_acks_are_no_silence_since_the_window_may_be_full_until_then"
        ),
    ),
    Broken(
        "5: frames beyond the memory bound are spilled",
        "receiver.window:Window.append",
        "not self._blocks or self._memory_bytes + len(data) <= self._max_bytes",
        "True",
        "unit/receiver/test_window.py::test_memory_stays_within_the_bound_however_much_arrives",
    ),
    Broken(
        "6: with nothing new the last end comes back byte for byte",
        "source.stream_reader:StompStreamReader.latestOffset",
        "start if start is not None and end == begin else end.to_dict()",
        "end.to_dict()",
        f"{READER}::test_with_nothing_new_the_last_end_comes_back_byte_for_byte",
    ),
    Broken(
        "journal: durable means synced",
        "journal.local:LocalJournal.append",
        "segment.sync()",
        "",
        f"{JOURNAL}::TestCrash::test_a_damaged_byte_that_was_synced_is_an_error",
    ),
    Broken(
        "journal: only what is behind everything durable may be cut off",
        "journal.segment:Segment._scan",
        "last and not self._was_durable(offset, length)",
        "last",
        f"{JOURNAL}::TestCrash::test_a_damaged_byte_that_was_synced_is_an_error",
    ),
    Broken(
        "journal: and nothing in another file than the last",
        "journal.segment:Segment._scan",
        "last and not self._was_durable(offset, length)",
        "not self._was_durable(offset, length)",
        f"{JOURNAL}::TestDamage::test_what_is_damaged_is_left_as_it_is",
    ),
    Broken(
        "journal: one writer at a time",
        "journal.local:_locked",
        "fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "",
        f"{JOURNAL}::TestLock::test_a_second_query_is_refused",
    ),
    Broken(
        "journal of objects: a newer writer is looked for before anything is told of",
        "journal.objects:ObjectJournal.append",
        """
            if put:
                self._claim.check()
        """,
        "",
        f"{OBJECTS}::TestTakeover::test_the_older_writer_stops_and_what_it_put_then_is_void",
    ),
    Broken(
        "journal of objects: what a newer writer did not accept is void for ever",
        "journal.takeover:Opening.owns",
        "frames.writer == writer and low <= frames.first and frames.end <= high",
        "frames.writer == writer",
        f"{OBJECTS}::TestTakeover::test_the_older_writer_stops_and_what_it_put_then_is_void",
    ),
    Broken(
        "journal of objects: a position is never put with other bytes",
        "journal.objects:ObjectJournal._writing",
        "raise self._failure",
        "self._failure = None",
        f"{OBJECTS}::TestFailures::test_a_put_that_failed_for_good_is_the_last",
    ),
    Broken(
        "journal of objects: durable means synced",
        "journal.blobs:MountStore.put",
        "os.fsync(descriptor)",
        "",
        f"{OBJECTS}::TestFailures::test_frames_are_synced_before_they_have_positions",
    ),
    Broken(
        "journal of objects: what is deleted was told to be committed",
        "journal.objects:ObjectJournal.trim",
        """
            if self._noted < old[-1].end:
                self._mark()
        """,
        "",
        f"{OBJECTS}::TestCrash::test_what_was_committed_is_told_before_it_is_deleted",
    ),
    Broken(
        "journal of objects: only the last object may be unfinished, and only if nobody was told of it",
        "journal.judgement:_may_be_unfinished",
        "cut and last.writer == listing.opening.writer and last.first >= durable",
        "cut and last.writer == listing.opening.writer",
        f"{OBJECTS}::TestDamage::test_one_is_cut_off",
    ),
    Broken(
        "journal: durable alone is no reason to ACK, unless ackAfter=journal",
        "journal.writer:JournalWriter._write",
        "self._ack_when_durable",
        "True",
        f"{WRITER}::test_durable_alone_is_no_reason_to_ack",
    ),
    Broken(
        "journal: with ackAfter=journal it is",
        "journal.writer:JournalWriter._write",
        "self._ack_when_durable",
        "False",
        f"{WRITER}::test_with_ack_after_journal_it_is_and_not_before",
    ),
    Broken(
        "journal: what is on its way there is not discarded",
        "receiver.deliveries:Deliveries.take",
        "self._kept = max(self._kept, runs[-1].end if runs else 0)",
        "",
        f"{WRITER}::test_frames_on_their_way_to_the_disk_are_not_discarded",
    ),
    Broken(
        "journal: frames leave their keys behind",
        "journal.writer:JournalWriter._trim",
        "self._journal.settle(self._book.take_unsaved())",
        "",
        f"{WRITER}::TestRoom::test_so_does_a_connection_that_ended_before_its_receipts",
    ),
    Broken(
        "journal: what the broker did not confirm as ACKed is not deleted",
        "journal.writer:JournalWriter._trim",
        "upto = upto if unconfirmed is None else min(upto, unconfirmed)",
        "",
        f"{WRITER}::TestRoom::test_a_commit_whose_acks_are_confirmed_makes_room",
    ),
    Broken(
        "journal: at its bound frames wait",
        "journal.writer:JournalWriter._has_room",
        "return not self._full",
        "return True",
        f"{WRITER}::TestRoom::test_at_the_bound_frames_wait_un_acked_and_un_offered",
    ),
    Broken(
        "journal: but never for what nothing brings",
        "journal.writer:JournalWriter._has_room",
        "self._holds_anything()",
        "True",
        f"{WRITER}::TestRoom::test_a_bound_that_is_smaller_than_any_group_lets_one_through",
    ),
    Broken(
        "journal: a redelivery after a restart gives no second row",
        "journal.recovery:recover",
        "run.end > journal.end - most",
        "False",
        f"{WRITER}::TestAfterARestart::test_redelivered_and_not_committed_gives_no_second_row",
    ),
    Broken(
        "journal: and if it was committed it is ACKed and dropped",
        "journal.recovery:recover",
        "recovered.commit(recovered.window.below(journal.committed))",
        "",
        f"{WRITER}::TestAfterARestart::test_redelivered_and_committed_is_acked_and_dropped",
    ),
    Broken(
        "journal: a broker may forget an ACK that it confirmed",
        "receiver.deliveries:Deliveries._free",
        "self._book.retire(self._keys(first, ids))",
        "",
        f"{WRITER}::test_what_a_broker_forgot_having_confirmed_gives_no_second_row",
    ),
    Broken(
        "journal: and one that was repeated",
        "receiver.book:KeyBook.forget",
        "self.retire(keys)",
        "",
        "unit/receiver/test_book.py::TestJournaled::test_confirmed_is_still_known",
    ),
    Broken(
        "journal: of what is remembered the confirmed goes first",
        "receiver.book:KeyBook._remember",
        "surplus -= self._receipted.forget_oldest(surplus)",
        "",
        (
            "unit/receiver/test_book.py::TestJournaled"
            "::test_beyond_the_bound_confirmed_ones_go_first_and_uncounted"
        ),
    ),
    Broken(
        "journal: a commit that overtakes the writer counts",
        "journal.writer:JournalWriter._write",
        "position < self._committed",
        "False",
        f"{WRITER}::test_a_commit_that_overtakes_the_writer_counts",
    ),
    Broken(
        "journal: committed positions that are gone are nobody's loss",
        "source.holdings:JournalHoldings.begin",
        "journal.commit(committed or 0)",
        "",
        f"{JOURNALED}::TestRefused::test_an_older_copy_of_the_journal",
    ),
    Broken(
        "journal: a range in it is never empty",
        "source.runtime:StreamRuntime._declare_lost",
        "self._holdings.missing(part)",
        "",
        f"{JOURNALED}::TestRefused::test_a_first_batch_whose_journal_is_gone_after_another_call",
    ),
    Broken(
        "journal: the checkpoint's is the one that is there",
        "source.runtime:StreamRuntime.start",
        "self._holdings.begin(begin, planned)",
        "",
        f"{JOURNALED}::TestRefused::test_the_option_that_was_left_out_with_nothing_planned",
    ),
    Broken(
        "journal: positions once given away are not given again",
        "source.holdings:JournalHoldings.begin",
        "journal.skip(given)",
        "",
        f"{JOURNALED}::TestRefused::test_an_older_copy_of_the_journal",
    ),
    Broken(
        "journal: nothing is received before a planned batch is known to be there",
        "source.stream_reader:StompStreamReader._running",
        "planned or begin",
        "begin",
        f"{JOURNALED}::TestRefused::test_an_older_copy_of_the_journal_under_a_planned_batch",
    ),
    Broken(
        "journal: nor before the journal that a first batch names is",
        "source.stream_reader:StompStreamReader._running",
        "planned or begin",
        "begin",
        f"{JOURNALED}::TestRefused::test_a_first_batch_whose_journal_is_gone",
    ),
    Broken(
        "journal: nor without one where a first batch names it",
        "source.holdings:WindowHoldings.begin",
        "start.get(JOURNAL) or planned.get(JOURNAL)",
        "start.get(JOURNAL)",
        f"{JOURNALED}::TestRefused::test_a_first_batch_whose_journal_is_no_longer_named",
    ),
    Broken(
        "journal: on a fresh checkpoint reading begins at the committed position",
        "source.holdings:JournalHoldings.__init__",
        "self._base = journal.committed",
        "self._base = journal.first",
        (
            f"{JOURNALED}::TestRestartedOtherwise"
            "::test_with_a_fresh_checkpoint_reading_begins_at_the_committed_position"
        ),
    ),
    Broken(
        "journal: where the first batch began is in its offset",
        "source.holdings:JournalHoldings.available",
        "0 if known else self._base",
        "0",
        (
            f"{JOURNALED}::TestRestartedOtherwise"
            "::test_with_a_fresh_checkpoint_reading_begins_at_the_committed_position"
        ),
    ),
    Broken(
        "journal: what a named checkpoint has as committed is ACKed when it comes again",
        "source.committer:Committer.began_at",
        "self._checkpoint is not None and self._checkpoint.last_commit_holds(start)",
        "False",
        f"{JOURNALED}::test_acks_that_the_broker_never_saw_need_no_further_batch",
    ),
    Broken(
        "7: a failure is never no data",
        "source.fleet:Fleet.raise_failure",
        "raise failure",
        "return",
        f"{READER}::test_a_receiver_that_failed_is_an_error_and_not_no_data",
    ),
]
