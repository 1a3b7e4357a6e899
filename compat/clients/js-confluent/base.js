// What the cases of @confluentinc/kafka-javascript share: making clients, topics, records.
//
// The package has two interfaces, and both are used here: the callbacks of node-rdkafka (`producer`, `Reader`, `admin`),
// which can do more, and the promises in the manner of KafkaJS (`promised`), which its users are told to use.

'use strict';
const RdKafka = require('@confluentinc/kafka-javascript');
const { check } = require('../js-common/common.js');
const { librdkafka } = require('../js-common/security.js');

const { CODES: { ERRORS }, KafkaJS: { Kafka, logLevel } } = RdKafka;

/** Call a method whose last argument is a callback (error, value). */
function call(client, method, ...args) {
  return new Promise((resolve, reject) => {
    client[method](...args, (error, value) => (error ? reject(error) : resolve(value)));
  });
}

/** The KafkaJS interface; `settings` are librdkafka's. */
const promised = (ctx, settings = {}) => new Kafka({
  'bootstrap.servers': ctx.bootstrap, ...librdkafka(), kafkaJS: { logLevel: logLevel.NOTHING }, ...settings,
});

async function admin(ctx) {
  if (!ctx.shared.admin) {
    const client = RdKafka.AdminClient.create({ 'bootstrap.servers': ctx.bootstrap, ...librdkafka() });
    ctx.closing(() => client.disconnect());
    // createTopic never comes back where it is the first call of a client that still waits for its token
    if ('oauthbearer_token_refresh_cb' in librdkafka()) await call(client, 'listTopics', { timeout: NEVER });
    ctx.shared.admin = client;
  }
  return ctx.shared.admin;
}

const NEVER = 15_000; // milliseconds that one request may take

/** Calls of the admin client that are asked for by method name; all of them take options or a timeout. */
const ask = {
  createTopic: async (ctx, topic) => call(await admin(ctx), 'createTopic', topic, NEVER),
  deleteTopic: async (ctx, topic) => call(await admin(ctx), 'deleteTopic', topic, NEVER),
  createPartitions: async (ctx, topic, count) => call(await admin(ctx), 'createPartitions', topic, count, NEVER),
  listTopics: async (ctx) => call(await admin(ctx), 'listTopics', { timeout: NEVER }),
  describeTopics: async (ctx, topics) => call(await admin(ctx), 'describeTopics', topics, { timeout: NEVER }),
  listGroups: async (ctx, options = {}) => call(await admin(ctx), 'listGroups', { timeout: NEVER, ...options }),
  describeGroups: async (ctx, groups) => call(await admin(ctx), 'describeGroups', groups, { timeout: NEVER }),
  deleteGroups: async (ctx, groups) => call(await admin(ctx), 'deleteGroups', groups, { timeout: NEVER }),
  deleteRecords: async (ctx, where) => call(await admin(ctx), 'deleteRecords', where, { timeout: NEVER }),
  listOffsets: async (ctx, where, options = {}) => call(await admin(ctx), 'listOffsets', where, { timeout: NEVER, ...options }),
  groupOffsets: async (ctx, groupId) => call(await admin(ctx), 'listConsumerGroupOffsets', [{ groupId }], { timeout: NEVER }),
};

/** The description of a topic; Kafka answers CreateTopics before its brokers know of the topic, so ask until they do. */
async function describe(ctx, topic) {
  return ctx.until('the topic to be known', async () => {
    const [found] = await ask.describeTopics(ctx, [topic]);
    return found.error || !found.partitions.every((p) => p.leader) ? null : found;
  });
}

const texts = (configs) => Object.fromEntries(Object.entries(configs).map(([name, value]) => [name, String(value)]));

/** A new topic with these configs. */
async function create(ctx, partitions = 1, configs = {}) {
  const topic = ctx.name();
  await ask.createTopic(ctx, { topic, num_partitions: partitions, replication_factor: 1, config: texts(configs) });
  await describe(ctx, topic);
  return topic;
}

async function producer(ctx, settings = {}) {
  const client = new RdKafka.HighLevelProducer({ 'bootstrap.servers': ctx.bootstrap, ...librdkafka(), ...settings });
  client.on('event.error', () => {}); // lost connections; what matters comes with the delivery
  client.setPollInterval(10);
  ctx.closing(() => client.isConnected() && call(client, 'disconnect'));
  await call(client, 'connect', { timeout: NEVER });
  return client;
}

/** Hand over one record; the offset it was given, or the error. */
function send(client, topic, { key = null, value = null, headers, timestamp, partition = null }) {
  return new Promise((resolve, reject) => {
    const done = (error, offset) => (error ? reject(error) : resolve(offset));
    client.produce(topic, partition, value, key, timestamp, ...(headers ? [headers] : []), done);
  });
}

/** Produce with a client of its own and wait for all; the offsets. */
async function produce(ctx, topic, records, settings = {}) {
  const client = await producer(ctx, { 'linger.ms': 5, ...settings });
  const offsets = await Promise.all(records.map((record) => send(client, topic, record)));
  await call(client, 'disconnect');
  return offsets;
}

/** A consumer that notes what it gets and how often its share changed. */
class Reader {
  static async create(ctx, group, settings = {}) {
    const reader = new Reader(ctx);
    reader.messages = [];
    reader.changes = 0;
    reader.error = null;
    reader.client = new RdKafka.KafkaConsumer({
      'bootstrap.servers': ctx.bootstrap, ...librdkafka(),
      'group.id': group ?? ctx.name('g'),
      'auto.offset.reset': 'earliest',
      'enable.auto.commit': false,
      'session.timeout.ms': 10_000,
      'heartbeat.interval.ms': 500,
      'fetch.wait.max.ms': 100,
      rebalance_cb: true,
      ...settings,
    });
    reader.client.setDefaultConsumeTimeout(100);
    reader.client.on('rebalance', () => { reader.changes += 1; });
    reader.client.on('event.error', (error) => { reader.error = error; });
    ctx.closing(() => reader.close());
    await call(reader.client, 'connect', { timeout: NEVER });
    return reader;
  }

  constructor(ctx) {
    this.ctx = ctx;
    this.closed = false;
  }

  async close() {
    if (this.closed) return;
    this.closed = true;
    await call(this.client, 'disconnect');
  }

  /** Assign these partitions of a topic, from an offset on. */
  assign(topic, partitions, offset = 'earliest') {
    const start = offset === 'earliest' ? -2 : offset;
    this.client.assign(partitions.map((partition) => ({ topic, partition, offset: start })));
  }

  /** Ask for up to `count` messages; gives what came, maybe nothing. */
  async poll(count = 100) {
    const got = await call(this.client, 'consume', count);
    this.messages.push(...got);
    return got;
  }

  /** The next `count` messages. */
  async take(count) {
    const got = [];
    await this.ctx.until(`${count} messages`, async () => {
      got.push(...await this.poll(count - got.length));
      return got.length === count;
    });
    return got;
  }

  get share() {
    return this.client.assignments().map(({ topic, partition }) => `${topic}:${partition}`);
  }

  /** Blocks, but raises what commit's callback keeps to itself. */
  commit(topic, offset, metadata) {
    this.client.commitSync([{ topic, partition: 0, offset, ...(metadata === undefined ? {} : { metadata }) }]);
  }

  async committed(topic) {
    return (await call(this.client, 'committed', [{ topic, partition: 0 }], NEVER))[0];
  }

  watermarks(topic) {
    return call(this.client, 'queryWatermarkOffsets', topic, 0, NEVER);
  }
}

/** All of a topic's messages by assignment, from the beginning. */
async function read(ctx, topic, count, partitions = 1, settings = {}) {
  const reader = await Reader.create(ctx, null, settings);
  reader.assign(topic, [...Array(partitions).keys()]);
  const messages = await reader.take(count);
  await reader.close();
  return messages;
}

const plain = (messages) => messages.map(({ key, value }) => ({ key, value }));

const offsets = (messages) => messages.map((message) => message.offset);

/** Poll until each reader has so many partitions, all of them apart. */
async function settle(ctx, readers, counts) {
  await ctx.until(`shares of ${counts}`, async () => {
    await Promise.all(readers.map((reader) => reader.poll()));
    const shares = readers.map((reader) => reader.share);
    const sizes = shares.map((share) => share.length).sort();
    return sizes.join() === [...counts].sort().join() && new Set(shares.flat()).size === counts.reduce((a, b) => a + b);
  });
}

function expect(error, ...names) {
  const codes = names.map((name) => ERRORS[`ERR_${name}`]);
  check(!codes.includes(undefined), `no such error: ${names}`);
  check(codes.includes(error.code), `expected ${names}, got ${error.code} ${error.message}`);
}

module.exports = {
  Reader, RdKafka, ask, call, create, describe, expect, offsets, plain, produce, producer, promised, read, send, settle, texts,
};
