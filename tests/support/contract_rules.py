"""For each point of the delivery contract: the code that keeps it, how to break it, the test that notices."""

from __future__ import annotations

from support.broken import entries

# A point, ``module:name`` of what keeps it, ``| old -> new`` on one line or more, and a test on the last. An
# entry breaks the heart of a point; a point has two if it makes two promises without which messages are lost.
_TEXT = """
# 1. ACK after the commit, never before
1.1 receiver.log:Log.commit | self.permit_acks(upto) -> self.permit_acks(self.end)
    integration/receiver/test_receiver.py::test_exactly_what_is_committed_is_acked
1.2 source.commits:CommitEvidence.latest_offset_called | self._uncommitted_plan is None -> True
    integration/spark/test_stream_reader.py::test_40_latest_offset_after_partitions_is_the_evidence
1.3 source.commits:Committer.planned | self._evidence.planned(end)
    -> self._evidence.planned(end); self._on_committed(end)
    unit/source/test_commits.py::TestCalls::test_planning_alone_proves_nothing
1.3 source.query:QueryRuntime._stop | self._committer.stop(_LAST_LOOK)
    -> self._receivers.commit(self.received())
    integration/spark/test_stream_reader.py::test_the_end_without_evidence_acks_nothing_and_says_which_option_helps
1.4 source.commits:Committer.__init__ | checkpoint is None -> True
    integration/spark/test_stream_reader.py::TestCheckpointNamed::test_calls_alone_are_not_enough
1.5 source.commits:CommitWatch._run | self._check() -> stopping or self._check()
    integration/spark/test_stream_reader.py::TestCheckpointNamed::test_at_the_end_the_checkpoint_is_read_once_more
1.6 source.commits:Committer._await_offset_log | checkpoint.batch_of(end) -> 0
    integration/spark/test_stream_reader.py::TestCheckpointNamed::test_another_querys_checkpoint_is_refused
1.7 source.commits:Committer._examine | checkpoint.fenced(self._logs) -> False
    integration/spark/test_stream_reader.py::TestCheckpointNamed::test_a_fenced_reader_acks_nothing
1.8 source.commits:Committer._raise_or_log | raise error -> pass
    integration/spark/test_stream_reader.py::TestCheckpointNamed::test_a_file_system_that_goes_on_failing_fails_the_query
1.9 source.commits:Committer.stop | self._warn_once('the query ends, and for its last batch') -> pass
    integration/spark/test_stream_reader.py::test_the_end_without_evidence_acks_nothing_and_says_which_option_helps
1.10 receiver.ack_queue:AckQueue.take | self._groups.append(_Group(acks)) ->
    unit/receiver/test_ack_queue.py::test_confirmed_grows_with_receipts_only
# 2. A range never changes
2.1 receiver.log:Log.add | self.end = first + len(block) -> self.end = self.committed = first + len(block)
    unit/receiver/test_log.py::TestLog::test_every_range_gives_exactly_its_frames
2.2 receiver.log:new_id | secrets.token_hex(8) -> "0"
    integration/receiver/test_receiver.py::test_each_log_has_its_own_id
2.3 source.backlog:MemoryBacklog.choose_end | self._receivers[name].number(count) -> pass
    unit/source/test_backlog.py::test_what_was_told_stays_if_its_connection_breaks
2.4 receiver.blocks:Inbox.discard | block.pinned -> True
    unit/receiver/test_deliveries.py::test_what_was_told_stays_and_the_rest_is_dropped
2.4 receiver.deliveries:Deliveries.disconnected | redelivers -> True
    unit/receiver/test_deliveries.py::test_where_nothing_comes_again_everything_stays
2.5 source.backlog:MemoryBacklog.choose_end |
    any((self._receivers[name].inbox.pending < count for name, count in shares.items())) -> False
    unit/source/test_backlog.py::test_what_broke_between_look_and_tell_is_looked_at_again
2.6 receiver.blocks:Block.attach | self.pinned = True ->
    unit/receiver/test_deliveries.py::test_a_message_that_another_delivery_counts_on_is_not_dropped
# 3. A lost range is empty, is never filled again and is never ACKed
3.1 source.query:QueryRuntime.partitions |
    [(one, self._backlog.sizes(one.name)) for one in ranges if one.id in ids]
    -> [(one, self._backlog.sizes(one.name)) for one in ranges]
    integration/spark/test_stream_reader.py::test_a_lost_range_stays_empty_if_the_new_log_has_these_numbers
3.2 source.query:QueryRuntime.partitions |
    [(one, self._backlog.sizes(one.name)) for one in ranges if one.id in ids]
    -> [(Range(one.name, next(iter(ids)), one.low, one.high), self._backlog.sizes(one.name))
    for one in ranges]
    integration/spark/test_stream_reader.py::test_a_lost_range_stays_empty_if_the_new_log_has_these_numbers
3.3 frameserver.client:fetch | expected != ticket.high -> False
    integration/frameserver/test_server.py::test_less_than_the_whole_range_fails_the_task
3.4 source.backlog:Backlog.readable | wanted.low < held.committed -> False
    integration/spark/test_stream_reader.py::test_a_range_can_be_read_again_until_it_is_committed
# 4. ACK only on the connection that delivered the message
4.1 receiver.deliveries:Deliveries.connected | self._queue = AckQueue()
    -> self._queue = self._first = getattr(self, "_first", None) or AckQueue();
    self._queue.closed = False
    unit/receiver/test_deliveries.py::test_what_was_due_on_a_lost_connection_is_void
4.2 receiver.blocks:frame_keys | blake2b(body, digest_size=16).digest() -> b""
    unit/receiver/test_deliveries.py::test_the_same_key_with_another_body_is_new_and_counted
4.2 receiver.blocks:frame_keys | MessageKey(destination, name, digest, subscription)
    -> MessageKey(destination, name, digest)
    unit/receiver/test_deliveries.py::test_the_same_message_by_another_entry_is_new
4.3 receiver.deliveries:Deliveries._sort_out |
    self._index.add_new(held.ids, held) -> self._index.add_new(held.ids, held) or not marked
    unit/receiver/test_deliveries.py::test_the_mark_of_redelivery_does_not_matter
4.4 receiver.blocks:Block.attach | [*live, (queue, key, handle)] -> [(queue, key, handle)]
    unit/receiver/test_deliveries.py::test_every_live_handle_is_acked_on_its_own_connection
4.5 receiver.log:Log.remember | index.remember_unconfirmed(block.all_keys) -> pass
    unit/receiver/test_deliveries.py::test_committed_and_unconfirmed_is_acked_again_and_dropped
4.6 receiver.deliveries:Deliveries._compare |
    self._count(doubled=self._index.take_doubles(min(marked, nameless))) ->
    unit/receiver/test_deliveries.py::test_without_an_id_everything_is_new_and_counted
4.7 receiver.pause:BoundedReader.check_receipts |
    self._receipt_clock() >= max(deadline, self._patient_from + timeout) -> False
    integration/receiver/test_receiver.py::test_missing_receipts_of_acks_mean_a_dead_connection
4.8 receiver.receiver:Receiver._wait_to_reconnect | self._let_in is not None -> False
    integration/receiver/test_receiver.py::TestReconnect::test_a_login_that_is_refused_now_is_tried_again
4.8 transport.logins:RefusedLogins.check | refusal is not None and ago < REFUSED_PAUSE -> False
    unit/transport/test_logins.py::TestRefusedLogins::test_are_not_sent_again_for_half_a_minute
4.9 protocol.client:ClientConnection.request | self._source.collect_from(frame.get("id", "")) -> pass
    integration/receiver/test_receiver.py::test_a_message_of_a_foreign_subscription_gets_neither_a_number_nor_an_ack
4.10 protocol.scanner:FrameScanner.collect | ack_header or handle_header(self.version)
    -> handle_header(self.version)
    unit/protocol/test_scanner.py::TestSettings::test_the_handle_may_be_in_another_header
4.11 receiver.receiver:Receiver._error_of | self._refused_acks < _MOST_REFUSED_ACKS -> True
    integration/receiver/test_hostile_messages.py::TestRefusedAcks::test_three_in_a_row_fail_the_query_and_name_the_message
# 5. Never wait for what cannot come
5.1 source.commits:Committer.latest_offset_called | self._evidence.latest_offset_called(start) -> None
    integration/spark/test_stream_reader.py::test_42_start_of_latest_offset_is_the_evidence
5.2 source.planning:is_ready | any(receiver.full and receiver.new for receiver in available) -> False
    unit/source/test_planning.py::TestIsReady::test_a_full_window_ends_the_wait_since_no_more_can_come
5.3 receiver.receiver:Receiver._is_full |
    self._may_stop_early and deliveries.unacked and self._quiet() >= _STOPPED_AFTER -> False
    integration/receiver/test_receiver.py::TestABrokerThatStopsEarly::test_counts_as_full_after_silence
5.4 source.planning:_within_bytes | least > budgets[first.name] -> False
    unit/source/test_planning.py::TestSharesOf::test_a_message_larger_than_the_limit_is_taken_alone
5.5 source.planning:Situation.silence | one.acks_pending or not one.subscribed or one.paused_since is not None
    -> not one.subscribed or one.paused_since is not None
    unit/source/test_decisions.py::test_unconfirmed_acks_are_no_silence_since_the_window_may_be_full_until_then
5.6 source.planning:decide | mode is Mode.DRAIN and situation.now >= situation.drain_until -> False
    unit/source/test_decisions.py::TestDrain::test_ends_at_max_drain_time_even_with_messages
5.7 receiver.pause:BoundedReader.poll | self._deliveries.room() <= 0 -> False
    integration/receiver/test_pause.py::test_beyond_the_bound_the_socket_is_left_unread
5.8 spark.readers:StompStreamReader.latestOffset | first and runtime.drains_first -> False
    integration/source/test_drain.py::TestTheFirstBatch::test_takes_all_there_is
5.9 source.query:QueryRuntime._cut | self._log_what_is_left(mode, situation, only=only) -> pass
    integration/source/test_drain.py::TestOneBatch::test_that_leaves_more_on_the_broker_says_how_to_get_it
5.10 source.planning:LastBatch.next_waits_until | min((self.done - self.cut) * REFILL_PART, REFILL_MAX)
    -> (self.done - self.cut) * REFILL_PART
    unit/source/test_decisions.py::TestRefill::test_and_no_longer_than_a_moment
5.13 receiver.pause:BoundedReader._rest | self._unread += connection.rested - before -> pass
    integration/receiver/test_pause.py::test_a_receipt_behind_messages_that_wait_is_not_missing
5.14 receiver.deliveries:Deliveries.room | self._shed() -> pass
    integration/receiver/test_pause.py::test_committed_messages_make_room_before_their_receipts_come
5.15 receiver.receiver:Receiver._take | self.refused is not None or self._stop_deadline is not None
    -> self.refused is not None
    integration/receiver/test_pause.py::test_the_end_reads_on_for_the_last_receipts_and_keeps_nothing
# 6. The offset says exactly what was read
6.1 source.offsets:split | low = high -> low = high + 1
    unit/source/test_planning.py::test_split_covers_the_ranges_once
6.2 spark.readers:StompStreamReader.initialOffset | INITIAL -> (self._last_end or INITIAL)
    integration/spark/test_stream_reader.py::test_42_start_of_latest_offset_is_the_evidence
6.3 spark.readers:StompStreamReader.latestOffset |
    start if start is not None and end == begin else end.to_dict() -> end.to_dict()
    integration/spark/test_stream_reader.py::test_with_nothing_new_the_last_end_comes_back_byte_for_byte
6.4 source.offsets:_entry | base | {'id': end.id, 'next': end.next}
    -> {'next': end.next, 'id': end.id} | base
    unit/source/test_offsets.py::test_the_text_of_this_format_never_changes
# 7. Fail loudly
7.1 source.query:QueryRuntime._raise_failure | raise failure -> return
    integration/spark/test_stream_reader.py::test_a_receiver_that_failed_is_an_error_and_not_no_data
7.2 receiver.receiver:Receiver._may_try_again |
    self._connections.connections or isinstance(error, ClientIdInUse) or was_in_use -> True
    integration/receiver/test_receiver.py::TestReconnect::test_nobody_there_at_the_beginning_is_said_at_once
7.3 errors:StompError.__str__ | f'[{self.code}] {self.message}' -> self.message
    unit/test_errors.py::TestEveryError::test_text_begins_with_its_code
7.4 transport.retry:may_recover |
    isinstance(error, TransportError | HeartbeatLost | ReceiptTimeout | BrokerError) -> True
    integration/receiver/test_receiver.py::test_a_frame_over_the_limit_is_a_failure_and_stays_on_the_broker
7.5 brokers.dialect:Dialect.check_subscription |
    self.is_topic(destination) and not durable and not allow_loss -> False
    unit/brokers/test_dialect.py::TestSubscriptions::test_a_plain_topic_needs_consent_to_loss
7.5 brokers.dialect:Dialect._check_queue | self.naming.is_temporary(destination) and (not allow_loss) -> False
    unit/brokers/test_dialect.py::TestKinds::test_a_temporary_queue_is_refused_unless_loss_is_accepted
7.6 receiver.receiver:Receiver._take | self.refused is not None -> False
    integration/source/test_refusal.py::test_what_came_before_it_is_read_and_acked_first
7.7 receiver.receiver:Receiver._take_malformed | self._options.on_malformed == 'column' and message.ack
    -> False
    integration/source/test_malformed_rows.py::test_rows_in_order_acked_like_any
7.8 source.reads:RowSettings.of | without and MALFORMED not in projection.columns -> False
    integration/source/test_malformed_rows.py::TestTheColumnIsRequired::test_by_the_options_that_fill_it
7.9 receiver.receiver:Receiver._take_new |
    self._queues.at_messages(block) -> pass
    integration/receiver/test_hostile_messages.py::TestStreams::test_a_queue_that_is_replaced_by_a_stream
# J. With a journal
J.1 journal.store:FolderStore._put | sync(descriptor) ->
    unit/journal/test_store.py::TestSync::test_frames_are_synced_before_they_have_positions
J.1 journal.opening:_broken | unproven if store.is_locked else unproven[-1:] -> ()
    unit/journal/test_store.py::TestSync::test_what_no_state_proves_is_synced_and_read_again_before_it_is_offered
J.2 source.journal_backlog:JournalBacklog.readable | replace(wanted, low=low, high=high)
    -> replace(wanted, low=low, high=self._journal.end)
    faults/test_journal.py::TestReplay::test_and_nothing_else_gets_into_that_batch
J.3 source.journal_backlog:JournalBacklog.begin | journal.skip(given) ->
    faults/test_journal.py::TestRefused::test_an_older_copy_of_the_journal
J.4 source.journal_backlog:JournalBacklog.__init__ | self._base = journal.committed
    -> self._base = journal.first
    faults/test_journal.py::TestRestartedOtherwise::test_with_a_fresh_checkpoint_reading_begins_at_the_committed_position
J.5 source.journal_writer:JournalWriter._write | self._ack_when_durable -> True
    unit/source/test_journal_writer.py::test_durable_alone_is_no_reason_to_ack
J.6 source.journal_backlog:JournalBacklog.available | self._writer.log.end -> self._journal.end
    unit/source/test_journal_writer.py::test_what_the_receivers_do_not_know_to_be_durable_is_not_offered
J.7 receiver.deliveries:Deliveries.take | block.pinned = True ->
    unit/source/test_journal_writer.py::test_frames_on_their_way_to_the_disk_are_not_discarded
J.8 source.journal_backlog:recover | batch.end > min(journal.end - most, journal.acked) -> False
    unit/source/test_journal_writer.py::TestAfterARestart::test_redelivered_and_not_committed_gives_no_second_row
J.9 receiver.log:Log.remember | index.remember_confirmed(block.all_keys) -> pass
    unit/source/test_journal_writer.py::test_what_a_broker_forgot_having_confirmed_gives_no_second_row
J.9 source.journal_writer:JournalWriter._trim | awaits_acks or trims -> trims
    unit/source/test_journal_writer.py::TestAfterARestart::test_a_message_that_is_only_remembered_is_known_until_its_ack_is_confirmed
J.10 source.commits:Committer.began_at |
    self._checkpoint is not None and self._checkpoint.last_commit_holds(start) -> False
    faults/test_journal.py::test_acks_that_the_broker_never_saw_need_no_further_batch
J.11 source.journal_writer:JournalWriter._trim | upto = min(upto, acked) ->
    unit/source/test_journal_writer.py::TestRoom::test_a_commit_whose_acks_are_confirmed_makes_room
J.12 source.journal_writer:JournalWriter._has_room | return not self._is_full -> return True
    unit/source/test_journal_writer.py::TestRoom::test_at_the_bound_frames_wait_un_acked_and_un_offered
J.12 journal.journal:Journal.append | self._put_state() -> pass
    unit/journal/test_store.py::TestFullDisk::test_full_of_what_is_committed_the_next_run_makes_room
J.13 source.query:QueryRuntime._declare_lost | self._backlog.missing(part) ->
    faults/test_journal.py::TestRefused::test_a_first_batch_whose_journal_is_gone_after_another_call
J.13 source.query:QueryRuntime.start | self._backlog.begin(begin, planned) ->
    faults/test_journal.py::TestRefused::test_the_option_that_was_left_out_with_nothing_planned
J.14 journal.opening:_may_be_unfinished | last.first >= state.end -> True
    unit/journal/test_opening.py::TestCrash::test_what_a_state_proves_was_whole
J.14 journal.opening:_may_be_unfinished | last in broken -> False
    unit/journal/test_opening.py::TestCrash::test_the_last_one_is_full_of_zeros
J.15 journal.store:Disk._locked | fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB) ->
    unit/journal/test_store.py::TestLock::test_a_second_query_is_refused
J.15 journal.formats:State.owns |
    frames.writer == writer and low <= frames.first and frames.end <= high -> frames.writer == writer
    unit/journal/test_opening.py::TestTakeover::test_the_older_writer_stops_and_what_it_put_then_is_void
J.16 journal.journal:Journal._writing | self._failure = error ->
    unit/journal/test_store.py::TestFailures::test_a_put_that_failed_for_good_is_the_last
J.16 journal.journal:Journal.trim | self._durable_commit < old[-1].end -> False
    unit/journal/test_opening.py::TestCrash::test_what_was_committed_is_told_before_it_is_deleted
# R. Streams of RabbitMQ
R.1 receiver.stream_receiver:StreamDeliveries.receive_from | self.log.add(self.inbox.take(), offset)
    -> self.log.add(self.inbox.take())
    unit/source/test_stream_backlog.py::TestBatches::test_follow_one_another_without_gap_and_overlap
R.2 source.query:QueryRuntime.partitions | self._backlog.holds(end) -> True
    integration/spark/test_stream_reader_streams.py::test_a_planned_batch_comes_again_and_the_others_after_it
R.2 source.backlog:StreamBacklog.begin | planned.get(name) or known -> known
    unit/source/test_stream_backlog.py::TestWhereARunBegins::test_at_a_batch_that_is_planned
R.3 receiver.stream_receiver:StreamCursor.header | self.next is None -> True
    unit/receiver/test_stream_cursor.py::TestWhereItBegins::test_and_goes_on_behind_the_last_message
R.3 receiver.stream_receiver:StreamCursor.take | max(0, self.next - first) -> 0
    unit/receiver/test_stream_cursor.py::test_messages_before_the_next_one_are_skipped
R.4 source.backlog:StreamBacklog.begin | end is None -> True
    unit/source/test_stream_backlog.py::TestWhereARunBegins::test_where_the_options_say_only_for_what_the_checkpoint_does_not_name
R.4 source.query:QueryRuntime.latest_offset | return begin -> return start
    integration/spark/test_stream_reader_streams.py::test_latest_is_where_the_stream_ended_although_nothing_came
R.5 source.backlog:StreamBacklog._available | min(received, end) -> received
    unit/source/test_stream_backlog.py::TestTheEndOfARun::test_is_that_of_the_streams_when_it_began
R.5 source.planning:_batch_is_complete | mode is Mode.ONCE and situation.complete is not None -> False
    unit/source/test_decisions.py::TestAKnownEnd::test_only_silence_ends_the_wait_of_a_batch_that_may_be_the_only_one
R.6 receiver.stream_receiver:StreamCursor._check_gap | earliest > expected -> False
    unit/receiver/test_stream_cursor.py::TestAGap::test_whose_messages_are_gone_fails_the_query_and_is_named
R.6 receiver.stream_receiver:StreamReceiver._conclude |
    cursor.check_end(end, started=started, planned=self._stream.wanted) -> False
    integration/receiver/test_stream_receiver.py::TestTheEnd::test_before_the_next_offset_fails_the_query
R.7 receiver.stream_receiver:StreamReceiver._has_room | held <= self._settings.max_buffered_bytes // 2 -> True
    integration/receiver/test_stream_receiver.py::TestAcks::test_wait_for_a_commit_while_half_of_the_memory_is_used
R.7 receiver.stream_receiver:StreamReceiver._has_room | self._stream.awaits_planned -> False
    integration/receiver/test_stream_receiver.py::TestAcks::test_do_not_wait_while_a_planned_batch_comes
R.8 receiver.stream_receiver:StreamReceiver._subscription
    | self._options.subscribe_headers + self._cursor.header() -> self._options.subscribe_headers
    interop/test_streams.py::TestRecognition::test_a_queue_is_not_read_as_a_stream
R.8 receiver.stream_log:require_streams | dialect.offset_header is None -> False
    integration/receiver/test_stream_receiver.py::test_a_broker_without_streams_is_refused_before_it_is_asked
# S. The sink
S.1 sink.sender:Sender.finish | self._until_done(self._await_receipts) -> pass
    integration/sink/test_sender.py::test_all_messages_arrive_in_order_and_are_confirmed
S.2 sink.window:ReceiptWindow._end | start + self._most - self.in_flight -> start + self._most
    integration/sink/test_sender.py::test_the_window_bounds_what_is_unconfirmed
S.3 sink.window:_Held.go_to | frame + (len(rest) if rest.all() else int(np.argmin(rest))) -> frame
    unit/sink/test_window.py::test_what_was_not_confirmed_is_sent_again_and_nothing_else
S.3 sink.window:ReceiptWindow.begin_again | self._most = 1 -> pass
    unit/sink/test_window.py::test_after_a_lost_connection_each_receipt_lets_one_more_go
S.4 sink.sender:Sender._wait | progress.due_in() > 0 -> True
    integration/sink/test_sender.py::TestABlockedBroker::test_is_given_up_in_time_with_the_counts
S.5 sink.sender:Sender._judged | self._ended_alone < _MOST_ENDED -> True
    integration/sink/test_sender.py::TestRefusals::test_one_that_names_no_message_is_believed_the_third_time
S.5 sink.sender:Sender._may_recover | may_recover(error, let_in=True)
    -> may_recover(error, let_in=self._speaks is not None)
    integration/sink/test_sender.py::TestRefusals::test_or_accepted_from_an_earlier_batch
S.6 sink.sender:Sender._recover | raise self._failure(error) from error -> raise error
    integration/sink/test_sender.py::TestABlockedBroker::test_is_given_up_in_time_with_the_counts
S.7 sink.sender:Sender.__exit__ | self._close() -> pass
    integration/sink/test_sender.py::TestWhileSparkComputes::test_nothing_runs_on_after_the_sender
S.8 sink.write:commit | _proved.prove(options, run, connected=figures.connections > 0) -> pass
    integration/sink/test_proof.py::test_a_wrong_password_fails_a_runs_first_batch_without_rows
S.9 sink.write:commit | raise refused -> pass
    integration/spark/test_writers.py::TestRowsThatCannotBeSent::test_fail_the_commit_and_not_the_task
S.10 sink.encoder:RowEncoder._row_by_row | frames.append(self._dead_letter(row, number, problem, receipt))
    -> frames.insert(0, self._dead_letter(row, number, problem, receipt))
    unit/sink/test_encoder.py::TestDeadLetters::test_take_the_row_s_place_with_the_reason
S.11 sink.cells:row_ids | *map(_marked, columns) -> *map(_marked, columns[:1])
    unit/sink/test_encoder.py::TestIds::test_tell_rows_apart_and_stay_the_same
S.12 status.files:within | wait([future], timeout).done -> True
    unit/status/test_robust.py::TestTheSink::test_does_not_wait_for_a_file_system_that_hangs
S.13 sink.rules:SendRules.is_left_out | name in self.left_out -> name in ()
    unit/sink/test_rules.py::TestHeadersThatCommandTheBroker::test_stay_behind
S.13 sink.rules:SendRules.problem | rule is None -> True
    unit/sink/test_rules.py::TestHeadersThatCommandTheBroker::test_delete_no_queue
S.14 sink.sender:Sender._send_rest | self._require_queues(connection) -> pass
    interop/test_rabbitmq_sink.py::TestAQueueThatNoSendDeclares::test_has_to_be_there
"""

RULES = entries(_TEXT)
