// @confluentinc/kafka-javascript: the errors that a client must show well.

'use strict';
const { add, check, failure, same, sample } = require('../js-common/common.js');
const { Reader, ask, create, expect, produce, promised, read, settle, texts } = require('./base.js');
const { member } = require('./groups.js');

const creation = (ctx, topic) => failure(() => ask.createTopic(ctx, { num_partitions: 1, replication_factor: 1, ...topic }));

/** Poll until the client reports an error; gives that. */
async function raised(ctx, ...readers) {
  return ctx.until('the error', async () => {
    for (const reader of readers) {
      const error = await reader.poll().then(() => reader.error, (thrown) => thrown);
      if (error) return error;
    }
    return null;
  });
}

add({
  async error_unknown_topic(ctx) {
    const topic = ctx.name();
    const reader = await member(ctx, topic, ctx.name('g'));
    expect(await raised(ctx, reader), 'UNKNOWN_TOPIC_OR_PART');
    check(!(await ask.listTopics(ctx)).includes(topic), 'the topic was created');
    expect(await failure(() => ask.deleteTopic(ctx, topic)), 'UNKNOWN_TOPIC_OR_PART');
    const [found] = await ask.describeTopics(ctx, [topic]);
    expect(found.error, 'UNKNOWN_TOPIC_OR_PART');
  },

  async error_topic_exists(ctx) {
    expect(await creation(ctx, { topic: await create(ctx) }), 'TOPIC_ALREADY_EXISTS');
  },

  async error_invalid_topic_name(ctx) {
    for (const topic of ['not a name!', 'x'.repeat(250), '..']) expect(await creation(ctx, { topic }), 'TOPIC_EXCEPTION');
  },

  async error_invalid_partitions(ctx) {
    const topic = await create(ctx, 3);
    for (const count of [2, 3]) expect(await failure(() => ask.createPartitions(ctx, topic, count)), 'INVALID_PARTITIONS');
  },

  async error_invalid_replication(ctx) {
    expect(await creation(ctx, { topic: ctx.name(), replication_factor: 3 }), 'INVALID_REPLICATION_FACTOR');
  },

  async error_bad_config_value(ctx) {
    for (const configs of [{ 'retention.ms': 'soon' }, { 'no.such.config': 1 }, { 'cleanup.policy': 'shred' }]) {
      expect(await creation(ctx, { topic: ctx.name(), config: texts(configs) }), 'INVALID_CONFIG');
    }
  },

  async error_message_too_large(ctx) {
    const topic = await create(ctx, 1, { 'max.message.bytes': 2000 });
    expect(await failure(() => produce(ctx, topic, sample(1, 10_000))), 'MSG_SIZE_TOO_LARGE');
    await produce(ctx, topic, sample(1, 1000));
  },

  async error_no_key_on_compacted(ctx) {
    const topic = await create(ctx, 1, { 'cleanup.policy': 'compact' });
    expect(await failure(() => produce(ctx, topic, [{ value: Buffer.from('no key') }])), 'INVALID_RECORD');
  },

  async error_timestamp_out_of_bounds(ctx) {
    const topic = await create(ctx, 1, { 'message.timestamp.after.max.ms': 60_000 });
    const record = { value: Buffer.from('x'), timestamp: Date.now() + 3_600_000 };
    expect(await failure(() => produce(ctx, topic, [record])), 'INVALID_TIMESTAMP');
  },

  async error_unknown_member(ctx) {
    const topic = await create(ctx);
    const group = ctx.name('g');
    await settle(ctx, [await member(ctx, topic, group)], [1]);
    // A commit from outside (no member id, no generation) while the group has members.
    const outsider = await Reader.create(ctx, group);
    expect(await failure(async () => outsider.commit(topic, 1)), 'UNKNOWN_MEMBER_ID');
  },

  async error_fenced_instance(ctx) {
    const topic = await create(ctx);
    const group = ctx.name('g');
    const first = await member(ctx, topic, group, { 'group.instance.id': 'same' });
    await settle(ctx, [first], [1]);
    const second = await member(ctx, topic, group, { 'group.instance.id': 'same' });
    await settle(ctx, [second], [1]);
    const error = await ctx.until('the first to be fenced', async () => {
      await second.poll();
      return first.poll().then(() => first.error, (thrown) => thrown);
    });
    expect(error, 'FENCED_INSTANCE_ID', '_FATAL');
  },

  async error_inconsistent_protocol(ctx) {
    const topic = await create(ctx);
    const group = ctx.name('g');
    await settle(ctx, [await member(ctx, topic, group, { 'partition.assignment.strategy': 'range' })], [1]);
    const other = await member(ctx, topic, group, { 'partition.assignment.strategy': 'cooperative-sticky' });
    expect(await raised(ctx, other), 'INCONSISTENT_GROUP_PROTOCOL');
  },

  async transactions(ctx) {
    const topic = await create(ctx);
    const client = promised(ctx).producer({ kafkaJS: { transactionalId: ctx.name('x') } });
    ctx.closing(() => client.disconnect());
    try {
      await client.connect(); // connects and then asks for the producer id
    } catch (error) {
      check(!/timed? ?out/i.test(error.message), `not refused, only timed out: ${error.message}`);
      ctx.refused = error.message;
      return;
    }
    for (const n of [0, 1, 2]) {
      const transaction = await client.transaction();
      await transaction.send({ topic, messages: [{ value: String(n) }] });
      await (n === 1 ? transaction.abort() : transaction.commit());
    }
    const got = await read(ctx, topic, 2, 1, { 'isolation.level': 'read_committed' });
    same(got.map((message) => message.value.toString()), ['0', '2'], 'committed records');
  },
});
