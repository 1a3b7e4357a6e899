// What the cases of KafkaJS share: making clients, topics, records.

'use strict';
const { Kafka, CompressionCodecs, CompressionTypes, ConfigResourceTypes, Partitioners, logLevel } = require('kafkajs');
const { check } = require('../js-common/common.js');
const { kafkajs } = require('../js-common/security.js');

// KafkaJS brings gzip; the others come from packages, as its documentation says.
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy');
CompressionCodecs[CompressionTypes.LZ4] = new (require('kafkajs-lz4'))().codec;
CompressionCodecs[CompressionTypes.ZSTD] = require('@kafkajs/zstd')();

function kafka(ctx, settings = {}) {
  return new Kafka({
    brokers: [ctx.bootstrap],
    ...kafkajs(),
    clientId: 'compat-client',
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 50, maxRetryTime: 1000, retries: 8 },
    ...settings,
  });
}

async function admin(ctx) {
  if (!ctx.shared.admin) {
    const client = kafka(ctx).admin();
    ctx.closing(() => client.disconnect());
    await client.connect();
    ctx.shared.admin = client;
  }
  return ctx.shared.admin;
}

/** The metadata of a topic; Kafka answers CreateTopics before its brokers know of the topic, so ask until they do. */
async function describe(ctx, topic) {
  return ctx.until('the topic to be known', async () => {
    try {
      return (await (await admin(ctx)).fetchTopicMetadata({ topics: [topic] })).topics[0];
    } catch (error) {
      if (error.type !== 'UNKNOWN_TOPIC_OR_PARTITION') throw error;
      return null;
    }
  });
}

/** KafkaJS sends a whole request again when one of its partitions is not served yet: records would be there twice. */
async function served(ctx, topic) {
  try {
    return await (await admin(ctx)).fetchTopicOffsets(topic);
  } catch (error) {
    if (!error.retriable && error.name !== 'KafkaJSNumberOfRetriesExceeded') throw error;
    return null;
  }
}

const entries = (configs) => Object.entries(configs).map(([name, value]) => ({ name, value: String(value) }));

/** A new topic with these configs. */
async function create(ctx, numPartitions = 1, configs = {}) {
  const topic = ctx.name();
  const topics = [{ topic, numPartitions, replicationFactor: 1, configEntries: entries(configs) }];
  // Its own waiting for leaders gives up when the broker does not know the topic yet.
  check(await (await admin(ctx)).createTopics({ topics, waitForLeaders: false }), 'the topic was not created');
  await describe(ctx, topic);
  await ctx.until('its partitions to be served', () => served(ctx, topic));
  return topic;
}

async function producer(ctx, settings = {}) {
  const client = kafka(ctx).producer({ createPartitioner: Partitioners.DefaultPartitioner, ...settings });
  ctx.closing(() => client.disconnect());
  await client.connect();
  return client;
}

/** Send in one request for each partition; `settings` are the producer's, `how` is acks and compression. */
async function produce(ctx, topic, messages, how = {}, settings = {}) {
  const client = await producer(ctx, settings);
  const reports = await client.send({ topic, messages, ...how });
  await client.disconnect();
  return reports;
}

/** A consumer in a group that notes what it gets, its share of the partitions and how often it joined. */
class Reader {
  constructor(ctx, group, settings = {}) {
    this.ctx = ctx;
    this.messages = [];
    this.share = [];
    this.joins = 0;
    this.crash = null;
    this.waiting = null;
    this.client = kafka(ctx).consumer({
      groupId: group ?? ctx.name('g'),
      sessionTimeout: 10_000,
      heartbeatInterval: 300,
      maxWaitTimeInMs: 100,
      retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 25 },
      ...settings,
    });
    this.client.on('consumer.group_join', ({ payload }) => {
      this.joins += 1;
      this.share = Object.entries(payload.memberAssignment).flatMap(([topic, parts]) => parts.map((p) => `${topic}:${p}`));
    });
    this.client.on('consumer.crash', ({ payload }) => {
      if (!payload.restart) this.crash = payload.error; // else it starts again by itself
    });
    ctx.closing(() => this.client.disconnect());
  }

  /** Join and read; `run` are the settings of consumer.run, `handle` sees each message. */
  async start(topics, { fromBeginning = true, run = {}, handle = () => {} } = {}) {
    await this.client.connect();
    await this.client.subscribe({ topics: [topics].flat(), fromBeginning });
    await this.client.run({
      autoCommit: false,
      eachMessage: async ({ topic, partition, message }) => {
        this.messages.push({ topic, partition, ...message });
        await handle(message);
      },
      ...run,
    });
    return this;
  }

  /** Wait until it has so many messages; raises what made the consumer crash. */
  async take(count) {
    await this.ctx.until(`${count} messages`, () => {
      if (this.crash) throw this.crash;
      return this.messages.length >= count;
    });
    return this.messages.slice(0, count);
  }
}

/** All of a topic's messages: a group of its own, from the beginning. */
async function read(ctx, topic, count, settings = {}) {
  const reader = await new Reader(ctx, null, settings).start(topic);
  const messages = await reader.take(count);
  await reader.client.disconnect();
  return messages;
}

const plain = (messages) => messages.map(({ key, value }) => ({ key, value }));

const offsets = (messages) => messages.map((message) => Number(message.offset));

/** The configs of a topic (or of a broker) by name. */
async function config(ctx, name, type = ConfigResourceTypes.TOPIC) {
  const found = await (await admin(ctx)).describeConfigs({ resources: [{ type, name }], includeSynonyms: false });
  return Object.fromEntries(found.resources[0].configEntries.map((entry) => [entry.configName, entry]));
}

/** Wait until the readers have so many partitions each, all of them apart. */
async function settle(ctx, readers, counts) {
  await ctx.until(`shares of ${counts}`, () => {
    const shares = readers.map((reader) => reader.share.length).sort();
    const all = new Set(readers.flatMap((reader) => reader.share));
    return shares.join() === [...counts].sort().join() && all.size === counts.reduce((a, b) => a + b);
  });
}

/** The protocol error's type, also out of the errors that KafkaJS wraps. */
function typeOf(error) {
  const [inner] = error.errors ?? error.groups ?? error.partitions ?? [];
  if (error.type) return error.type;
  if (inner) return typeOf(inner.error ?? inner);
  return error.cause ? typeOf(error.cause) : error.message;
}

function expect(error, type) {
  check(typeOf(error) === type, `expected ${type}, got ${typeOf(error)}: ${error.message}`);
}

module.exports = {
  CompressionTypes, ConfigResourceTypes, Reader, admin, config, create, describe, entries, expect, kafka, offsets, plain, produce,
  producer, read, settle, typeOf,
};
