"""For each point of the delivery contract: the code that keeps it, how to break it, the test that notices."""

from __future__ import annotations

from dataclasses import dataclass

from support.replacement import Replacement

__all__ = ["RULES", "Broken"]

JOURNALED = "faults/test_journal.py"
LOCAL = "unit/journal/test_local.py"
OBJECTS = "unit/journal/test_objects.py"
DELIVERIES = "unit/receiver/test_deliveries.py"
HOSTILE = "integration/receiver/test_hostile_messages.py"
PAUSE = "integration/receiver/test_pause.py"
RECEIVER = "integration/receiver/test_receiver.py"
SENDER = "integration/sink/test_sender.py"
DRAIN = "integration/source/test_drain.py"
WRITER = "unit/source/test_journal_writer.py"
MALFORMED = "integration/source/test_malformed_rows.py"
PLANNING = "unit/source/test_planning.py"
READER = "integration/spark/test_stream_reader.py"
WAITING = "unit/source/test_waiting.py"


@dataclass(frozen=True)
class Broken:
    """``rule`` is broken, and ``test`` fails, once ``old`` is replaced by ``new`` in ``symbol``.

    See :class:`Replacement`. One entry breaks the heart of a point; a point has two if it makes two promises
    without which messages are lost.
    """

    rule: str
    symbol: str
    old: str
    new: str
    test: str

    def __str__(self) -> str:
        return f"{self.rule} {self.test.rpartition('::')[2]}"

    @property
    def replacement(self) -> Replacement:
        return Replacement(self.symbol, self.old, self.new)


RULES = [
    # 1. ACK after the commit, never before
    Broken(
        "1.1",
        "receiver.deliveries:Deliveries.due",
        "self._ledger.take(self._marks.committed, self._index.committed, most)",
        "self._ledger.take(self._marks.received, self._index.committed, most)",
        f"{RECEIVER}::test_exactly_what_is_committed_is_acked",
    ),
    Broken(
        "1.2",
        "source.commits:CommitEvidence.latest_offset_called",
        "self._uncommitted_plan is not None",
        "False",
        f"{READER}::test_40_latest_offset_after_partitions_is_the_evidence",
    ),
    Broken(
        "1.3",
        "source.commits:CommitEvidence.planned",
        "self._uncommitted_plan = end",
        "self._committed(end)",
        "unit/source/test_commits.py::TestCalls::test_planning_alone_proves_nothing",
    ),
    Broken(
        "1.3",
        "source.query:QueryRuntime._stop",
        "self._committer.stop(_LAST_LOOK)",
        "self._receivers.commit(self.received())",
        f"{READER}::test_the_end_without_evidence_acks_nothing_and_says_which_option_helps",
    ),
    Broken(
        "1.4",
        "source.commits:Committer.__init__",
        "checkpoint is None",
        "True",
        f"{READER}::TestCheckpointNamed::test_calls_alone_are_not_enough",
    ),
    Broken(
        "1.5",
        "source.commits:CommitWatch._run",
        "self._check()",
        "stopping or self._check()",
        f"{READER}::TestCheckpointNamed::test_at_the_end_the_checkpoint_is_read_once_more",
    ),
    Broken(
        "1.6",
        "source.commits:Committer._await_offset_log",
        "checkpoint.holds(end)",
        "True",
        f"{READER}::TestCheckpointNamed::test_another_querys_checkpoint_is_refused",
    ),
    Broken(
        "1.7",
        "source.commits:Committer._examine",
        "checkpoint.fenced(self._epochs)",
        "False",
        f"{READER}::TestCheckpointNamed::test_a_fenced_reader_acks_nothing",
    ),
    Broken(
        "1.8",
        "source.commits:Committer._raise_or_log",
        "raise error",
        "pass",
        f"{READER}::TestCheckpointNamed::test_a_file_system_that_goes_on_failing_fails_the_query",
    ),
    Broken(
        "1.9",
        "source.commits:Committer.stop",
        "self._warn_once('the query ends, and for its last batch')",
        "pass",
        f"{READER}::test_the_end_without_evidence_acks_nothing_and_says_which_option_helps",
    ),
    Broken(
        "1.10",
        "receiver.ack_ledger:AckLedger.confirmed",
        "self._confirmed",
        "self._sent",
        "unit/receiver/test_ack_ledger.py::test_confirmed_grows_with_receipts_only",
    ),
    # 2. A range never changes
    Broken(
        "2.1",
        "receiver.deliveries:Deliveries.receive",
        "self._ledger.add(self.frames.append(held), acks, received_at)",
        "self._ledger.add(self.frames.append(held), acks, received_at)\n"
        "self.frames.release(self._marks.received)",
        f"{RECEIVER}::test_frames_arrive_in_order_and_stay_readable",
    ),
    Broken(
        "2.2",
        "receiver.deliveries:new_epoch",
        "secrets.token_hex(8)",
        '"0"',
        f"{RECEIVER}::test_each_receiver_has_its_own_epoch",
    ),
    Broken(
        "2.3",
        "receiver.deliveries:offer",
        "one.deliveries.pin(one.upto - 1)",
        "",
        f"{DELIVERIES}::test_what_was_offered_stays_and_the_rest_is_discarded",
    ),
    Broken(
        "2.4",
        "receiver.deliveries:Deliveries._discard",
        "self._marks.received > self._marks.kept",
        "False",
        f"{DELIVERIES}::test_what_was_offered_stays_and_the_rest_is_discarded",
    ),
    Broken(
        "2.4",
        "receiver.deliveries:Deliveries.disconnected",
        "redelivers",
        "True",
        f"{DELIVERIES}::test_where_nothing_comes_again_everything_stays",
    ),
    Broken(
        "2.5",
        "receiver.deliveries:offer",
        "return False",
        "",
        f"{READER}::test_an_end_chosen_before_a_discard_is_chosen_again",
    ),
    Broken(
        "2.6",
        "receiver.deliveries:Deliveries._attach",
        "self._index.pin(held_at)",
        "",
        f"{DELIVERIES}::test_a_frame_that_another_delivery_counts_on_is_not_discarded",
    ),
    # 3. A lost range is empty, is never filled again and is never ACKed
    Broken(
        "3.1",
        "source.query:QueryRuntime.partitions",
        "[held for held in ranges if held.epoch in epochs]",
        "ranges",
        f"{READER}::test_40_after_a_restart_partitions_of_the_last_end_prove_nothing",
    ),
    Broken(
        "3.2",
        "source.query:QueryRuntime.partitions",
        "[held for held in ranges if held.epoch in epochs]",
        "[held if held.epoch in epochs else Range(held.name, next(iter(epochs)), held.low, held.high) "
        "for held in ranges]",
        f"{READER}::test_40_after_a_restart_partitions_of_the_last_end_prove_nothing",
    ),
    Broken(
        "3.3",
        "frameserver.client:fetch",
        "expected != ticket.high",
        "False",
        "integration/frameserver/test_server.py::test_less_than_the_whole_range_fails_the_task",
    ),
    Broken(
        "3.4",
        "source.memory_backlog:MemoryBacklog.readable",
        "wanted.low < released",
        "False",
        f"{READER}::test_a_range_can_be_read_again_until_it_is_committed",
    ),
    # 4. ACK only on the connection that delivered the message
    Broken(
        "4.1",
        "receiver.deliveries:Deliveries.connected",
        "self._ledger = AckLedger(self._marks.committed)",
        'self._ledger = self._first = getattr(self, "_first", None) or AckLedger(self._marks.committed)',
        f"{DELIVERIES}::test_old_handles_are_void_and_new_ones_are_acked",
    ),
    Broken(
        "4.2",
        "receiver.dedup:frame_keys",
        "blake2b(body, digest_size=16).digest()",
        'b""',
        f"{DELIVERIES}::test_the_same_key_with_another_body_is_new_and_counted",
    ),
    Broken(
        "4.2",
        "receiver.dedup:frame_keys",
        "MessageKey(destination, name, blake2b(body, digest_size=16).digest(), entry)",
        "MessageKey(destination, name, blake2b(body, digest_size=16).digest())",
        f"{DELIVERIES}::test_the_same_message_by_another_entry_is_new",
    ),
    Broken(
        "4.3",
        "receiver.deliveries:Deliveries._sort_out",
        "self._index.add_new(held.ids, HeldAt(self._owner, self._marks.received))",
        "self._index.add_new(held.ids, HeldAt(self._owner, self._marks.received)) or not marked",
        f"{DELIVERIES}::test_the_mark_of_redelivery_does_not_matter",
    ),
    Broken(
        "4.4",
        "receiver.ack_ledger:AckLedger._take_attached",
        "taken.append(heappop(heap))",
        "taken[:] = [heappop(heap)]",
        f"{DELIVERIES}::test_every_live_handle_is_acked_on_its_own_connection",
    ),
    Broken(
        "4.5",
        "receiver.deliveries:Deliveries._remember_committed",
        "self._index.remember_unconfirmed(self.frames.keys(first, first + len(ids)))",
        "",
        f"{DELIVERIES}::test_committed_and_unconfirmed_is_acked_again_and_dropped",
    ),
    Broken(
        "4.6",
        "receiver.deliveries:Deliveries._compare",
        "self._count(doubled=self._index.take_doubles(min(marked, nameless)))",
        "",
        f"{DELIVERIES}::test_without_an_id_everything_is_new_and_counted",
    ),
    Broken(
        "4.7",
        "receiver.pause:BoundedReader.check_receipts",
        "self._receipt_clock() >= max(deadline, self._patient_from + timeout)",
        "False",
        f"{RECEIVER}::test_missing_receipts_of_acks_mean_a_dead_connection",
    ),
    Broken(
        "4.8",
        "receiver.receiver:Receiver._wait_to_reconnect",
        "self._let_in is not None",
        "False",
        f"{RECEIVER}::TestReconnect::test_a_login_that_is_refused_now_is_tried_again",
    ),
    Broken(
        "4.9",
        "protocol.client:ClientConnection.subscribe",
        "self._source.collect_from(subscription_id)",
        "pass",
        f"{RECEIVER}::test_a_message_of_a_foreign_subscription_gets_neither_a_number_nor_an_ack",
    ),
    Broken(
        "4.10",
        "protocol.scanner:FrameScanner.collect",
        "own if ack is None else (ack,)",
        "own",
        "unit/protocol/test_scanner.py::TestSettings::test_the_handle_may_be_in_another_header",
    ),
    Broken(
        "4.11",
        "receiver.receiver:Receiver._error_of",
        "self._refused_acks < _MOST_REFUSED_ACKS",
        "True",
        f"{HOSTILE}::TestRefusedAcks::test_three_in_a_row_fail_the_query_and_name_the_message",
    ),
    # 5. Never wait for what cannot come
    Broken(
        "5.1",
        "source.commits:Committer.latest_offset_called",
        "self._evidence.latest_offset_called(start)",
        "pass",
        f"{READER}::test_42_start_of_latest_offset_is_the_evidence",
    ),
    Broken(
        "5.2",
        "source.planning:is_ready",
        "any(receiver.full and receiver.new for receiver in available)",
        "False",
        f"{PLANNING}::TestIsReady::test_a_full_window_ends_the_wait_since_no_more_can_come",
    ),
    Broken(
        "5.3",
        "receiver.receiver:Receiver._is_full",
        "self._may_stop_early and deliveries.unacked and self._quiet() >= _STOPPED_AFTER",
        "False",
        f"{RECEIVER}::TestABrokerThatStopsEarly::test_counts_as_full_after_silence",
    ),
    Broken(
        "5.4",
        "source.planning:_within_bytes",
        "least > budgets[first.name]",
        "False",
        f"{PLANNING}::TestChooseEnd::test_a_message_larger_than_the_limit_is_taken_alone",
    ),
    Broken(
        "5.5",
        "source.planning:Situation.silence",
        "one.acks_pending or not one.subscribed or one.paused_since is not None",
        "not one.subscribed or one.paused_since is not None",
        f"{WAITING}::test_unconfirmed_acks_are_no_silence_since_the_window_may_be_full_until_then",
    ),
    Broken(
        "5.6",
        "source.planning:decide",
        "mode is Mode.DRAIN and situation.now >= situation.drain_until",
        "False",
        f"{WAITING}::TestDrain::test_ends_at_max_drain_time_even_with_messages",
    ),
    Broken(
        "5.7",
        "receiver.pause:BoundedReader.poll",
        "self._deliveries.room() <= 0",
        "False",
        f"{PAUSE}::test_beyond_the_bound_the_socket_is_left_unread",
    ),
    Broken(
        "5.8",
        "spark.stream_reader:StompStreamReader.latestOffset",
        "first and runtime.drains_first",
        "False",
        f"{DRAIN}::TestTheFirstBatch::test_takes_all_there_is",
    ),
    Broken(
        "5.9",
        "source.query:QueryRuntime._note_cut",
        "self._tell_what_is_left(mode, situation)",
        "pass",
        f"{DRAIN}::TestOneBatch::test_that_leaves_more_on_the_broker_says_how_to_get_it",
    ),
    Broken(
        "5.10",
        "source.planning:awaits_refill",
        "2 * situation.new < situation.last.messages",
        "False",
        f"{WAITING}::TestRefill::test_waits_for_half_as_much_as_the_last_batch",
    ),
    Broken(
        "5.11",
        "receiver.receiver:Receiver._send_acks",
        "self._deliveries.receipts_awaited >= _ACK_GROUPS",
        "False",
        f"{RECEIVER}::test_acks_go_out_in_groups_while_messages_come",
    ),
    Broken(
        "5.12",
        "receiver.receiver:Receiver._is_full",
        "paused or deliveries.unacked >= self._prefetch",
        "deliveries.unacked >= self._prefetch",
        f"{PAUSE}::test_a_paused_receiver_counts_as_full",
    ),
    Broken(
        "5.13",
        "receiver.pause:BoundedReader._rest",
        "self._unread += connection.rested - before",
        "pass",
        f"{PAUSE}::test_a_receipt_behind_messages_that_wait_is_not_missing",
    ),
    Broken(
        "5.14",
        "receiver.deliveries:Deliveries.room",
        "self.frames.shed()",
        "pass",
        f"{PAUSE}::test_committed_messages_make_room_before_their_receipts_come",
    ),
    Broken(
        "5.15",
        "receiver.receiver:Receiver._take",
        "self._refused is not None or self._stop_deadline is not None",
        "self._refused is not None",
        f"{PAUSE}::test_the_end_reads_on_for_the_last_receipts_and_keeps_nothing",
    ),
    # 6. The offset says exactly what was read
    Broken(
        "6.1",
        "source.offsets:split",
        "low = high",
        "low = high + 1",
        f"{PLANNING}::test_split_covers_the_ranges_once",
    ),
    Broken(
        "6.2",
        "spark.stream_reader:StompStreamReader.initialOffset",
        "INITIAL",
        "(self._last_end or INITIAL)",
        f"{READER}::test_42_start_of_latest_offset_is_the_evidence",
    ),
    Broken(
        "6.3",
        "spark.stream_reader:StompStreamReader.latestOffset",
        "start if start is not None and end == begin else end.to_dict()",
        "end.to_dict()",
        f"{READER}::test_with_nothing_new_the_last_end_comes_back_byte_for_byte",
    ),
    Broken(
        "6.4",
        "source.offsets:Offset.to_dict",
        "{'receivers': receivers, 'version': _VERSION}",
        "{'version': _VERSION, 'receivers': receivers}",
        "unit/source/test_offsets.py::test_the_text_of_this_format_never_changes",
    ),
    # 7. Fail loudly
    Broken(
        "7.1",
        "source.query:QueryRuntime._raise_failure",
        "raise failure",
        "return",
        f"{READER}::test_a_receiver_that_failed_is_an_error_and_not_no_data",
    ),
    Broken(
        "7.2",
        "receiver.receiver:Receiver._may_try_again",
        "self._connections.connections or isinstance(error, ClientIdInUse)",
        "True",
        f"{RECEIVER}::TestReconnect::test_nobody_there_at_the_beginning_is_said_at_once",
    ),
    Broken(
        "7.3",
        "errors:StompError.__str__",
        "f'[{self.code}] {self.message}'",
        "self.message",
        "unit/test_errors.py::TestEveryError::test_text_begins_with_its_code",
    ),
    Broken(
        "7.4",
        "transport.retry:may_recover",
        "isinstance(error, TransportError | HeartbeatLost | ReceiptTimeout | BrokerError)",
        "True",
        f"{RECEIVER}::test_a_frame_over_the_limit_is_a_failure_and_stays_on_the_broker",
    ),
    Broken(
        "7.5",
        "brokers.dialect:Dialect.check_subscription",
        "self.is_topic(destination, headers) and not durable and not allow_loss",
        "False",
        "unit/brokers/test_dialect.py::TestSubscriptions::test_a_plain_topic_needs_consent_to_loss",
    ),
    Broken(
        "7.6",
        "receiver.receiver:Receiver._take",
        "self._refused is not None",
        "False",
        "integration/source/test_refusal.py::test_what_came_before_it_is_read_and_acked_first",
    ),
    Broken(
        "7.7",
        "receiver.receiver:Receiver._take_malformed",
        "self._options.on_malformed == 'column' and message.ack",
        "False",
        f"{MALFORMED}::test_rows_in_order_acked_like_any",
    ),
    Broken(
        "7.8",
        "source.tasks:RowSettings.of",
        "without and MALFORMED not in projection.columns",
        "False",
        f"{MALFORMED}::TestTheColumnIsRequired::test_by_the_options_that_fill_it",
    ),
    Broken(
        "7.9",
        "receiver.receiver:Receiver._take",
        "self._streams.at_messages(self._dialect, connection.peer, block.data)",
        "pass",
        f"{HOSTILE}::TestStreams::test_are_refused_at_their_first_message",
    ),
    # J. With a journal
    Broken(
        "J.1",
        "journal.local.journal:LocalJournal.append",
        "segment.sync()",
        "",
        f"{LOCAL}::TestCrash::test_a_damaged_byte_that_was_synced_is_an_error",
    ),
    Broken(
        "J.1",
        "journal.local.journal:LocalJournal._writing",
        "raise self._failure",
        "pass",
        f"{LOCAL}::TestSync::test_after_one_that_failed_nothing_more_is_written",
    ),
    Broken(
        "J.2",
        "source.journal_backlog:JournalBacklog.readable",
        "return [wanted]",
        "return [Range(wanted.name, wanted.epoch, wanted.low, self._journal.end)]",
        f"{JOURNALED}::TestReplay::test_and_nothing_else_gets_into_that_batch",
    ),
    Broken(
        "J.3",
        "source.journal_backlog:JournalBacklog.begin",
        "journal.skip(given)",
        "",
        f"{JOURNALED}::TestRefused::test_an_older_copy_of_the_journal",
    ),
    Broken(
        "J.4",
        "source.journal_backlog:JournalBacklog.__init__",
        "self._base = journal.committed",
        "self._base = journal.first",
        f"{JOURNALED}::TestRestartedOtherwise::"
        "test_with_a_fresh_checkpoint_reading_begins_at_the_committed_position",
    ),
    Broken(
        "J.5",
        "source.journal_writer:JournalWriter._write",
        "self._ack_when_durable",
        "True",
        f"{WRITER}::test_durable_alone_is_no_reason_to_ack",
    ),
    Broken(
        "J.6",
        "source.journal_writer:JournalWriter._write",
        "position < self._committed",
        "False",
        f"{WRITER}::test_a_commit_that_overtakes_the_writer_counts",
    ),
    Broken(
        "J.7",
        "receiver.deliveries:Deliveries.take",
        "self._marks.advance(kept=taken[-1].end)",
        "",
        f"{WRITER}::test_frames_on_their_way_to_the_disk_are_not_discarded",
    ),
    Broken(
        "J.8",
        "source.journal_recovery:recover",
        "batch.end > min(journal.end - most, journal.committed)",
        "False",
        f"{WRITER}::TestAfterARestart::test_redelivered_and_not_committed_gives_no_second_row",
    ),
    Broken(
        "J.9",
        "receiver.deliveries:Deliveries._free",
        "self._index.remember_confirmed(self.frames.keys(first, first + len(ids)))",
        "",
        f"{WRITER}::test_what_a_broker_forgot_having_confirmed_gives_no_second_row",
    ),
    Broken(
        "J.10",
        "source.commits:Committer.began_at",
        "self._checkpoint is not None and self._checkpoint.last_commit_holds(start)",
        "False",
        f"{JOURNALED}::test_acks_that_the_broker_never_saw_need_no_further_batch",
    ),
    Broken(
        "J.11",
        "source.journal_writer:JournalWriter._trim",
        "upto = upto if unconfirmed is None else min(upto, unconfirmed)",
        "",
        f"{WRITER}::TestRoom::test_a_commit_whose_acks_are_confirmed_makes_room",
    ),
    Broken(
        "J.12",
        "source.journal_writer:JournalWriter._has_room",
        "return self._bound is None",
        "return True",
        f"{WRITER}::TestRoom::test_at_the_bound_frames_wait_un_acked_and_un_offered",
    ),
    Broken(
        "J.13",
        "source.query:QueryRuntime._declare_lost",
        "self._backlog.missing(part)",
        "",
        f"{JOURNALED}::TestRefused::test_a_first_batch_whose_journal_is_gone_after_another_call",
    ),
    Broken(
        "J.13",
        "source.query:QueryRuntime.start",
        "self._backlog.begin(begin, planned)",
        "",
        f"{JOURNALED}::TestRefused::test_the_option_that_was_left_out_with_nothing_planned",
    ),
    Broken(
        "J.14",
        "journal.local.segment:Segment._scan",
        "last and not self._was_durable(offset, length)",
        "last",
        f"{LOCAL}::TestCrash::test_a_damaged_byte_that_was_synced_is_an_error",
    ),
    Broken(
        "J.15",
        "journal.local.journal:_locked",
        "fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "",
        f"{LOCAL}::TestLock::test_a_second_query_is_refused",
    ),
    Broken(
        "J.15",
        "journal.objects.fencing:Manifest.owns",
        "frames.writer == writer and low <= frames.first and frames.end <= high",
        "frames.writer == writer",
        f"{OBJECTS}::TestTakeover::test_the_older_writer_stops_and_what_it_put_then_is_void",
    ),
    Broken(
        "J.16",
        "journal.objects.journal:ObjectJournal._writing",
        "raise self._failure",
        "self._failure = None",
        f"{OBJECTS}::TestFailures::test_a_put_that_failed_for_good_is_the_last",
    ),
    # S. The sink
    Broken(
        "S.1",
        "sink.sender:Sender.finish",
        "self._persist(self._await_receipts)",
        "pass",
        f"{SENDER}::test_all_messages_arrive_in_order_and_are_confirmed",
    ),
    Broken(
        "S.2",
        "sink.window:Window._end",
        "start + self._most_messages - self.unconfirmed",
        "start + self._most_messages",
        f"{SENDER}::test_the_window_bounds_what_is_unconfirmed",
    ),
    Broken(
        "S.3",
        "sink.window:Window.send_again",
        "~held.confirmed[:held.sent]",
        "held.confirmed[:held.sent]",
        f"{SENDER}::TestABrokenConnection::test_is_replaced_and_only_the_unconfirmed_are_sent_again",
    ),
    Broken(
        "S.4",
        "sink.sender:Sender._wait",
        "progress.due_in() > 0",
        "True",
        f"{SENDER}::TestABlockedBroker::test_is_given_up_in_time_with_the_counts",
    ),
    Broken(
        "S.5",
        "sink.sender:Sender._may_recover",
        "self._refused = True",
        "pass",
        f"{SENDER}::TestRefusals::test_one_that_names_no_message_is_believed_the_second_time",
    ),
    Broken(
        "S.6",
        "sink.sender:Sender._recover",
        "raise self._failure(error) from error",
        "raise error",
        f"{SENDER}::TestABlockedBroker::test_is_given_up_in_time_with_the_counts",
    ),
    Broken(
        "S.7",
        "sink.sender:Sender.__exit__",
        "self._close()",
        "pass",
        f"{SENDER}::TestWhileSparkComputes::test_nothing_runs_on_after_the_sender",
    ),
    Broken(
        "S.8",
        "sink.commit:commit",
        "_proved.prove(options, run, connected=figures.connections > 0)",
        "pass",
        "integration/sink/test_proof.py::test_a_wrong_password_fails_a_runs_first_batch_without_rows",
    ),
    Broken(
        "S.9",
        "sink.commit:commit",
        "raise refused",
        "pass",
        "integration/spark/test_writers.py::TestRowsThatCannotBeSent::test_fail_the_commit_and_not_the_task",
    ),
    Broken(
        "S.10",
        "sink.encoder:RowEncoder._row_by_row",
        "frames.append(self._dead_letter(row, number, problem, receipt))",
        "frames.insert(0, self._dead_letter(row, number, problem, receipt))",
        "unit/sink/test_encoder.py::TestDeadLetters::test_take_the_row_s_place_with_the_reason",
    ),
    Broken(
        "S.11",
        "sink.cells:row_ids",
        "*map(_marked, columns)",
        "*map(_marked, columns[:1])",
        "unit/sink/test_encoder.py::TestIds::test_tell_rows_apart_and_stay_the_same",
    ),
    Broken(
        "S.12",
        "status.files:within",
        "wait([future], timeout).done",
        "True",
        "unit/status/test_robust.py::TestTheSink::test_does_not_wait_for_a_file_system_that_hangs",
    ),
    Broken(
        "S.13",
        "sink.rules:SendRules.is_left_out",
        "name in self.left_out",
        "name in ()",
        "unit/sink/test_rules.py::TestHeadersThatCommandTheBroker::test_stay_behind",
    ),
]
