"""What tests must notice: each point of the delivery contract, broken; and what a query's model is for.

An indented line continues the one before.
"""

from __future__ import annotations

import re

from support.broken import Mutant

# A point, the function that keeps it, and what is changed in it (see Mutant). Each is the heart of its point.
_CONTRACT = """
# ACK after the commit, never before
1.1   receiver.log:Log.commit                            shifts permit_acks
1.2   spark.readers:StompStreamReader.latestOffset        puts self._last_end for _planned
1.3   source.commits:Committer.planned                   returns self._report(end)
1.4   source.commits:CommitEvidence.latest_offset_called always _call_evidence
1.5   source.commits:CommitWatch._run                    drops _check
1.6   source.commits:Committer._await_offset_log         returns None
1.7   source.commits:Committer._examine                  never fenced
1.8   source.commits:Committer._raise_or_log             never _UNREADABLE_AT_MOST
1.9   source.commits:Committer.stop                      drops _warn_of_no_evidence
1.10  receiver.ack_queue:AckQueue.take_acks              drops _groups.append
# A range never changes
2.1   receiver.log:Log.add                               shifts end
2.2   receiver.log:new_id                                returns "0"
2.3   source.memory_log:MemoryLog.take                   drops number
2.4   receiver.deliveries:Deliveries.disconnected        always redelivers
2.5   source.memory_log:MemoryLog.take                   never pending
2.6   receiver.blocks:Block.attach                       drops pinned
# A lost range is empty, is never filled again and is never ACKed
3.1   source.logs:Logs.refuse_missing                    always JOURNAL
3.2   source.logs:Logs.ranges                            always one.id
3.3   frameserver.client:fetch                           never ticket.high
3.4   receiver.log:Log.readable                          never committed
# ACK only on the connection that delivered the message
4.1   receiver.deliveries:Deliveries.connected
      puts lambda: vars(self).setdefault("first", AckQueue()) for AckQueue
4.2   receiver.blocks:frame_keys                         puts b"" for body
4.3   receiver.deliveries:Deliveries._sort_out           always add_new
4.4   receiver.blocks:Block.attach                       puts () for live
4.5   receiver.log:Log.remember                          drops remember_unconfirmed
4.6   receiver.deliveries:Deliveries._compare            puts 0 for without_id
4.7   receiver.pause:BoundedReader.check_receipts        never _patient_from
4.8   receiver.status:ConnectionStatus.may_try_again     never login_accepted
4.8   brokers.known:sentence_of                          returns None
4.8   transport.broker_errors:broker_error               never verdict
4.9   protocol.client:ClientConnection.request           drops collect_from
4.10  protocol.scanner:FrameScanner.collect              never ack_header
4.11  receiver.turns:Turn.has_failed                     never failures
4.12  receiver.turns:Turns.ended                          never may_narrow
4.12  receiver.turn_state:TurnState.put                  never is_over
4.12  receiver.turn_state:TurnState.next                 never achieved
4.12  receiver.receiver:Receiver._wait_to_reconnect      puts turn.pause for current.pause
4.13  source.forgotten:Forgotten.why                     puts float("inf") for needed
4.13  receiver.deliveries:Deliveries.disconnected        never forgotten
4.13  receiver.unproved:UnprovedAcks.came                puts frozenset((None,)) for names
# Never wait for what cannot come
5.1   source.commits:Committer.latest_offset_called      puts None for proved
5.2   source.planning:is_ready                           never full
5.3   receiver.subscription:Window.is_full               never stops_early
5.4   source.planning:_within_bytes                      never least
5.5   source.planning:Situation.silence                  never acks_pending
5.6   source.planning:decide                             never drain_until
5.7   receiver.pause:BoundedReader.poll                  never room
5.8   spark.readers:StompStreamReader.latestOffset       never drains_first
5.9   source.query:QueryRuntime._cut                     drops _log_what_remains
5.10  source.planning:LastBatch.next_waits_until         without min
5.13  receiver.pause:BoundedReader._rest                 drops _unread
5.14  receiver.deliveries:Deliveries.room                drops _shed
5.15  receiver.reading:Reading._take                     never deadline
5.16  source.planning:Situation.is_read                  puts 0 for withheld
# The offset says exactly what was read
6.1   source.offsets:split                               shifts low
6.2   spark.readers:StompStreamReader.initialOffset      returns self._answer
6.3   spark.readers:StompStreamReader.latestOffset        puts self._last_end.to_dict() for _answer
6.4   source.offsets:_entry                              returns {"next": end.next, "id": end.id}
# Fail loudly
7.1   source.query:QueryRuntime._raise_failure           returns None
7.2   receiver.status:ConnectionStatus.may_try_again     returns True
7.3   errors:StompError.__str__                          returns self.message
7.4   transport.retry:may_recover                        returns True
7.5   brokers.dialect:Dialect.check_subscription         never is_topic
7.6   receiver.reading:Reading._take                     never refused
7.7   receiver.reading:Reading._take_malformed           never on_malformed
7.8   source.reads:RowSettings.of                        never without
7.9   receiver.reading:Reading._take_new                 drops at_messages
7.10  protocol.raw:check_nuls                            always in_name
7.11  arrow.content:open_bodies                          drops setdefault
7.12  receiver.queue_check:QueueCheck.begin              drops _ask_again
7.13  receiver.look_reading:LookReading._take            drops _refuse_a_last_look
7.14  arrow.decode:_rescued                              returns pa.nulls(count, pa.binary())
# With a journal
J.1   journal.store:FolderStore._put                     drops sync
J.2   source.journal_log:JournalLog.readable             returns [(low, high - 1)]
J.3   source.journal_log:JournalLog.begin                drops skip
J.4   source.journal_log:JournalLog.__init__             puts journal.first for journal.committed
J.5   source.journal_writer:JournalWriter._write         always ack_when_durable
J.6   source.journal_log:JournalLog.available            puts self._journal for writer.log
J.7   receiver.deliveries:Deliveries.pin_next            drops pinned
J.8   source.journal_log:recover                         never known
J.9   source.journal_writer:JournalWriter._trim          never awaits_acks
J.10  source.commits:Committer.began_at                  never last_commit_holds
J.11  source.journal_writer:JournalWriter._trim          without min
J.12  source.journal_writer:JournalWriter._has_room      puts False for _is_full
J.13  source.query:QueryRuntime.start                    drops _logs.begin
J.14  journal.opening:_may_be_unfinished                 always state.end
J.15  journal.store:Disk._locked                         drops flock
J.16  journal.journal:Journal._writing                   drops _failure
# Streams of RabbitMQ
R.1   receiver.stream_reading:StreamDeliveries.receive_from puts offset + 1 for offset
R.2   source.stream_log:StreamLog.begin                  never planned
R.3   receiver.stream:StreamProgress.brought             returns 0
R.4   source.stream_log:StreamLog.begin                  always end
R.5   source.stream_log:StreamLog.available              without min
R.6   receiver.stream_reading:StreamReading._check_gap  never earliest
R.6   receiver.stream:StreamProgress.note_end            returns False
R.7   receiver.stream_reading:StreamReading._has_room   returns True
R.8   receiver.stream_offsets:require_streams            returns None
# The sink
S.1   sink.sender:Sender.finish                          drops _until_done
S.2   sink.window:ReceiptWindow._end                     puts 0 for in_flight
S.3   sink.window:_Held.go_to                            shifts sent
S.4   sink.sender:Sender._wait                           always due_in
S.5   sink.sender:Sender._judged                         never verdict
S.6   sink.sender:Sender._failure                        returns error
S.7   sink.sender:Sender.__exit__                        drops _close
S.8   sink.write:commit                                  drops prove
S.9   sink.write:commit                                  never refused
S.10  sink.encoder:RowEncoder._row_by_row
      puts lambda frame: frames.insert(0, frame) for frames.append
S.11  sink.cells:row_ids                                 puts columns[:1] for columns
S.12  status.files:within                                always wait
S.13  sink.rules:SendRules.is_left_out                   returns False
S.14  sink.sender:Sender._send_rest                      drops _require_queues
S.15  spark.dead_letters:dead_letters                    drops save
"""

# A class of property/test_log.py, and what it must notice.
_MODEL = """
# ACKs
TestInMemory      receiver.deliveries:Deliveries.receive        drops came
TestInMemory      receiver.deliveries:Deliveries._attach        puts self.log.end for log.ackable
TestInMemory      receiver.log:Log.commit                       shifts permit_acks
TestWithJournal   receiver.blocks:Block.permit_acks             always stop
TestWithJournal   receiver.blocks:Block.permit_acks             puts first + len(self) for high
TestInMemory      receiver.ack_queue:AckQueue.confirm           always confirmed
TestInMemory      receiver.ack_queue:AckQueue.take_acks         drops _groups.append
TestInMemory      receiver.deliveries:Deliveries.confirm        always confirmed
TestInMemory      receiver.deliveries:Deliveries.connected
                  puts lambda: vars(self).setdefault("first", AckQueue()) for AckQueue
TestInMemory      receiver.ack_queue:AckQueue.take_acks         puts block.handles[::-1] for block.handles
TestInMemory      receiver.log:Log.permit_acks                  never handles
TestLogThenAck    source.journal_writer:JournalWriter._write    shifts permit_acks
TestWithJournal   source.journal_writer:JournalWriter._write    always ack_when_durable
# What Spark was told
TestInMemory      receiver.log:Log.add                          shifts end
TestInMemory      receiver.log:new_id                           returns "0"
TestInMemory      receiver.blocks:Inbox.take                    puts self._waiting.pop for _waiting.popleft
TestInMemory      source.memory_log:MemoryLog.take              never pending
TestWithJournal   source.logs:Logs.read                         puts one.received_end for high
TestWithJournal   receiver.deliveries:Deliveries.pin_next       drops pinned
# What is known again
TestInMemory      receiver.blocks:Inbox.discard                 never but
TestInMemory      receiver.deliveries:Deliveries.disconnected   drops remove
TestInMemory      receiver.blocks:Block.attach                  drops pinned
TestInMemory      receiver.blocks:frame_keys                    puts b"" for body
TestInMemory      receiver.deliveries:Deliveries._sort_out      always add_new
TestInMemory      receiver.blocks:Block.find                    puts 0 for one
TestInMemory      receiver.deliveries:Deliveries.number         drops move
TestInMemory      receiver.blocks:Block.split                   never count
TestInMemory      receiver.log:Log.remember                     drops remember_unconfirmed
TestInMemory      receiver.deliveries:Deliveries._shed          drops make_keys
TestWithJournal   receiver.log:Log.recover                      drops note
TestWithJournal   receiver.log:Log.remember                     drops remember_confirmed
# What goes
TestInMemory      receiver.log:Log.remember                     drops index.remove
TestInMemory      receiver.log:Log.free                         drops _drop_data
TestWithJournal   source.journal_writer:JournalWriter._trim     without min
TestWithJournal   source.journal_writer:JournalWriter._trim     drops journal.remember
"""


def _mutants(text: str) -> list[tuple[str, Mutant]]:
    entries = re.sub(r"\n +", " ", re.sub(r"#.*", "", text)).split("\n")
    lines = [entry.split(None, 2) for entry in entries if entry]
    return [(who, Mutant(symbol, change)) for who, symbol, change in lines]


CONTRACT = _mutants(_CONTRACT)
MODEL = _mutants(_MODEL)
