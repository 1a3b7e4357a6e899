// @confluentinc/kafka-javascript: administration.

'use strict';
const { add, check, failure, same, sample } = require('../js-common/common.js');
const { Reader, RdKafka, ask, create, describe, expect, offsets, produce, promised, read, settle } = require('./base.js');
const { member } = require('./groups.js');

const { AdminClient: { ConsumerGroupStates, ConsumerGroupTypes, IsolationLevel, OffsetSpec } } = RdKafka;

/** A group without members that has committed an offset. */
async function committedGroup(ctx, topic, offset = 3) {
  const group = ctx.name('g');
  const reader = await Reader.create(ctx, group);
  reader.commit(topic, offset);
  await reader.close();
  return group;
}

const describeGroup = async (ctx, group) => (await ask.describeGroups(ctx, [group])).groups[0];

const listed = async (ctx, group, options) => (await ask.listGroups(ctx, options)).groups.find((g) => g.groupId === group);

add({
  async create_and_describe_topic(ctx) {
    const topic = await create(ctx, 5, { 'cleanup.policy': 'compact', 'retention.ms': 1000 });
    check((await ask.listTopics(ctx)).includes(topic), 'not listed');
    const found = await describe(ctx, topic);
    same(found.partitions.map((p) => p.partition), [0, 1, 2, 3, 4], 'partitions');
    check(found.partitions.every((p) => p.leader && p.isr.length === 1 && p.replicas.length === 1), 'leaders or replicas missing');
    check(found.topicId.base64.length > 20, 'no topic id');
    same(found.isInternal, false, 'internal');
  },

  async delete_topic(ctx) {
    const topic = await create(ctx);
    await produce(ctx, topic, sample(10));
    const old = (await describe(ctx, topic)).topicId.base64;
    await ask.deleteTopic(ctx, topic);
    await ctx.until('the topic to go', async () => !(await ask.listTopics(ctx)).includes(topic));
    await ask.createTopic(ctx, { topic, num_partitions: 1, replication_factor: 1 });
    check((await describe(ctx, topic)).topicId.base64 !== old, 'the new topic has the old id');
    await produce(ctx, topic, sample(3));
    same(offsets(await read(ctx, topic, 3)), [0, 1, 2], 'offsets of the new topic');
  },

  async create_partitions(ctx) {
    const topic = await create(ctx);
    await ask.createPartitions(ctx, topic, 4);
    await ctx.until('four partitions', async () => (await describe(ctx, topic)).partitions.length === 4);
    await produce(ctx, topic, sample(10).map((record) => ({ ...record, partition: 3 })));
    same((await read(ctx, topic, 10, 4)).length, 10, 'records');
  },

  async delete_records(ctx) {
    const topic = await create(ctx);
    await produce(ctx, topic, sample(100), { 'batch.num.messages': 10 });
    const [first] = await ask.deleteRecords(ctx, [{ topic, partition: 0, offset: 35 }]);
    same(first.lowWatermark, 35, 'low watermark');
    const reader = await Reader.create(ctx);
    same(await reader.watermarks(topic), { lowOffset: 35, highOffset: 100 }, 'watermarks');
    same((await read(ctx, topic, 65))[0].offset, 35, 'first offset');
    const [beyond] = await ask.deleteRecords(ctx, [{ topic, partition: 0, offset: 101 }]);
    expect(beyond.error, 'OFFSET_OUT_OF_RANGE');
    const [everything] = await ask.deleteRecords(ctx, [{ topic, partition: 0, offset: -1 }]);
    same(everything.lowWatermark, 100, 'low watermark of an emptied log');
  },

  async list_offsets(ctx) {
    const topic = await create(ctx);
    const start = Date.now() - 600_000;
    for (const n of [0, 1, 5, 3, 4]) await produce(ctx, topic, [{ value: Buffer.from('x'), timestamp: start + n * 1000 }]);
    const asked = [
      [OffsetSpec.EARLIEST, 0], [OffsetSpec.LATEST, 5], [OffsetSpec.MAX_TIMESTAMP, 2], [new OffsetSpec(start + 1500), 2],
      [new OffsetSpec(start + 1_000_000), -1],
    ];
    for (const [offset, expected] of asked) {
      for (const isolationLevel of Object.values(IsolationLevel)) {
        const [found] = await ask.listOffsets(ctx, [{ topic, partition: 0, offset }], { isolationLevel });
        same(found.offset, expected, `timestamp ${offset.timestamp}`);
      }
    }
    const client = promised(ctx).admin();
    ctx.closing(() => client.disconnect());
    await client.connect();
    same((await client.fetchTopicOffsets(topic))[0], { partition: 0, offset: '5', high: '5', low: '0' }, 'of the KafkaJS interface');
    same((await client.fetchTopicOffsetsByTimestamp(topic, start + 1500))[0].offset, '2', 'of the KafkaJS interface');
  },

  async list_and_describe_groups(ctx) {
    const topic = await create(ctx, 2);
    const group = ctx.name('g');
    const reader = await member(ctx, topic, group, { 'client.id': 'compat-client' });
    await settle(ctx, [reader], [2]);
    const entry = await listed(ctx, group, { matchConsumerGroupStates: [ConsumerGroupStates.STABLE] });
    check(entry, 'not listed');
    same(entry.type, ConsumerGroupTypes.CLASSIC, 'type');
    check(!(await listed(ctx, group, { matchConsumerGroupStates: [ConsumerGroupStates.EMPTY] })), 'listed as empty');
    const found = await describeGroup(ctx, group);
    same([found.state, found.partitionAssignor], [ConsumerGroupStates.STABLE, 'range'], 'state and assignor');
    same(`${found.coordinator.host}:${found.coordinator.port}`, ctx.bootstrap, 'coordinator');
    same(found.members.map((m) => m.clientId), ['compat-client'], 'client ids');
    const assigned = found.members[0].assignment.topicPartitions.map((p) => `${p.topic}:${p.partition}`).sort();
    same(assigned, [`${topic}:0`, `${topic}:1`], 'assignment');
    await reader.close();
    await ctx.until('the group to be empty', async () => (await describeGroup(ctx, group)).state === ConsumerGroupStates.EMPTY);
  },

  async delete_group(ctx) {
    const group = await committedGroup(ctx, await create(ctx));
    same((await ask.deleteGroups(ctx, [group])).map((r) => [r.groupId, r.error?.message]), [[group, undefined]], 'deleted');
    check(!(await listed(ctx, group)), 'still listed');
  },

  async group_offsets(ctx) {
    const topic = await create(ctx);
    const group = await committedGroup(ctx, topic);
    const [found] = await ask.groupOffsets(ctx, group);
    same(found.partitions.map((p) => [p.topic, p.partition, p.offset]), [[topic, 0, 3]], 'offsets');
    ctx.detail = 'listing only: the client has no call to alter or delete them';
  },

  async error_group_not_empty(ctx) {
    const topic = await create(ctx);
    const group = ctx.name('g');
    await settle(ctx, [await member(ctx, topic, group)], [1]);
    expect(await failure(() => deleted(ctx, group)), 'NON_EMPTY_GROUP');
  },

  async error_unknown_group(ctx) {
    expect(await failure(() => deleted(ctx, ctx.name('g'))), 'GROUP_ID_NOT_FOUND');
  },
});

/** Delete a group; raises its error, which comes either way. */
async function deleted(ctx, group) {
  const [result] = await ask.deleteGroups(ctx, [group]);
  if (result.error) throw result.error;
}
