// KafkaJS: the errors that a client must show well.

'use strict';
const { AssignerProtocol } = require('kafkajs');
const { add, check, failure, same, sample } = require('../js-common/common.js');
const {
  ConfigResourceTypes, Reader, admin, create, entries, expect, kafka, produce, producer, read, settle, typeOf,
} = require('./base.js');
const { describeGroup } = require('./administration.js');

const creation = async (ctx, topic) => {
  const client = await admin(ctx);
  return failure(() => client.createTopics({ waitForLeaders: false, topics: [{ replicationFactor: 1, ...topic }] }));
};

add({
  async error_unknown_topic(ctx) {
    const topic = ctx.name();
    const client = await admin(ctx);
    expect(await failure(() => client.deleteTopics({ topics: [topic] })), 'UNKNOWN_TOPIC_OR_PARTITION');
    const retry = { retries: 1, initialRetryTime: 50 };
    const writer = kafka(ctx, { retry }).producer({ allowAutoTopicCreation: false, retry });
    ctx.closing(() => writer.disconnect());
    await writer.connect();
    expect(await failure(() => writer.send({ topic, messages: [{ value: 'x' }] })), 'UNKNOWN_TOPIC_OR_PARTITION');
    const reader = new Reader(ctx, null, { allowAutoTopicCreation: false, retry });
    expect(await failure(() => reader.start(topic)), 'UNKNOWN_TOPIC_OR_PARTITION');
    check(!(await client.listTopics()).includes(topic), 'the topic was created');
  },

  async error_topic_exists(ctx) {
    const topic = await create(ctx);
    // KafkaJS makes of TOPIC_ALREADY_EXISTS that nothing was created.
    same(await (await admin(ctx)).createTopics({ topics: [{ topic, numPartitions: 1 }] }), false, 'created');
  },

  async error_invalid_topic_name(ctx) {
    for (const topic of ['not a name!', 'x'.repeat(250), '..']) {
      expect(await creation(ctx, { topic, numPartitions: 1 }), 'INVALID_TOPIC_EXCEPTION');
    }
  },

  async error_invalid_partitions(ctx) {
    expect(await creation(ctx, { topic: ctx.name(), numPartitions: 0 }), 'INVALID_PARTITIONS');
    const topic = await create(ctx, 3);
    const client = await admin(ctx);
    for (const count of [2, 3]) {
      const error = await failure(() => client.createPartitions({ topicPartitions: [{ topic, count }] }));
      expect(error, 'INVALID_PARTITIONS');
    }
  },

  async error_invalid_replication(ctx) {
    expect(await creation(ctx, { topic: ctx.name(), numPartitions: 1, replicationFactor: 3 }), 'INVALID_REPLICATION_FACTOR');
  },

  async error_bad_config_value(ctx) {
    for (const configs of [{ 'retention.ms': 'soon' }, { 'no.such.config': '1' }, { 'cleanup.policy': 'shred' }]) {
      expect(await creation(ctx, { topic: ctx.name(), numPartitions: 1, configEntries: entries(configs) }), 'INVALID_CONFIG');
    }
    const resource = { type: ConfigResourceTypes.TOPIC, name: await create(ctx), configEntries: entries({ 'retention.ms': 'soon' }) };
    const client = await admin(ctx);
    expect(await failure(() => client.alterConfigs({ validateOnly: false, resources: [resource] })), 'INVALID_CONFIG');
  },

  async error_message_too_large(ctx) {
    const topic = await create(ctx, 1, { 'max.message.bytes': 2000 });
    expect(await failure(() => produce(ctx, topic, sample(1, 10_000))), 'MESSAGE_TOO_LARGE');
    await produce(ctx, topic, sample(1, 1000));
  },

  async error_no_key_on_compacted(ctx) {
    const topic = await create(ctx, 1, { 'cleanup.policy': 'compact' });
    expect(await failure(() => produce(ctx, topic, [{ value: 'no key' }])), 'INVALID_RECORD');
  },

  async error_timestamp_out_of_bounds(ctx) {
    const topic = await create(ctx, 1, { 'message.timestamp.after.max.ms': 60_000 });
    const timestamp = String(Date.now() + 3_600_000);
    expect(await failure(() => produce(ctx, topic, [{ value: 'x', timestamp }])), 'INVALID_TIMESTAMP');
  },

  async error_unknown_group(ctx) {
    const group = ctx.name('g');
    const client = await admin(ctx);
    expect(await failure(() => client.deleteGroups([group])), 'GROUP_ID_NOT_FOUND');
    same((await describeGroup(ctx, group)).state, 'Dead', 'state of a group that is not there');
  },

  async error_group_not_empty(ctx) {
    const topic = await create(ctx);
    const group = ctx.name('g');
    await settle(ctx, [await new Reader(ctx, group).start(topic)], [1]);
    const client = await admin(ctx);
    expect(await failure(() => client.deleteGroups([group])), 'NON_EMPTY_GROUP');
  },

  async error_unknown_member(ctx) {
    const topic = await create(ctx);
    const group = ctx.name('g');
    await produce(ctx, topic, sample(1));
    // A member that works on one message for longer than its session lasts, and then commits.
    const settings = { sessionTimeout: 2000, rebalanceTimeout: 2000 };
    const late = new Reader(ctx, group, settings);
    let finish;
    const working = new Promise((resolve) => { finish = resolve; });
    await late.start(topic, { handle: () => working });
    await late.take(1);
    await ctx.until('the member to be dropped', async () => (await describeGroup(ctx, group)).members.length === 0);
    const error = await failure(() => late.client.commitOffsets([{ topic, partition: 0, offset: '1' }]));
    expect(error, 'UNKNOWN_MEMBER_ID');
    finish();
  },

  async error_inconsistent_protocol(ctx) {
    const topic = await create(ctx);
    const group = ctx.name('g');
    await settle(ctx, [await new Reader(ctx, group).start(topic)], [1]);
    const other = () => ({
      name: 'another',
      version: 0,
      assign: async () => [],
      protocol: ({ topics }) => ({
        name: 'another',
        metadata: AssignerProtocol.MemberMetadata.encode({ version: 0, topics, userData: Buffer.alloc(0) }),
      }),
    });
    const reader = new Reader(ctx, group, { partitionAssigners: [other] });
    await reader.start(topic);
    await ctx.until('the refusal', () => reader.crash);
    expect(reader.crash, 'INCONSISTENT_GROUP_PROTOCOL');
  },

  async transactions(ctx) {
    const topic = await create(ctx);
    const client = await producer(ctx, { transactionalId: ctx.name('x'), maxInFlightRequests: 1, idempotent: true, retry: { retries: 3 } })
      .catch((error) => error);
    let transaction;
    try {
      if (client instanceof Error) throw client;
      transaction = await client.transaction();
    } catch (error) {
      check(!/timed? ?out/i.test(error.message), `not refused, only timed out: ${error.message}`);
      ctx.refused = `${typeOf(error)}: ${error.message}`;
      return;
    }
    for (const n of [0, 1, 2]) {
      transaction ??= await client.transaction();
      await transaction.send({ topic, messages: [{ value: String(n) }] });
      await (n === 1 ? transaction.abort() : transaction.commit());
      transaction = null;
    }
    same((await read(ctx, topic, 2)).map((m) => m.value.toString()), ['0', '2'], 'committed records');
    same((await read(ctx, topic, 3, { readUncommitted: true })).length, 3, 'with the aborted one');
  },
});
