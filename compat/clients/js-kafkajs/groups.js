// KafkaJS: groups, and going on after a restart of the server.

'use strict';
const { add, numberOf, range, same, sample } = require('../js-common/common.js');
const {
  CompressionTypes, Reader, admin, config, create, describe, offsets, plain, produce, producer, read, settle,
} = require('./base.js');

/** What a group has committed for a topic, by partition. */
async function committed(ctx, groupId, topic) {
  const [found] = await (await admin(ctx)).fetchOffsets({ groupId, topics: [topic] });
  return Object.fromEntries(found.partitions.map((p) => [p.partition, p]));
}

/** Read `count` records, commit the offset after them and leave. */
async function readAndCommit(ctx, topic, group, count) {
  const reader = await new Reader(ctx, group).start(topic);
  await reader.take(count);
  await reader.client.commitOffsets([{ topic, partition: 0, offset: String(count) }]);
  await reader.client.disconnect();
}

add({
  async commit_and_resume(ctx) {
    const topic = await create(ctx);
    const group = ctx.name('g');
    await produce(ctx, topic, sample(100));
    await readAndCommit(ctx, topic, group, 30);
    const second = await new Reader(ctx, group).start(topic);
    same(offsets(await second.take(70)), range(30, 100), 'offsets after resume');
  },

  async commit_metadata(ctx) {
    const topic = await create(ctx);
    const group = ctx.name('g');
    const metadata = `käse {"a": [1, 2]} ${'x'.repeat(500)}`;
    const reader = await new Reader(ctx, group).start(topic);
    await reader.client.commitOffsets([{ topic, partition: 0, offset: '0', metadata }]);
    const back = (await committed(ctx, group, topic))[0];
    same([back.offset, back.metadata], ['0', metadata], 'offset and metadata');
  },

  async auto_commit(ctx) {
    const topic = await create(ctx);
    const group = ctx.name('g');
    await produce(ctx, topic, sample(10));
    const reader = await new Reader(ctx, group).start(topic, { run: { autoCommit: true, autoCommitInterval: 100 } });
    await reader.take(10);
    await ctx.until('the automatic commit', async () => (await committed(ctx, group, topic))[0].offset === '10');
  },

  async rebalance_eager(ctx) {
    const topic = await create(ctx, 4);
    const group = ctx.name('g');
    await produce(ctx, topic, sample(200));
    const first = await new Reader(ctx, group).start(topic);
    await settle(ctx, [first], [4]);
    const second = await new Reader(ctx, group).start(topic);
    await settle(ctx, [first, second], [2, 2]);
    await first.client.disconnect();
    await settle(ctx, [second], [4]);
    await ctx.until('every record', () => new Set([...first.messages, ...second.messages].map(numberOf)).size === 200);
    ctx.detail = 'by RoundRobinAssigner: KafkaJS brings no other';
  },

  async member_timeout(ctx) {
    const topic = await create(ctx, 2);
    const group = ctx.name('g');
    for (const partition of [0, 1]) await produce(ctx, topic, sample(1).map((r) => ({ ...r, partition })));
    const lazy = new Reader(ctx, group, { sessionTimeout: 3000, rebalanceTimeout: 3000 });
    // It sits on its first message and sends no heartbeat any more.
    await lazy.start(topic, { handle: () => new Promise(() => {}) });
    await settle(ctx, [lazy], [2]);
    await lazy.take(1);
    const eager = await new Reader(ctx, group).start(topic);
    await settle(ctx, [eager], [2]);
    same(lazy.joins, 1, 'joins of the member that is stuck');
  },

  async new_partitions_in_group(ctx) {
    const topic = await create(ctx);
    const reader = await new Reader(ctx, null, { metadataMaxAge: 500 }).start(topic);
    await settle(ctx, [reader], [1]);
    await (await admin(ctx)).createPartitions({ topicPartitions: [{ topic, count: 3 }] });
    await settle(ctx, [reader], [3]);
    await produce(ctx, topic, sample(5).map((r) => ({ ...r, partition: 2 })));
    same(new Set((await reader.take(5)).map((m) => m.partition)), new Set([2]), 'partition of the records');
  },

  async restart_resume_group(ctx) {
    const topic = await create(ctx);
    const group = ctx.name('g');
    const records = sample(100);
    await produce(ctx, topic, records, { compression: CompressionTypes.ZSTD });
    await readAndCommit(ctx, topic, group, 40);
    await ctx.restart();
    const second = await new Reader(ctx, group).start(topic);
    same(offsets(await second.take(60)), range(40, 100), 'offsets after the restart');
    same(plain(await read(ctx, topic, 100)), records, 'records from the beginning');
  },

  async restart_live_clients(ctx) {
    const topic = await create(ctx, 2);
    const retry = { initialRetryTime: 100, maxRetryTime: 1000, retries: 50 };
    const writer = await producer(ctx, { retry });
    const reader = await new Reader(ctx, null, { retry }).start(topic, { run: { autoCommit: true } });
    const records = sample(100);
    await writer.send({ topic, messages: records.slice(0, 50) });
    await reader.take(50);
    await ctx.restart();
    await writer.send({ topic, messages: records.slice(50) });
    await ctx.until('the records after the restart', () => new Set(reader.messages.map(numberOf)).size === 100);
  },

  async restart_idempotent(ctx) {
    const topic = await create(ctx);
    const client = await producer(ctx, { idempotent: true, retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 100 } });
    const records = sample(200);
    for (let n = 0; n < 100; n += 10) await client.send({ topic, messages: records.slice(n, n + 10) });
    await ctx.restart();
    for (let n = 100; n < 200; n += 10) await client.send({ topic, messages: records.slice(n, n + 10) });
    same(plain(await read(ctx, topic, 200)), records, 'records');
    const [end] = await (await admin(ctx)).fetchTopicOffsets(topic);
    same(end.high, '200', 'end offset');
  },

  async restart_topic_settings(ctx) {
    const topic = await create(ctx, 3, { 'retention.ms': 123_456_789 });
    await ctx.restart();
    same((await describe(ctx, topic)).partitions.length, 3, 'partitions');
    same((await config(ctx, topic))['retention.ms'].configValue, '123456789', 'config');
    ctx.detail = 'without the topic id, which KafkaJS does not show';
  },
});

module.exports = { committed };
