"""What the model of a query (property/log_model.py) must notice; the form is that of contract_rules.py."""

from __future__ import annotations

from support.broken import entries

_TEXT = """
# ACKs
1.1 receiver.deliveries:Deliveries.receive | self._queue.came(len(acks), held.size, received_at)
    -> self._queue.came(len(acks), held.size, received_at); self._queue.push(held, 0, len(acks))
    property/test_log.py::TestInMemory
1.1 receiver.blocks:Place.may_be_acked | log.ackable -> log.end
    property/test_log.py::TestInMemory
1.1 receiver.blocks:Block.permit_acks | at < stop -> True
    property/test_log.py::TestWithJournal
1.1 receiver.blocks:Block.permit_acks | min(high - first, len(self)) -> len(self)
    property/test_log.py::TestWithJournal
1.10 receiver.ack_queue:AckQueue.confirm | self._groups and self._groups[0].confirmed -> self._groups
    property/test_log.py::TestInMemory
1.10 receiver.ack_queue:AckQueue.take | self._groups.append(_Group(acks)) ->
    property/test_log.py::TestInMemory
1.10 receiver.deliveries:Deliveries.confirm | block.confirmed == len(block) -> True
    property/test_log.py::TestInMemory
4.1 receiver.deliveries:Deliveries.connected | self._queue = AckQueue()
    -> self._queue = self._first = getattr(self, "_first", None) or AckQueue();
    self._queue.closed = False
    property/test_log.py::TestInMemory
4.4 receiver.ack_queue:AckQueue.take | handles += block.handles[start:upto]
    -> handles += block.handles[start:upto][::-1]
    property/test_log.py::TestInMemory
4.4 receiver.log:Log.permit_acks | not block.handles -> True
    property/test_log.py::TestInMemory
J.5 source.journal_writer:JournalWriter._write | self.log.permit_acks(self.log.end)
    -> self.log.permit_acks(self.log.end + 1)
    property/test_log.py::TestLogThenAck
J.5 source.journal_writer:JournalWriter._write | self._ack_when_durable -> True
    property/test_log.py::TestWithJournal
# What Spark was told
2.1 receiver.log:Log.add | self.end if number is None else number -> max(self.end - 1, 0)
    property/test_log.py::TestInMemory
2.2 receiver.log:new_id | secrets.token_hex(8) -> "0"
    property/test_log.py::TestInMemory
2.3 receiver.blocks:Inbox.take | self._waiting.popleft() -> self._waiting.pop()
    property/test_log.py::TestInMemory
2.5 source.backlog:MemoryBacklog.choose_end |
    any((self._receivers[name].inbox.pending < count for name, count in shares.items())) -> False
    property/test_log.py::TestInMemory
J.2 source.journal_backlog:JournalBacklog.read | self._journal.batches(ticket.low, ticket.high)
    -> self._journal.batches(ticket.low, self._journal.end)
    property/test_log.py::TestWithJournal
J.7 receiver.deliveries:Deliveries.take | block.pinned = True ->
    property/test_log.py::TestWithJournal
# What is known again
2.4 receiver.blocks:Inbox.discard | block.remainder(but) if but else None -> None
    property/test_log.py::TestInMemory
2.4 receiver.deliveries:Deliveries.disconnected | self._index.remove(block.ids or (), block) ->
    property/test_log.py::TestInMemory
2.6 receiver.blocks:Block.attach | self.pinned = True ->
    property/test_log.py::TestInMemory
4.2 receiver.blocks:frame_keys | blake2b(body, digest_size=16).digest() -> b""
    property/test_log.py::TestInMemory
4.3 receiver.deliveries:Deliveries._sort_out |
    self._index.add_new(held.ids, held) -> self._index.add_new(held.ids, held) or not marked
    property/test_log.py::TestInMemory
4.3 receiver.blocks:Block.find | Place(self, one) -> Place(self, 0)
    property/test_log.py::TestInMemory
4.3 receiver.deliveries:Deliveries.number | self._index.move(rest.ids or (), block, rest) ->
    property/test_log.py::TestInMemory
4.4 receiver.blocks:Block.split | at >= count -> at > count
    property/test_log.py::TestInMemory
4.5 receiver.log:Log.remember | index.remember_unconfirmed(block.all_keys) -> pass
    property/test_log.py::TestInMemory
4.5 receiver.deliveries:Deliveries._shed | block.make_keys() ->
    property/test_log.py::TestInMemory
J.8 receiver.log:Log.recover | self.index.note(ids, block) ->
    property/test_log.py::TestWithJournal
J.9 receiver.log:Log.remember | index.remember_confirmed(block.all_keys) -> pass
    property/test_log.py::TestWithJournal
# What goes
5.7 receiver.log:Log.remember | index.remove(block.ids or (), block) ->
    property/test_log.py::TestInMemory
5.7 receiver.log:Log.free | self._drop_data(block) ->
    property/test_log.py::TestInMemory
J.11 source.journal_writer:JournalWriter._trim | min(upto, acked) -> upto
    property/test_log.py::TestWithJournal
J.11 source.journal_writer:JournalWriter._trim | self._journal.remember(self._index.take_unwritten()) ->
    property/test_log.py::TestWithJournal
"""

MUTANTS = entries(_TEXT)
