// KafkaJS: administration.

'use strict';
const { AssignerProtocol } = require('kafkajs');
const { add, check, failure, same, sample } = require('../js-common/common.js');
const {
  ConfigResourceTypes, Reader, admin, config, create, describe, entries, expect, offsets, produce, read, settle,
} = require('./base.js');
const { committed } = require('./groups.js');

/** A group without members that has committed an offset. */
async function committedGroup(ctx, topic, offset = 3) {
  const group = ctx.name('g');
  const reader = await new Reader(ctx, group).start(topic);
  await reader.client.commitOffsets([{ topic, partition: 0, offset: String(offset) }]);
  await reader.client.disconnect();
  return group;
}

const describeGroup = async (ctx, group) => (await (await admin(ctx)).describeGroups([group])).groups[0];

const listed = async (ctx, group) => (await (await admin(ctx)).listGroups()).groups.some((g) => g.groupId === group);

add({
  async create_and_describe_topic(ctx) {
    const topic = await create(ctx, 5, { 'cleanup.policy': 'compact', 'retention.ms': 1000 });
    check((await (await admin(ctx)).listTopics()).includes(topic), 'not listed');
    const { partitions } = await describe(ctx, topic);
    same(partitions.map((p) => p.partitionId).sort(), [0, 1, 2, 3, 4], 'partitions');
    check(partitions.every((p) => p.leader >= 0 && p.replicas.length === 1 && p.isr.length === 1), 'leaders or replicas missing');
    same((await config(ctx, topic))['cleanup.policy'].configValue, 'compact', 'config');
    const defaults = ctx.name(); // partitions and replicas as the broker has it
    await (await admin(ctx)).createTopics({ waitForLeaders: false, topics: [{ topic: defaults }] });
    check((await describe(ctx, defaults)).partitions.length > 0, 'no partitions by default');
    const assigned = ctx.name();
    const replicas = partitions[0].replicas;
    const replicaAssignment = [{ partition: 0, replicas }, { partition: 1, replicas }];
    await (await admin(ctx)).createTopics({
      waitForLeaders: false,
      topics: [{ topic: assigned, numPartitions: -1, replicationFactor: -1, replicaAssignment }],
    });
    same((await describe(ctx, assigned)).partitions.length, 2, 'partitions by assignment');
  },

  async validate_only(ctx) {
    const topic = ctx.name();
    await (await admin(ctx)).createTopics({ validateOnly: true, waitForLeaders: false, topics: [{ topic, numPartitions: 2 }] });
    check(!(await (await admin(ctx)).listTopics()).includes(topic), 'the topic was created');
  },

  async delete_topic(ctx) {
    const topic = await create(ctx);
    await produce(ctx, topic, sample(10));
    const client = await admin(ctx);
    await client.deleteTopics({ topics: [topic] });
    await ctx.until('the topic to go', async () => !(await client.listTopics()).includes(topic));
    check(await client.createTopics({ waitForLeaders: false, topics: [{ topic, numPartitions: 1 }] }), 'not created again');
    await describe(ctx, topic);
    same((await client.fetchTopicOffsets(topic))[0].high, '0', 'end of the new topic');
    await produce(ctx, topic, sample(3));
    same(offsets(await read(ctx, topic, 3)), [0, 1, 2], 'offsets of the new topic');
    ctx.detail = 'without the topic id, which KafkaJS does not show';
  },

  async create_partitions(ctx) {
    const topic = await create(ctx);
    await (await admin(ctx)).createPartitions({ topicPartitions: [{ topic, count: 4 }] });
    await ctx.until('four partitions', async () => (await describe(ctx, topic)).partitions.length === 4);
    await produce(ctx, topic, sample(10).map((r) => ({ ...r, partition: 3 })));
    same((await read(ctx, topic, 10)).length, 10, 'records');
  },

  async describe_configs(ctx) {
    const topic = await create(ctx, 1, { 'retention.ms': 5000 });
    const found = await config(ctx, topic);
    same(found['retention.ms'].configValue, '5000', 'retention.ms');
    check(!found['retention.ms'].isDefault, 'a set value is called a default');
    same(found['retention.ms'].configSource, 1, 'source of a set value'); // TOPIC_CONFIG
    same(found['cleanup.policy'].configValue, 'delete', 'cleanup.policy');
    same(found['cleanup.policy'].configSource, 5, 'source of a default'); // DEFAULT_CONFIG
    for (const name of ['max.message.bytes', 'segment.bytes', 'compression.type', 'min.insync.replicas', 'retention.bytes']) {
      check(found[name], `${name} is missing`);
    }
    const client = await admin(ctx);
    const withSynonyms = await client.describeConfigs({
      includeSynonyms: true,
      resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: ['retention.ms'] }],
    });
    same(withSynonyms.resources[0].configEntries.length, 1, 'configs asked for by name');
    same(withSynonyms.resources[0].configEntries[0].configSynonyms[0].configName, 'retention.ms', 'first synonym');
    const node = String((await client.describeCluster()).brokers[0].nodeId);
    const broker = await config(ctx, node, ConfigResourceTypes.BROKER);
    for (const name of ['num.partitions', 'message.max.bytes', 'log.retention.ms']) check(broker[name], `${name} is missing`);
    check(broker['node.id'].readOnly, 'node.id is not read-only');
  },

  async alter_configs_legacy(ctx) {
    const topic = await create(ctx, 1, { 'retention.ms': 5000 });
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic, configEntries: entries({ 'max.message.bytes': 3000 }) };
    const client = await admin(ctx);
    await client.alterConfigs({ validateOnly: true, resources: [resource] });
    same((await config(ctx, topic))['retention.ms'].configValue, '5000', 'after validate-only');
    await client.alterConfigs({ validateOnly: false, resources: [resource] });
    await ctx.until('the new set', async () => {
      const now = await config(ctx, topic);
      return now['max.message.bytes'].configValue === '3000' && now['retention.ms'].isDefault;
    });
  },

  async delete_records(ctx) {
    const topic = await create(ctx);
    for (let n = 0; n < 10; n += 1) await produce(ctx, topic, sample(10));
    const client = await admin(ctx);
    await client.fetchTopicOffsets(topic); // KafkaJS wants to know the topic's leaders
    await client.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '35' }] });
    const [{ low, high }] = await client.fetchTopicOffsets(topic);
    same([low, high], ['35', '100'], 'watermarks');
    same((await read(ctx, topic, 65))[0].offset, '35', 'first offset');
    const beyond = await failure(() => client.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '101' }] }));
    expect(beyond, 'OFFSET_OUT_OF_RANGE');
    await client.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '-1' }] });
    same((await client.fetchTopicOffsets(topic))[0].low, '100', 'beginning of an emptied log');
  },

  async list_offsets(ctx) {
    const topic = await create(ctx);
    const start = Date.now() - 600_000;
    for (const n of [0, 1, 5, 3, 4]) await produce(ctx, topic, [{ value: 'x', timestamp: String(start + n * 1000) }]);
    const client = await admin(ctx);
    same(await client.fetchTopicOffsets(topic), [{ partition: 0, offset: '5', high: '5', low: '0' }], 'earliest and latest');
    for (const [time, expected] of [[start + 1500, '2'], [start, '0'], [start + 1_000_000, '5']]) {
      same(await client.fetchTopicOffsetsByTimestamp(topic, time), [{ partition: 0, offset: expected }], 'by time');
    }
    ctx.detail = 'without the max timestamp, which KafkaJS cannot ask for';
  },

  async list_and_describe_groups(ctx) {
    const topic = await create(ctx, 2);
    const group = ctx.name('g');
    const reader = await new Reader(ctx, group).start(topic);
    await settle(ctx, [reader], [2]);
    check(await listed(ctx, group), 'not listed');
    const found = await describeGroup(ctx, group);
    same([found.state, found.protocol, found.protocolType], ['Stable', 'RoundRobinAssigner', 'consumer'], 'group');
    same(found.members.map((m) => m.clientId), ['compat-client'], 'client ids');
    const { assignment } = AssignerProtocol.MemberAssignment.decode(found.members[0].memberAssignment);
    same(assignment[topic].sort(), [0, 1], 'assignment');
    same(AssignerProtocol.MemberMetadata.decode(found.members[0].memberMetadata).topics, [topic], 'subscription');
    await reader.client.disconnect();
    await ctx.until('the group to be empty', async () => (await describeGroup(ctx, group)).state === 'Empty');
  },

  async delete_group(ctx) {
    const group = await committedGroup(ctx, await create(ctx));
    same((await (await admin(ctx)).deleteGroups([group])).map((r) => r.groupId), [group], 'deleted');
    check(!(await listed(ctx, group)), 'still listed');
  },

  async group_offsets(ctx) {
    const topic = await create(ctx, 2);
    await produce(ctx, topic, sample(10).map((r) => ({ ...r, partition: 0 })));
    const group = await committedGroup(ctx, topic);
    const seen = async () => Object.values(await committed(ctx, group, topic)).sort((a, b) => a.partition - b.partition)
      .map((p) => p.offset);
    same(await seen(), ['3', '-1'], 'offsets');
    const client = await admin(ctx);
    // KafkaJS joins as a member, commits and leaves.
    await client.setOffsets({ groupId: group, topic, partitions: [{ partition: 0, offset: '1' }, { partition: 1, offset: '7' }] });
    await ctx.until('the group to be empty again', async () => (await describeGroup(ctx, group)).state === 'Empty');
    same(await seen(), ['1', '7'], 'altered offsets');
    await client.resetOffsets({ groupId: group, topic, earliest: false });
    same(await seen(), ['-1', '-1'], 'offsets reset to the latest');
    const [resolved] = await client.fetchOffsets({ groupId: group, topics: [topic], resolveOffsets: true });
    same(resolved.partitions.find((p) => p.partition === 0).offset, '10', 'resolved offset');
  },

  async describe_cluster(ctx) {
    const found = await (await admin(ctx)).describeCluster();
    check(found.clusterId, 'no cluster id');
    same(`${found.brokers[0].host}:${found.brokers[0].port}`, ctx.bootstrap, 'advertised address');
    check(found.brokers.some((broker) => broker.nodeId === found.controller), 'no controller');
  },
});

module.exports = { describeGroup };
