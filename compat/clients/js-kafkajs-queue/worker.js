// The program of docs/QUEUE-CLIENTS.md.

'use strict';

// page: begin
class Hopeless extends Error {}

/** For consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch: worker(consumer, handle) }). */
const worker = (consumer, handle) => async ({ batch, resolveOffset, heartbeat, isRunning, isStale }) => {
  const spans = []; // neighbours of one fate; 80 are sure to fit into the 4,096 characters of a commit's metadata
  let last = null;
  for (const message of batch.messages) {
    if (!isRunning() || isStale() || spans.length === 80) break;
    const offset = BigInt(message.offset);
    try {
      await handle(message);
    } catch (error) {
      const verb = error instanceof Hopeless ? 'd' : 'n:1000'; // a dead letter now, or again in a second
      const before = spans.at(-1);
      if (before?.verb === verb && before.last === offset - 1n) before.last = offset;
      else spans.push({ verb, first: offset, last: offset });
    }
    last = offset;
    await heartbeat();
  }
  if (last === null) return;
  const { topic, partition } = batch;
  const names = spans.map(({ verb, first, last: end }) => `;${verb}=${first}-${end}`).join('');
  await consumer.commitOffsets([{ topic, partition, offset: String(last + 1n), metadata: names && `ack1${names}` }]);
  resolveOffset(String(last)); // not before: what was not committed is read again, and so is the rest of the batch
};
// page: end

module.exports = { Hopeless, worker };
