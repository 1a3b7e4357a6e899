// Queue topics: what commits do.

'use strict';
const { add, check, failure, range, same } = require('../js-common/common.js');
const { Reader, admin, expect, kafka, producer } = require('../js-kafkajs/base.js');
const { Hopeless, worker } = require('./worker.js');
const { Queue, places, valueOf, values } = require('./queue.js');

/** Milliseconds by which two clocks of one machine may differ. */
const EARLY = 2;

/**
 * The program of docs/QUEUE-CLIENTS.md: one record is hopeless, and of those after 200, when windows have grown, more fail once
 * than a commit could name singly, or by 80 spans.
 */
async function example(ctx) {
  const queue = await Queue.make(ctx, 1);
  await queue.feed(0, 1400, 5);
  const counts = Array(1400).fill(0);
  const fails = (value) => value >= 200 && value % 4 !== 0;
  const consumer = kafka(ctx).consumer({ groupId: queue.group, maxWaitTimeInMs: 100 });
  ctx.closing(() => consumer.disconnect());
  await consumer.connect();
  await consumer.subscribe({ topics: [queue.name], fromBeginning: true });
  const handle = async (message) => {
    const value = valueOf(message);
    counts[value] += 1;
    if (value === 7) throw new Hopeless('hopeless');
    if (fails(value) && counts[value] === 1) throw new Error('not now');
  };
  await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch: worker(consumer, handle) });
  await ctx.until('the page\'s program to be done', async () => (await queue.settled()) === 2300);
  same(counts, range(0, 1400).map((n) => (fails(n) ? 2 : 1)), 'deliveries by value');
  await queue.letters([7]);
}

add({
  async queue_auto_commit(ctx) {
    const queue = await Queue.make(ctx, 4);
    await queue.feed(0, 500, 20);
    const own = { run: { autoCommit: true, autoCommitInterval: 100 } };
    const first = await new Reader(ctx, queue.group).start(queue.name, own);
    await first.take(500);
    await ctx.until('the automatic commits', async () => (await queue.settled()) === 500);
    await queue.feed(500, 600, 20);
    await first.take(600);
    await first.client.disconnect();
    const second = await new Reader(ctx, queue.group).start(queue.name, own);
    await queue.feed(600, 610, 20);
    await second.take(10);
    same(values([...first.messages, ...second.messages]), range(0, 610), 'records, each once');
  },

  async queue_manual_commit(ctx) {
    const queue = await Queue.make(ctx, 3);
    await queue.feed(0, 300, 50);
    const held = [];
    let done = 0;
    const first = await queue.join((record) => {
      if (done < 200) done += 1;
      else held.push(record);
      return held.length ? 'hold' : '';
    });
    await ctx.until('records that are not committed', () => held.length > 0);
    await first.leave();
    const settled = await queue.settled();
    const second = await queue.join(() => '');
    const rest = await second.take(300 - settled);
    check(places(held).every((place) => places(rest).includes(place)), 'what was in hand has other offsets');
    const both = new Set([...first.messages, ...rest].map(valueOf));
    same([both.size, rest.length], [300, 300 - settled], 'records in all, and those of the second');
    await queue.nothingElse(second);
  },

  async queue_nack(ctx) {
    const queue = await Queue.make(ctx, 1);
    await queue.feed(0, 20, 5);
    const sevens = [];
    const member = await queue.join((record) => {
      if (valueOf(record) === 7) sevens.push({ at: performance.now(), offset: Number(record.offset) });
      return valueOf(record) === 7 && sevens.length === 1 ? 'n:900' : '';
    });
    await member.take(21);
    same(values(member.messages.slice(0, 20)), range(0, 20), 'records: the others go on');
    const waited = sevens[1].at - sevens[0].at;
    check(waited >= 900 - EARLY, `the nacked record came after ${waited} ms`);
    check(sevens[1].offset > sevens[0].offset, `it came as ${sevens[1].offset}`);
    await queue.nothingElse(member);
    await ctx.until('all to be settled', async () => (await queue.settled()) === 22);
  },

  queue_example: example,

  async queue_dead_letter(ctx) {
    const queue = await Queue.make(ctx, 2, { 'pulsar.max.redeliver.count': 2, 'pulsar.nack.delay.ms': 0 });
    await queue.feed(0, 40, 8);
    const member = await queue.join((record) => ({ 7: 'n', 11: 'd' })[valueOf(record)] ?? '');
    await member.take(42);
    await queue.nothingElse(member);
    const counts = range(0, 40).map((n) => member.messages.filter((one) => valueOf(one) === n).length);
    same(counts, range(0, 40).map((n) => (n === 7 ? 3 : 1)), 'deliveries by value');
    await queue.letters([7, 11]);
  },

  async queue_malformed(ctx) {
    const queue = await Queue.make(ctx, 1);
    await queue.feed(0, 10, 5);
    const first = await queue.join(() => 'hold');
    await first.take(10);
    const one = { topic: queue.name, partition: 0, offset: '10', metadata: 'ack1;n:soon=3' };
    expect(await failure(() => first.client.commitOffsets([one])), 'INVALID_REQUEST');
    await first.leave();
    const second = await queue.join(() => '');
    same(values(await second.take(10)), range(0, 10), 'what comes again');
    await queue.nothingElse(second);
  },

  async queue_other_group(ctx) {
    const queue = await Queue.make(ctx, 1);
    await queue.feed(0, 10, 5);
    const audit = await queue.join(() => '', { group: ctx.name('g') });
    await audit.take(10);
    await audit.leave();
    const own = await queue.join(() => '');
    same(values(await own.take(10)), range(0, 10), 'records of its own group');
    await queue.nothingElse(own);
  },

  async queue_pattern(ctx) {
    const queue = await Queue.make(ctx, 1);
    await queue.feed(0, 10, 5);
    const reader = await new Reader(ctx, null).start(new RegExp(`^${queue.topic}.*`));
    await reader.take(20);
    const topics = new Set(reader.messages.map((one) => one.topic));
    same([...topics].sort(), [queue.topic, queue.name].sort(), 'topics: KafkaJS has no idea of internal ones');
    same(await queue.settled(), 0, 'what another group acknowledges');
    ctx.detail = 'the pattern has the queue topic too: KafkaJS knows of no internal topics';
  },

  async queue_delayed_and_retry(ctx) {
    const queue = await Queue.make(ctx, 2, { 'pulsar.subscription.type': 'key_shared' });
    const retries = `${queue.topic}-${queue.group}-RETRY`;
    await (await admin(ctx)).createTopics({ topics: [{ topic: retries, numPartitions: 2 }], waitForLeaders: false });
    const begun = Date.now();
    const wait = [0, 1500, 900, 1200];
    const early = [];
    const member = await queue.join((record) => {
      const waited = Date.now() - begun;
      if (waited < wait[valueOf(record)] - EARLY) early.push(`record ${valueOf(record)} came after ${waited} ms`);
    });
    const client = await producer(ctx);
    const send = (topic, value, headers) => client.send({ topic, messages: [{ key: 'key-1', value, partition: 0, headers }] });
    await send(queue.topic, '1', { 'pulsar-deliver-at': String(begun + 1500) });
    await send(queue.topic, '2', { 'pulsar-deliver-after': '900' });
    await send(retries, '3', { DELAY_TIME: '1200' });
    await send(queue.topic, '0', {});
    await member.take(4);
    same([values(member.messages), early], [range(0, 4), []], 'records, and those that came early');
    await queue.nothingElse(member);
  },

  async queue_foreign_metadata(ctx) {
    const queue = await Queue.make(ctx, 1);
    await queue.feed(0, 10, 5);
    const metadata = '{"framework": "käse", "n": [1, 2]} x;ack1;n=3';
    const member = await queue.join(() => '');
    await member.take(10);
    await ctx.until('its own commit', async () => (await queue.settled()) === 10);
    await member.client.commitOffsets([{ topic: queue.name, partition: 0, offset: '10', metadata }]);
    const back = (await queue.committed())[0];
    same([back.offset, back.metadata], ['10', metadata], 'what comes back');
    await queue.feed(10, 20, 5);
    await member.take(20);
    await ctx.until('the next commit', async () => (await queue.settled()) === 20);
    same((await queue.committed())[0].metadata || '', '', 'metadata of another offset');
    await queue.nothingElse(member);
  },
});
