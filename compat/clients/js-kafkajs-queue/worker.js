// The program of docs/QUEUE-CLIENTS.md.

'use strict';

// page: begin
class Hopeless extends Error {}

/** For consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch: worker(consumer, handle) }). */
const worker = (consumer, handle) => async ({ batch, resolveOffset, heartbeat, isRunning, isStale }) => {
  let names = '';
  let end = null;
  for (const message of batch.messages) {
    if (!isRunning() || isStale()) break;
    try {
      await handle(message);
    } catch (error) {
      // a dead letter now, or again in a second
      names += error instanceof Hopeless ? `;d=${message.offset}` : `;n:1000=${message.offset}`;
    }
    resolveOffset(message.offset);
    end = String(BigInt(message.offset) + 1n);
    await heartbeat();
  }
  if (end === null) return;
  const { topic, partition } = batch;
  await consumer.commitOffsets([{ topic, partition, offset: end, metadata: names && `ack1${names}` }]);
};
// page: end

module.exports = { Hopeless, worker };
