"""The delivery contract: the code that keeps each rule, how to break it, and the test that notices."""

from __future__ import annotations

from dataclasses import dataclass

from support.replacement import Replacement

__all__ = ["RULES", "Broken"]

SOURCE = "unit/source"
EVIDENCE = f"{SOURCE}/test_commits.py"
READER = f"{SOURCE}/test_stream_reader.py"
RECEIVER = "unit/receiver/test_receiver.py"
DELIVERIES = "unit/receiver/test_deliveries.py"
PLANNER = f"{SOURCE}/test_planning.py"
WAITING = f"{SOURCE}/test_waiting.py"
REFUSAL = f"{SOURCE}/test_refusal.py"
MALFORMED = f"{SOURCE}/test_malformed_rows.py"
DRAINING = f"{SOURCE}/test_drain.py"
WRITER = "unit/source/test_journal_writer.py"
JOURNAL = "unit/journal/test_local.py"
OBJECTS = "unit/journal/test_objects.py"
JOURNALED = "faults/test_journal.py"


@dataclass(frozen=True)
class Broken:
    """The rule is broken, and ``test`` fails, once ``old`` is replaced by ``new`` in ``symbol``: see
    :class:`Replacement`. ``rule`` is a number of docs/delivery-contract.md, ``kept`` what the code does."""

    rule: str
    kept: str
    symbol: str
    old: str
    new: str
    test: str

    @property
    def replacement(self) -> Replacement:
        return Replacement(self.symbol, self.old, self.new)


RULES = [
    Broken(
        "1.1",
        "only what is committed is ACKed",
        "receiver.deliveries:Deliveries.due",
        "self._ledger.take(self._marks.committed, self._index.committed, most)",
        "self._ledger.take(self._marks.received, self._index.committed, most)",
        f"{RECEIVER}::test_exactly_what_is_committed_is_acked",
    ),
    Broken(
        "1.2",
        "before 4.2 latestOffset after partitions is evidence",
        "source.commits:CommitEvidence.latest_offset_called",
        "self._uncommitted_plan is not None",
        "False",
        f"{READER}::test_40_latest_offset_after_partitions_is_the_evidence",
    ),
    Broken(
        "1.3",
        "planning is no evidence",
        "source.commits:CommitEvidence.planned",
        "self._uncommitted_plan = end",
        "self._committed(end)",
        f"{EVIDENCE}::TestCalls::test_planning_alone_proves_nothing",
    ),
    Broken(
        "1.3",
        "an older start does not prove a newer plan",
        "source.commits:CommitEvidence.latest_offset_called",
        "self._committed(start)",
        "self._committed(self._uncommitted_plan or start)",
        f"{EVIDENCE}::TestCalls::test_an_older_start_does_not_prove_the_newer_plan",
    ),
    Broken(
        "1.3",
        "stop is no evidence",
        "source.query:QueryRuntime._stop",
        "self._committer.stop(_LAST_LOOK)",
        "self._receivers.commit(self.received())",
        f"{READER}::test_the_end_without_evidence_acks_nothing_and_says_which_option_helps",
    ),
    Broken(
        "1.4",
        "if the checkpoint is named, calls do not count",
        "source.commits:Committer.__init__",
        "checkpoint is None",
        "True",
        f"{READER}::TestCheckpointNamed::test_calls_alone_are_not_enough",
    ),
    Broken(
        "1.5",
        "the checkpoint is read once more at the end",
        "source.commit_watch:CommitWatch._run",
        "self._check()",
        "more and self._check()",
        f"{READER}::TestCheckpointNamed::test_at_the_end_the_checkpoint_is_read_once_more",
    ),
    Broken(
        "1.6",
        "an offset log that does not hold the plan is another query's",
        "source.commits:Committer._await_offset_log",
        "checkpoint.holds(end)",
        "True",
        f"{READER}::TestCheckpointNamed::test_another_querys_checkpoint_is_refused",
    ),
    Broken(
        "1.6",
        "a mode that leaves batches out of the offset log is refused by its name",
        "source.commits:Committer._not_logged",
        "self._found_logged",
        "False",
        (
            f"{READER}::TestCheckpointNamed"
            "::test_a_log_that_leaves_out_a_batch_is_refused_by_the_name_of_the_mode"
        ),
    ),
    Broken(
        "1.7",
        "a fenced epoch gets no ACK",
        "source.commits:Committer._examine",
        "checkpoint.fenced(self._epochs)",
        "False",
        f"{READER}::TestCheckpointNamed::test_a_fenced_reader_acks_nothing",
    ),
    Broken(
        "1.7",
        "a reader fences an epoch before it plans it as lost",
        "source.query:QueryRuntime._declare_lost",
        "self._committer.fence({part.epoch for part in lost})",
        "",
        f"{READER}::TestCheckpointNamed::test_a_fenced_reader_acks_nothing",
    ),
    Broken(
        "1.8",
        "a checkpoint that stays unreadable fails the query",
        "source.commits:Committer._raise_or_log",
        "raise error",
        "pass",
        f"{READER}::TestCheckpointNamed::test_a_file_system_that_goes_on_failing_fails_the_query",
    ),
    Broken(
        "1.9",
        "missing evidence is said at the end",
        "source.commits:Committer.stop",
        "self._warn_once('the query ends, and for its last batch')",
        "pass",
        f"{READER}::test_the_end_without_evidence_acks_nothing_and_says_which_option_helps",
    ),
    Broken(
        "1.10",
        "a message counts as ACKed only after its receipt",
        "receiver.ack_ledger:AckLedger.confirmed",
        "self._confirmed",
        "self._sent",
        "unit/receiver/test_ack_ledger.py::test_confirmed_grows_with_receipts_only",
    ),
    Broken(
        "2.1",
        "a range stays readable until it is committed",
        "receiver.deliveries:Deliveries.receive",
        "self._ledger.add(self.frames.append(held), acks, received_at)",
        """
            self._ledger.add(self.frames.append(held), acks, received_at)
            self.frames.release(self._marks.received)
        """,
        f"{RECEIVER}::test_frames_arrive_in_order_and_stay_readable",
    ),
    Broken(
        "2.2",
        "an epoch is never used again",
        "receiver.deliveries:new_epoch",
        "secrets.token_hex(8)",
        '"0"',
        f"{RECEIVER}::test_every_life_has_an_epoch_of_its_own",
    ),
    Broken(
        "2.3",
        "what was offered stays when its connection breaks",
        "receiver.deliveries:offer",
        "one.deliveries._marks.advance(kept=one.upto)",
        "",
        f"{DELIVERIES}::test_what_was_offered_stays_and_the_rest_is_discarded",
    ),
    Broken(
        "2.4",
        "what was not offered is discarded when its connection breaks",
        "receiver.deliveries:Deliveries._discard",
        "self._marks.received > self._marks.kept",
        "False",
        f"{DELIVERIES}::test_what_was_offered_stays_and_the_rest_is_discarded",
    ),
    Broken(
        "2.4",
        "if the broker does not deliver again, nothing is discarded",
        "receiver.deliveries:Deliveries.disconnected",
        "redelivers",
        "True",
        f"{DELIVERIES}::test_where_nothing_comes_again_everything_stays",
    ),
    Broken(
        "2.4",
        "a destination of unknown kind is not counted on to deliver again",
        "brokers.dialect:Dialect.redelivers",
        "durable or self.is_queue(destination, headers)",
        "durable or not self.is_topic(destination, headers)",
        f"{RECEIVER}::TestAnUnknownKindOfDestination::test_what_was_received_stays_when_the_connection_breaks",
    ),
    Broken(
        "2.5",
        "an end that was chosen before a discard is chosen again",
        "receiver.deliveries:offer",
        "return False",
        "",
        f"{READER}::test_an_end_chosen_before_a_discard_is_chosen_again",
    ),
    Broken(
        "2.6",
        "a frame that another delivery relies on is not discarded",
        "receiver.deliveries:Deliveries._attach",
        "self._index.pin(held_at)",
        "",
        f"{DELIVERIES}::test_a_frame_that_another_delivery_counts_on_is_not_discarded",
    ),
    Broken(
        "3.1",
        "a lost range is planned as empty",
        "source.query:QueryRuntime.partitions",
        "[held for held in ranges if held.epoch in epochs]",
        "ranges",
        f"{READER}::test_40_after_a_restart_partitions_of_the_last_end_prove_nothing",
    ),
    Broken(
        "3.2",
        "a lost range is never refilled",
        "source.planning:plan",
        "before is not None and before.epoch == position.epoch",
        "before is not None",
        f"{PLANNER}::TestPlan::test_another_epoch_starts_at_zero",
    ),
    Broken(
        "3.2",
        "frames of a dead epoch are not replaced by those of a living one",
        "source.query:QueryRuntime.partitions",
        "[held for held in ranges if held.epoch in epochs]",
        """
            [
                held
                if held.epoch in epochs
                else Range(held.name, next(iter(epochs)), held.low, held.high)
                for held in ranges
            ]
        """,
        f"{READER}::test_40_after_a_restart_partitions_of_the_last_end_prove_nothing",
    ),
    Broken(
        "3.3",
        "a task that did not get its whole range fails",
        "exchange.client:fetch",
        "expected != ticket.high",
        "False",
        "unit/exchange/test_exchange.py::test_less_than_the_whole_range_fails_the_task",
    ),
    Broken(
        "3.4",
        "a committed and freed range is an error",
        "source.memory_backlog:MemoryBacklog.readable",
        "wanted.low < released",
        "False",
        f"{READER}::test_a_range_can_be_read_again_until_it_is_committed",
    ),
    Broken(
        "4.1",
        "the old connection's handles are void",
        "receiver.deliveries:Deliveries.connected",
        "self._ledger = AckLedger(self._marks.committed)",
        'self._ledger = self._first = getattr(self, "_first", None) or AckLedger(self._marks.committed)',
        f"{DELIVERIES}::test_old_handles_are_void_and_new_ones_are_acked",
    ),
    Broken(
        "4.2",
        "the same key with another body is a new message",
        "receiver.dedup:_plain_keys",
        "blake2b(raw[body : end - 1], digest_size=16).digest()",
        'b""',
        f"{DELIVERIES}::test_the_same_key_with_another_body_is_new_and_counted",
    ),
    Broken(
        "4.2",
        "the same message by another entry of the option destination is a new message",
        "receiver.dedup:_plain_keys",
        "MessageKey(destination, name, digest, entry)",
        "MessageKey(destination, name, digest)",
        f"{DELIVERIES}::test_the_same_message_by_another_entry_is_new",
    ),
    Broken(
        "4.2",
        "a key that was written before keys had an entry stands for every entry",
        "receiver.deliveries:Deliveries._compare",
        "key if key is None or key in known else key.of_any_entry",
        "key",
        f"{DELIVERIES}::test_a_key_without_an_entry_stands_for_every_entry",
    ),
    Broken(
        "4.3",
        "a held message that comes again gives no second row, marked or not",
        "receiver.deliveries:Deliveries._sort_out",
        "self._index.add_new(held.ids, HeldAt(self._owner, self._marks.received))",
        "self._index.add_new(held.ids, HeldAt(self._owner, self._marks.received)) or not marked",
        f"{DELIVERIES}::test_the_mark_of_redelivery_does_not_matter",
    ),
    Broken(
        "4.4",
        "every valid handle is ACKed",
        "receiver.ack_ledger:AckLedger._take_attached",
        "taken.append(heappop(heap))",
        "taken[:] = [heappop(heap)]",
        f"{DELIVERIES}::test_every_live_handle_is_acked_on_its_own_connection",
    ),
    Broken(
        "4.4",
        "no handle is ACKed before the commit",
        "receiver.ack_ledger:AckLedger._take_attached",
        "heap[0][0] < committed",
        "True",
        f"{DELIVERIES}::test_every_live_handle_is_acked_on_its_own_connection",
    ),
    Broken(
        "4.5",
        "what was committed already is ACKed again",
        "receiver.deliveries:Deliveries._attach",
        "self._ledger.attach(held_at, key, handle, received_at)",
        """
            if held_at.owner >= 0:
                self._ledger.attach(held_at, key, handle, received_at)
        """,
        f"{DELIVERIES}::test_committed_and_unconfirmed_is_acked_again_and_dropped",
    ),
    Broken(
        "4.5",
        "a committed message that comes again gives no second row",
        "receiver.deliveries:Deliveries._remember_committed",
        "self._index.remember_unconfirmed(self.frames.keys(first, first + len(ids)))",
        "",
        f"{DELIVERIES}::test_committed_and_unconfirmed_is_acked_again_and_dropped",
    ),
    Broken(
        "4.6",
        "without an id every message is new, and counted",
        "receiver.deliveries:Deliveries._compare",
        "self._count(doubled=self._index.take_doubles(min(marked, nameless)))",
        "",
        f"{DELIVERIES}::test_without_an_id_everything_is_new_and_counted",
    ),
    Broken(
        "4.7",
        "ACKs without a receipt in time mean a dead connection",
        "receiver.receiver:Receiver._check_receipts",
        "deadline is not None and time.monotonic() >= max(deadline, latest)",
        "False",
        f"{RECEIVER}::test_missing_receipts_of_acks_mean_a_dead_connection",
    ),
    Broken(
        "4.8",
        "a refused login is not tried again",
        "receiver.retry:may_recover",
        "LoginRefused | DestinationRefused",
        "DestinationRefused",
        f"{RECEIVER}::TestReconnect::test_a_login_that_is_refused_now_ends_it_at_once",
    ),
    Broken(
        "4.9",
        "only messages of its own subscriptions are collected",
        "protocol.client:ClientConnection.subscribe",
        "self._source.collect_from(subscription_id)",
        "pass",
        f"{RECEIVER}::test_a_message_of_a_foreign_subscription_gets_neither_a_number_nor_an_ack",
    ),
    Broken(
        "5.1",
        "the call that asks for the next batch is enough to ACK the last one",
        "source.commits:Committer.latest_offset_called",
        "self._evidence.latest_offset_called(start)",
        "pass",
        f"{READER}::test_42_start_of_latest_offset_is_the_evidence",
    ),
    Broken(
        "5.2",
        "a full window counts as enough",
        "source.planning:is_ready",
        "any(receiver.full and receiver.new for receiver in available)",
        "False",
        f"{PLANNER}::TestIsReady::test_a_full_window_ends_the_wait_since_no_more_can_come",
    ),
    Broken(
        "5.3",
        "a broker that stops below the prefetch counts as full",
        "receiver.page_limit:PageLimitDetector.holds_back",
        "waits and quiet >= self._patience",
        "False",
        "unit/receiver/test_page_limit.py::TestSilence::test_any_number_may_be_the_limit",
    ),
    Broken(
        "5.3",
        "where messages only trickle, silence has to last longer and longer",
        "receiver.page_limit:PageLimitDetector._judge",
        "min(self._patience * 2, _LONGEST_STALL)",
        "_STALL",
        (
            "unit/receiver/test_page_limit.py"
            "::TestATrickle::test_each_time_the_silence_has_to_last_twice_as_long"
        ),
    ),
    Broken(
        "5.2",
        "with ackAfter=journal a full window is no reason to begin a batch",
        "source.journal_backlog:JournalBacklog._waits_for_commits",
        "not self._writer.acks_when_durable",
        "True",
        f"{DRAINING}::test_a_minimum_above_the_prefetch_is_met_where_the_journal_is_enough_for_an_ack",
    ),
    Broken(
        "5.4",
        "every batch takes at least one message",
        "source.planning:_within_bytes",
        "least > budgets[first.name]",
        "False",
        f"{PLANNER}::TestChooseEnd::test_a_message_larger_than_the_limit_is_taken_alone",
    ),
    Broken(
        "5.5",
        "silence does not count while ACKs are unconfirmed",
        "source.planning:Situation.silence",
        "one.acks_pending or not one.subscribed",
        "not one.subscribed",
        (
            f"{SOURCE}/test_waiting.py"
            "::test_unconfirmed_acks_are_no_silence_since_the_window_may_be_full_until_then"
        ),
    ),
    Broken(
        "5.5",
        "silence does not count while a message is on the wire",
        "receiver.receiver:Receiver._receive",
        "self._last_active = max(self._last_active, connection.last_frame_byte)",
        "pass",
        f"{RECEIVER}::test_a_message_that_is_on_the_wire_is_no_silence",
    ),
    Broken(
        "5.6",
        "AvailableNow ends at maxDrainTime",
        "source.planning:decide",
        "mode is Mode.DRAIN and situation.now >= situation.drain_until",
        "False",
        f"{WAITING}::TestDrain::test_ends_at_max_drain_time_even_with_messages",
    ),
    Broken(
        "5.7",
        "frames beyond the memory bound are spilled",
        "receiver.frame_store:FrameStore.prepare",
        "len(self._index) and self._memory_bytes + size > self._max_bytes",
        "False",
        "unit/receiver/test_frame_store.py::test_memory_stays_within_the_bound_however_much_arrives",
    ),
    Broken(
        "6.1",
        "the tasks of a batch cover it exactly",
        "source.planning:split",
        "low = high",
        "low = high + 1",
        f"{PLANNER}::test_split_covers_the_range_once",
    ),
    Broken(
        "6.2",
        "initialOffset is constant",
        "source.stream_reader:StompStreamReader.initialOffset",
        "INITIAL",
        "(self._last_end or INITIAL)",
        f"{READER}::test_42_start_of_latest_offset_is_the_evidence",
    ),
    Broken(
        "6.3",
        "with nothing new, the last end comes back byte for byte",
        "source.stream_reader:StompStreamReader.latestOffset",
        "start if start is not None and end == begin else end.to_dict()",
        "end.to_dict()",
        f"{READER}::test_with_nothing_new_the_last_end_comes_back_byte_for_byte",
    ),
    Broken(
        "6.4",
        "the text of an offset never changes",
        "source.offsets:Offset.to_dict",
        "{'receivers': receivers, 'version': _PLAIN}",
        "{'version': _PLAIN, 'receivers': receivers}",
        f"{SOURCE}/test_offsets.py::test_the_text_of_this_format_never_changes",
    ),
    Broken(
        "7.1",
        "a failure never looks like no data",
        "source.query:QueryRuntime._raise_failure",
        "raise failure",
        "return",
        f"{READER}::test_a_receiver_that_failed_is_an_error_and_not_no_data",
    ),
    Broken(
        "7.1",
        "TCP watches a connection without heart-beats",
        "transport.connect:_open_endpoint",
        "stream.limit_silence()",
        "pass",
        "unit/transport/test_connect.py::TestWithoutHeartbeats::test_a_silent_peer_is_given_two_minutes",
    ),
    Broken(
        "7.2",
        "a broker that is not there at the start is not waited for",
        "receiver.receiver:Receiver._may_try_again",
        "self._history.status.connections or isinstance(error, ClientIdInUse)",
        "True",
        f"{RECEIVER}::TestReconnect::test_nobody_there_at_the_beginning_is_said_at_once",
    ),
    Broken(
        "7.3",
        "the text of an error begins with its code",
        "errors:StompError.__str__",
        "f'[{self.code}] {self.message}'",
        "self.message",
        "unit/test_errors.py::TestEveryError::test_text_begins_with_its_code",
    ),
    Broken(
        "7.4",
        "a frame over a limit ends the receiver",
        "receiver.retry:may_recover",
        "isinstance(error, TransportError | HeartbeatLost | ReceiptTimeout | BrokerError)",
        "True",
        f"{RECEIVER}::test_a_frame_over_the_limit_is_a_failure_and_stays_on_the_broker",
    ),
    Broken(
        "7.5",
        "a plain topic needs allowLoss",
        "brokers.dialect:Dialect.check_subscription",
        "self.is_topic(destination, headers) and not durable and not allow_loss",
        "False",
        "unit/brokers/test_dialect.py::TestSubscriptions::test_a_plain_topic_needs_consent_to_loss",
    ),
    Broken(
        "7.6",
        "behind a refused message nothing is taken",
        "receiver.receiver:Receiver._take",
        "self._refused is not None",
        "False",
        f"{REFUSAL}::test_what_came_before_it_is_read_and_acked_first",
    ),
    Broken(
        "7.6",
        "the query fails only after the commit",
        "source.refusal:Refusal.failure",
        "before is None or not self._backlog.is_committed(before)",
        "before is None",
        f"{REFUSAL}::test_it_waits_for_the_commit",
    ),
    Broken(
        "7.6",
        "the query fails only after the receipts",
        "source.refusal:Refusal.failure",
        "any(status.acks_pending for status in refused)",
        "False",
        f"{REFUSAL}::test_it_waits_for_the_receipts",
    ),
    Broken(
        "7.6",
        "what another destination has counts as before it",
        "source.refusal:Refusal._all_before",
        "all(status.subscribed for status in statuses)",
        "True",
        f"{REFUSAL}::test_what_another_receiver_is_about_to_bring_is_waited_for",
    ),
    Broken(
        "7.7",
        "a malformed message is a row",
        "receiver.receiver:Receiver._take_malformed",
        "self._options.on_malformed == 'column' and message.ack",
        "False",
        f"{MALFORMED}::test_rows_in_order_acked_like_any",
    ),
    Broken(
        "7.7",
        "the journal keeps the reason",
        "journal.records:decode_batch",
        "FrameBatch(data, ends, head.first, head.received_at, version, dialect, receiver, *malformed)",
        "FrameBatch(data, ends, head.first, head.received_at, version, dialect, receiver)",
        f"{MALFORMED}::test_a_restart_replays_them_from_the_journal",
    ),
    Broken(
        "7.8",
        "the schema must name the column",
        "source.tasks:RowSettings.of",
        "without and MALFORMED not in projection.columns",
        "False",
        f"{MALFORMED}::TestTheColumnIsRequired::test_by_the_options_that_fill_it",
    ),
    Broken(
        "7.8",
        "malformed messages of an earlier run are not read without the column",
        "arrow.decode:decode_frames",
        "batch.malformed is not None and MALFORMED not in projection.columns",
        "False",
        f"{MALFORMED}::test_a_journal_of_them_is_not_read_without_the_column",
    ),
    Broken(
        "J.1",
        "durable means synced",
        "journal.local.journal:LocalJournal.append",
        "segment.sync()",
        "",
        f"{JOURNAL}::TestCrash::test_a_damaged_byte_that_was_synced_is_an_error",
    ),
    Broken(
        "J.1",
        "in an object store: durable means synced",
        "journal.objects.blobs:MountStore.put",
        "os.fsync(descriptor)",
        "",
        f"{OBJECTS}::TestFailures::test_frames_are_synced_before_they_have_positions",
    ),
    Broken(
        "J.1",
        "what an earlier run left is synced before it is offered",
        "journal.local.segment:Segment.open",
        "(sync_anew if last else sync)(descriptor)",
        "",
        f"{JOURNAL}::TestSync::test_what_an_earlier_run_left_is_synced_before_it_is_offered",
    ),
    Broken(
        "J.1",
        "after a sync that failed nothing more is written",
        "journal.local.journal:LocalJournal._writing",
        "raise self._failure",
        "pass",
        f"{JOURNAL}::TestSync::test_after_one_that_failed_nothing_more_is_written",
    ),
    Broken(
        "J.2",
        "what came later does not get into a batch that is replayed",
        "source.journal_backlog:JournalBacklog.readable",
        "return [wanted]",
        "return [Range(wanted.name, wanted.epoch, wanted.low, self._journal.end)]",
        f"{JOURNALED}::TestReplay::test_and_nothing_else_gets_into_that_batch",
    ),
    Broken(
        "J.3",
        "a position is not given away twice",
        "source.journal_backlog:JournalBacklog.begin",
        "journal.skip(given)",
        "",
        f"{JOURNALED}::TestRefused::test_an_older_copy_of_the_journal",
    ),
    Broken(
        "J.4",
        "on a new checkpoint reading begins at the committed position",
        "source.journal_backlog:JournalBacklog.__init__",
        "self._base = journal.committed",
        "self._base = journal.first",
        (
            f"{JOURNALED}::TestRestartedOtherwise"
            "::test_with_a_fresh_checkpoint_reading_begins_at_the_committed_position"
        ),
    ),
    Broken(
        "J.4",
        "the first offset contains where reading began",
        "source.journal_backlog:JournalBacklog.available",
        "self._base if committed is None else 0",
        "0",
        (
            f"{JOURNALED}::TestRestartedOtherwise"
            "::test_with_a_fresh_checkpoint_reading_begins_at_the_committed_position"
        ),
    ),
    Broken(
        "J.5",
        "with ackAfter=commit, durable is no reason to ACK",
        "source.journal_writer:JournalWriter._write",
        "self._ack_when_durable",
        "True",
        f"{WRITER}::test_durable_alone_is_no_reason_to_ack",
    ),
    Broken(
        "J.5",
        "with ackAfter=journal, durable is the reason to ACK",
        "source.journal_writer:JournalWriter._write",
        "self._ack_when_durable",
        "False",
        f"{WRITER}::test_with_ack_after_journal_it_is_and_not_before",
    ),
    Broken(
        "J.6",
        "a commit that comes before the writer has reported counts",
        "source.journal_writer:JournalWriter._write",
        "position < self._committed",
        "False",
        f"{WRITER}::test_a_commit_that_overtakes_the_writer_counts",
    ),
    Broken(
        "J.7",
        "frames that are being written are not discarded",
        "receiver.deliveries:Deliveries.take",
        "self._marks.advance(kept=taken[-1].batch.end)",
        "",
        f"{WRITER}::test_frames_on_their_way_to_the_disk_are_not_discarded",
    ),
    Broken(
        "J.8",
        "a redelivery after a restart gives no second row",
        "source.journal_recovery:recover",
        "batch.end > min(journal.end - most, journal.committed)",
        "False",
        f"{WRITER}::TestAfterARestart::test_redelivered_and_not_committed_gives_no_second_row",
    ),
    Broken(
        "J.8",
        "if it was committed, it is ACKed and dropped",
        "source.journal_recovery:recover",
        "recovered.commit_position(journal.committed)",
        "",
        f"{WRITER}::TestAfterARestart::test_redelivered_and_committed_is_acked_and_dropped",
    ),
    Broken(
        "J.9",
        "a message is remembered after its ACK was confirmed",
        "receiver.deliveries:Deliveries._free",
        "self._index.remember_confirmed(self.frames.keys(first, first + len(ids)))",
        "",
        f"{WRITER}::test_what_a_broker_forgot_having_confirmed_gives_no_second_row",
    ),
    Broken(
        "J.9",
        "a message is remembered after a repeated ACK was confirmed",
        "receiver.dedup:DedupIndex.confirm",
        "self.remember_confirmed(keys)",
        "",
        "unit/receiver/test_dedup.py::TestJournaled::test_confirmed_is_still_known",
    ),
    Broken(
        "J.9",
        "of what is remembered, the confirmed is forgotten first",
        "receiver.dedup:DedupIndex._remember",
        "surplus -= self._confirmed.evict_oldest(surplus)",
        "",
        (
            "unit/receiver/test_dedup.py::TestJournaled"
            "::test_beyond_the_bound_confirmed_ones_go_first_and_uncounted"
        ),
    ),
    Broken(
        "J.10",
        "what the checkpoint has as committed is ACKed when it comes again",
        "source.commits:Committer.began_at",
        "self._checkpoint is not None and self._checkpoint.last_commit_holds(start)",
        "False",
        f"{JOURNALED}::test_acks_that_the_broker_never_saw_need_no_further_batch",
    ),
    Broken(
        "J.11",
        "keys are durable before their frames are deleted",
        "source.journal_writer:JournalWriter._remember",
        "self._journal.remember(keys)",
        "",
        f"{WRITER}::TestRoom::test_so_does_a_connection_that_ended_before_its_receipts",
    ),
    Broken(
        "J.11",
        "on a full disk, only messages whose ACKs are confirmed are deleted without their keys",
        "source.journal_writer:JournalWriter._trim",
        "self._remember() or self._index.unwritten_are_confirmed",
        "self._remember() or True",
        f"{WRITER}::TestFullDisk::test_without_a_confirmed_ack_only_if_the_keys_are_durable",
    ),
    Broken(
        "J.11",
        "what the broker has not confirmed as ACKed is not deleted",
        "source.journal_writer:JournalWriter._trim",
        "upto = upto if unconfirmed is None else min(upto, unconfirmed)",
        "",
        f"{WRITER}::TestRoom::test_a_commit_whose_acks_are_confirmed_makes_room",
    ),
    Broken(
        "J.12",
        "at journalMaxBytes frames wait",
        "source.journal_writer:JournalWriter._has_room",
        "return self._bound is None",
        "return True",
        f"{WRITER}::TestRoom::test_at_the_bound_frames_wait_un_acked_and_un_offered",
    ),
    Broken(
        "J.12",
        "frames wait if as many are not committed as are remembered",
        "source.journal_writer:JournalWriter._bound_reached",
        "self._journal.end - self._committed >= self._max_uncommitted",
        "False",
        f"{WRITER}::TestRoom::test_as_many_uncommitted_ones_as_can_be_remembered_are_a_bound_too",
    ),
    Broken(
        "J.12",
        "frames wait while the disk is full",
        "source.journal_writer:JournalWriter._await_room",
        "not self._holds_anything()",
        "True",
        f"{WRITER}::TestFullDisk::test_frames_wait_and_what_is_there_is_served",
    ),
    Broken(
        "J.8",
        "what is not committed is recognised, however much it is",
        "source.journal_recovery:recover",
        "min(journal.end - most, journal.committed)",
        "(journal.end - most)",
        f"{WRITER}::TestAfterARestart::test_what_is_not_committed_has_a_key_beyond_any_bound",
    ),
    Broken(
        "J.12",
        "frames do not wait if nothing could make room",
        "source.journal_writer:JournalWriter._bound_reached",
        "self._holds_anything()",
        "True",
        f"{WRITER}::TestRoom::test_a_bound_that_is_smaller_than_any_group_lets_one_through",
    ),
    Broken(
        "J.13",
        "with failOnDataLoss=false, committed positions that are gone are not missed",
        "source.journal_backlog:JournalBacklog.begin",
        "journal.commit(committed or 0)",
        "",
        f"{JOURNALED}::TestRefused::test_an_older_copy_of_the_journal",
    ),
    Broken(
        "J.13",
        "a range in a journal is never empty",
        "source.query:QueryRuntime._declare_lost",
        "self._backlog.missing(part)",
        "",
        f"{JOURNALED}::TestRefused::test_a_first_batch_whose_journal_is_gone_after_another_call",
    ),
    Broken(
        "J.13",
        "the journal that is there must be the one of the checkpoint",
        "source.query:QueryRuntime.start",
        "self._backlog.begin(begin, planned)",
        "",
        f"{JOURNALED}::TestRefused::test_the_option_that_was_left_out_with_nothing_planned",
    ),
    Broken(
        "J.13",
        "nothing is received before a planned batch was found in the journal",
        "source.stream_reader:StompStreamReader._running",
        "planned or begin",
        "begin",
        f"{JOURNALED}::TestRefused::test_an_older_copy_of_the_journal_under_a_planned_batch",
    ),
    Broken(
        "J.13",
        "nothing is received before the journal of a first batch was found",
        "source.stream_reader:StompStreamReader._running",
        "planned or begin",
        "begin",
        f"{JOURNALED}::TestRefused::test_a_first_batch_whose_journal_is_gone",
    ),
    Broken(
        "J.13",
        "the option cannot be left out if a first batch names a journal",
        "source.memory_backlog:MemoryBacklog.begin",
        "start.get(JOURNAL) or planned.get(JOURNAL)",
        "start.get(JOURNAL)",
        f"{JOURNALED}::TestRefused::test_a_first_batch_whose_journal_is_no_longer_named",
    ),
    Broken(
        "J.14",
        "only what is behind everything durable may be cut off",
        "journal.local.segment:Segment._scan",
        "last and not self._was_durable(offset, length)",
        "last",
        f"{JOURNAL}::TestCrash::test_a_damaged_byte_that_was_synced_is_an_error",
    ),
    Broken(
        "J.14",
        "nothing is cut off any file but the last",
        "journal.local.segment:Segment._scan",
        "last and not self._was_durable(offset, length)",
        "not self._was_durable(offset, length)",
        f"{JOURNAL}::TestDamage::test_what_is_damaged_is_left_as_it_is",
    ),
    Broken(
        "J.14",
        "in an object store: an object that was reported as durable may not be unfinished",
        "journal.objects.listing_state:_may_be_unfinished",
        "cut and last.writer == listing.manifest.writer and last.first >= durable",
        "cut and last.writer == listing.manifest.writer",
        f"{OBJECTS}::TestDamage::test_one_is_cut_off",
    ),
    Broken(
        "J.15",
        "one writer at a time",
        "journal.local.journal:_locked",
        "fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "",
        f"{JOURNAL}::TestLock::test_a_second_query_is_refused",
    ),
    Broken(
        "J.15",
        "in an object store: the writer looks for a newer one before it reports frames as durable",
        "journal.objects.journal:ObjectJournal.append",
        """
            if put:
                self._fence.check()
        """,
        "",
        f"{OBJECTS}::TestTakeover::test_the_older_writer_stops_and_what_it_put_then_is_void",
    ),
    Broken(
        "J.15",
        "in an object store: what a newer writer did not accept is never read",
        "journal.objects.fencing:Manifest.owns",
        "frames.writer == writer and low <= frames.first and frames.end <= high",
        "frames.writer == writer",
        f"{OBJECTS}::TestTakeover::test_the_older_writer_stops_and_what_it_put_then_is_void",
    ),
    Broken(
        "J.16",
        "in an object store: after a failed put nothing more is put",
        "journal.objects.journal:ObjectJournal._writing",
        "raise self._failure",
        "self._failure = None",
        f"{OBJECTS}::TestFailures::test_a_put_that_failed_for_good_is_the_last",
    ),
    Broken(
        "J.16",
        "in an object store: commits are recorded before objects are deleted",
        "journal.objects.journal:ObjectJournal.trim",
        """
            if self._durable_commit < old[-1].end:
                self._mark()
        """,
        "",
        f"{OBJECTS}::TestCrash::test_what_was_committed_is_told_before_it_is_deleted",
    ),
]
