// @confluentinc/kafka-javascript: groups, and going on after a restart of the server.

'use strict';
const { add, numberOf, range, same, sample } = require('../js-common/common.js');
const { Reader, ask, create, describe, offsets, plain, produce, producer, promised, read, send, settle } = require('./base.js');

const STATIC = (id) => ({ 'group.instance.id': id });

async function member(ctx, topic, group, settings = {}) {
  const reader = await Reader.create(ctx, group, settings);
  reader.client.subscribe([topic]);
  return reader;
}

async function rebalance(ctx, strategy) {
  const topic = await create(ctx, 4);
  const group = ctx.name('g');
  const settings = { 'partition.assignment.strategy': strategy };
  await produce(ctx, topic, sample(200));
  const first = await member(ctx, topic, group, settings);
  await settle(ctx, [first], [4]);
  const second = await member(ctx, topic, group, settings);
  await settle(ctx, [first, second], [2, 2]);
  await first.close();
  await settle(ctx, [second], [4]);
  await ctx.until('every record', async () => {
    await second.poll();
    return new Set([...first.messages, ...second.messages].map(numberOf)).size === 200;
  });
}

/** Read `count` records as a group, commit and leave. */
async function readAndCommit(ctx, topic, group, count) {
  const reader = await member(ctx, topic, group);
  const got = await reader.take(count);
  reader.commit(topic, got[count - 1].offset + 1);
  await reader.close();
}

add({
  async commit_and_resume(ctx) {
    const topic = await create(ctx);
    const group = ctx.name('g');
    await produce(ctx, topic, sample(100));
    await readAndCommit(ctx, topic, group, 30);
    const second = await member(ctx, topic, group);
    same(offsets(await second.take(70)), range(30, 100), 'offsets after resume');
  },

  async commit_metadata(ctx) {
    const topic = await create(ctx);
    const text = `käse {"a": [1, 2]} ${'x'.repeat(500)}`;
    const reader = await Reader.create(ctx);
    reader.commit(topic, 0, text);
    const back = await reader.committed(topic);
    same([back.offset, back.metadata], [0, text], 'offset and metadata');
  },

  async auto_commit(ctx) {
    const topic = await create(ctx);
    await produce(ctx, topic, sample(10));
    const groupId = ctx.name('g');
    const client = promised(ctx).consumer({
      kafkaJS: { groupId, fromBeginning: true, autoCommit: true, autoCommitInterval: 100 },
    });
    ctx.closing(() => client.disconnect());
    await client.connect();
    await client.subscribe({ topic });
    let count = 0;
    await client.run({ eachMessage: async () => { count += 1; } });
    await ctx.until('the records', () => count === 10);
    await ctx.until('the automatic commit', async () => {
      const [found] = await ask.groupOffsets(ctx, groupId);
      return found.partitions.some((p) => p.partition === 0 && p.offset === 10);
    });
  },

  async rebalance_eager(ctx) {
    await rebalance(ctx, 'range');
  },

  async rebalance_cooperative(ctx) {
    await rebalance(ctx, 'cooperative-sticky');
  },

  async static_membership(ctx) {
    const topic = await create(ctx, 4);
    const group = ctx.name('g');
    const one = await member(ctx, topic, group, STATIC('one'));
    const two = await member(ctx, topic, group, STATIC('two'));
    await settle(ctx, [one, two], [2, 2]);
    const [changes, share] = [one.changes, two.share.sort()];
    await two.close();
    const again = await member(ctx, topic, group, STATIC('two'));
    await settle(ctx, [one, again], [2, 2]);
    same(again.share.sort(), share, "the returning member's partitions");
    same(one.changes, changes, 'rebalances of the other member');
  },

  async member_timeout(ctx) {
    const topic = await create(ctx, 2);
    const group = ctx.name('g');
    const lazy = await member(ctx, topic, group, { 'session.timeout.ms': 6000, 'max.poll.interval.ms': 6000 });
    await settle(ctx, [lazy], [2]);
    const eager = await member(ctx, topic, group);
    await settle(ctx, [eager], [2]); // the lazy one never polls again, so it never rejoins
  },

  async new_partitions_in_group(ctx) {
    const topic = await create(ctx);
    const reader = await member(ctx, topic, ctx.name('g'), { 'topic.metadata.refresh.interval.ms': 500 });
    await settle(ctx, [reader], [1]);
    await ask.createPartitions(ctx, topic, 3);
    await settle(ctx, [reader], [3]);
    await produce(ctx, topic, sample(5).map((record) => ({ ...record, partition: 2 })));
    await ctx.until('records of the new partition', async () => {
      await reader.poll();
      return reader.messages.length === 5;
    });
  },

  async restart_resume_group(ctx) {
    const topic = await create(ctx);
    const group = ctx.name('g');
    const records = sample(100);
    await produce(ctx, topic, records, { 'compression.type': 'zstd' });
    await readAndCommit(ctx, topic, group, 40);
    await ctx.restart();
    const second = await member(ctx, topic, group);
    same(offsets(await second.take(60)), range(40, 100), 'offsets after the restart');
    same(plain(await read(ctx, topic, 100)), records, 'records from the beginning');
  },

  async restart_live_clients(ctx) {
    const topic = await create(ctx, 2);
    const kafka = promised(ctx, { 'reconnect.backoff.max.ms': 500 });
    const writer = kafka.producer({ kafkaJS: { acks: -1 } });
    const reader = kafka.consumer({ kafkaJS: { groupId: ctx.name('g'), fromBeginning: true, autoCommitInterval: 100 } });
    for (const client of [writer, reader]) {
      ctx.closing(() => client.disconnect());
      await client.connect();
    }
    const records = sample(100);
    const seen = new Set();
    await reader.subscribe({ topic });
    await reader.run({ eachMessage: async ({ message }) => { seen.add(numberOf(message)); } });
    await writer.send({ topic, messages: records.slice(0, 50) });
    await ctx.until('the records before', () => seen.size === 50);
    await ctx.restart();
    await writer.send({ topic, messages: records.slice(50) });
    await ctx.until('the records after', () => seen.size === 100);
  },

  async restart_idempotent(ctx) {
    const topic = await create(ctx);
    const client = await producer(ctx, { 'enable.idempotence': true, 'reconnect.backoff.max.ms': 500, 'linger.ms': 0 });
    const records = sample(200);
    await Promise.all(records.slice(0, 100).map((record) => send(client, topic, record)));
    await ctx.restart();
    await Promise.all(records.slice(100).map((record) => send(client, topic, record)));
    same(plain(await read(ctx, topic, 200)), records, 'records');
    const reader = await Reader.create(ctx);
    same(await reader.watermarks(topic), { lowOffset: 0, highOffset: 200 }, 'watermarks');
  },

  async restart_topic_settings(ctx) {
    const topic = await create(ctx, 3, { 'retention.ms': 123_456_789 });
    const before = await describe(ctx, topic);
    await ctx.restart();
    const after = await describe(ctx, topic);
    same(after.topicId.base64, before.topicId.base64, 'topic id');
    same(after.partitions.length, 3, 'partitions');
    ctx.detail = 'without the configs, which the client does not show';
  },
});

module.exports = { member };
