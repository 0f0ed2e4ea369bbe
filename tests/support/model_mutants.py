"""What the model of a query (property/log_model.py) must notice; the form is that of contract_rules.py."""

from __future__ import annotations

from support.broken import entries

_TEXT = """
# ACKs
1.1 receiver.deliveries:Deliveries.receive | self._queue.came(self._marks.received, len(acks), received_at)
    -> self._queue.came(self._marks.received, len(acks), received_at);
    self._queue.push(held.batch.first_sequence, acks)
    property/test_log.py::TestInMemory
1.1 receiver.frame_store:Place.may_be_acked | self.held.marks.committed -> self.held.marks.received
    property/test_log.py::TestInMemory
1.1 receiver.frame_store:Held.permit_acks | at < stop -> True
    property/test_log.py::TestInMemory
1.1 receiver.frame_store:Held.permit_acks | self.handles[start:stop] -> self.handles[start:]
    property/test_log.py::TestInMemory
1.10 receiver.ack_queue:AckQueue.confirm | self._groups and self._groups[0].confirmed -> self._groups
    property/test_log.py::TestInMemory
1.10 receiver.ack_queue:AckQueue.take | self._groups.append(_Group(acks)) ->
    property/test_log.py::TestInMemory
1.10 receiver.ack_queue:AckQueue.advance | next(sent, due) -> due
    property/test_log.py::TestInMemory
4.1 receiver.deliveries:Deliveries.connected | self._queue = AckQueue(self._marks)
    -> self._queue = self._first = getattr(self, "_first", None) or AckQueue(self._marks);
    self._queue.closed = False
    property/test_log.py::TestInMemory
4.4 receiver.ack_queue:AckQueue.take | handles += new[:most] -> handles += new[:most][::-1]
    property/test_log.py::TestInMemory
J.5 source.journal_writer:JournalWriter._write | one.commit(batch.end) -> one.commit(batch.end + 1)
    property/test_log.py::TestLogThenAck
J.5 source.journal_writer:JournalWriter._write | self._ack_when_durable -> True
    property/test_log.py::TestWithJournal
# What Spark was told
2.2 receiver.deliveries:new_epoch | secrets.token_hex(8) -> "0"
    property/test_log.py::TestInMemory
2.3 receiver.deliveries:offer | one.deliveries.keep(one.upto) ->
    property/test_log.py::TestInMemory
2.3 receiver.marks:Marks.discard | self.received = self.kept -> self.received = self.kept = self.released
    property/test_log.py::TestInMemory
2.5 receiver.deliveries:offer | return False ->
    property/test_log.py::TestInMemory
J.2 source.journal_backlog:JournalBacklog.read | self._journal.batches(ticket.low, ticket.high)
    -> self._journal.batches(ticket.low, self._journal.end)
    property/test_log.py::TestWithJournal
J.7 receiver.deliveries:Deliveries.take | self._marks.advance(kept=taken[-1].end) ->
    property/test_log.py::TestWithJournal
# What is known again
2.4 receiver.deliveries:Deliveries._discard | self.frames.copies(self._marks.kept, but) -> ()
    property/test_log.py::TestInMemory
2.6 receiver.frame_store:Held.attach | self.marks.advance(kept=self.batch.first_sequence + at + 1) ->
    property/test_log.py::TestInMemory
4.2 receiver.frame_store:frame_keys | blake2b(body, digest_size=16).digest() -> b""
    property/test_log.py::TestInMemory
4.3 receiver.deliveries:Deliveries._sort_out |
    self._index.add_new(held.ids, held) -> self._index.add_new(held.ids, held) or not marked
    property/test_log.py::TestInMemory
4.3 receiver.frame_store:Held.find | Place(self, one) -> Place(self, 0)
    property/test_log.py::TestInMemory
4.5 receiver.deliveries:Deliveries._remember_committed |
    self._index.remember_unconfirmed(self.frames.keys(self._marks.unindexed, upto)) ->
    property/test_log.py::TestInMemory
4.5 receiver.frame_store:FrameStore.shed | held.made = made -> held.ids = None
    property/test_log.py::TestInMemory
J.6 source.journal_writer:JournalWriter._write | position < self._committed -> False
    property/test_log.py::TestWithJournal
J.8 receiver.deliveries:Deliveries.journaled | self._index.move(held.ids or (), held, now) ->
    property/test_log.py::TestWithJournal
J.8 receiver.deliveries:Deliveries.recover | self._note_ids(ids, held) ->
    property/test_log.py::TestWithJournal
J.9 receiver.deliveries:Deliveries._free |
    self._index.remember_confirmed(self.frames.keys(low, upto)) ->
    property/test_log.py::TestWithJournal
# What goes
5.7 receiver.deliveries:Deliveries._free | self._remove(low, upto) ->
    property/test_log.py::TestInMemory
J.11 source.journal_writer:JournalWriter._trim | min(upto, acked) -> upto
    property/test_log.py::TestWithJournal
J.11 source.journal_writer:JournalWriter._trim | self._journal.remember(self._index.take_unwritten()) ->
    property/test_log.py::TestWithJournal
"""

MUTANTS = entries(_TEXT)
