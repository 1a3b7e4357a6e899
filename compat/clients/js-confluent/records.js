// @confluentinc/kafka-javascript: producing and consuming.

'use strict';
const { TRICKY, add, check, failure, numberOf, range, same, sample, sorted } = require('../js-common/common.js');
const { Reader, call, create, expect, offsets, plain, produce, producer, promised, read, send } = require('./base.js');

/** Read `count` messages with the consumer of the KafkaJS interface. */
async function readPromised(ctx, topic, count) {
  const client = promised(ctx).consumer({ kafkaJS: { groupId: ctx.name('g'), fromBeginning: true, autoCommit: false } });
  ctx.closing(() => client.disconnect());
  await client.connect();
  await client.subscribe({ topic });
  const messages = [];
  await client.run({ eachMessage: async ({ partition, message }) => { messages.push({ partition, ...message }); } });
  await ctx.until(`${count} messages`, () => messages.length >= count);
  await client.disconnect();
  return messages;
}

for (const compression of ['none', 'gzip', 'snappy', 'lz4', 'zstd']) {
  add({
    [`produce_${compression}`]: async (ctx) => {
      const topic = await create(ctx);
      const records = sample(500);
      const client = promised(ctx).producer({ kafkaJS: { compression, acks: -1 }, 'linger.ms': 50 });
      ctx.closing(() => client.disconnect());
      await client.connect();
      await client.send({ topic, messages: records.map((record) => ({ ...record })) }); // it writes into them
      same(plain(await readPromised(ctx, topic, 500)), records, 'records');
    },
  });
}

add({
  async acks(ctx) {
    const topic = await create(ctx);
    for (const acks of [0, 1]) await produce(ctx, topic, sample(50), { acks });
    same((await read(ctx, topic, 100)).length, 100, 'records');
  },

  async headers(ctx) {
    const topic = await create(ctx);
    const headers = [
      { trace: Buffer.from([0, 255]) }, { twice: Buffer.from('1') }, { twice: Buffer.from('2') }, { empty: Buffer.alloc(0) },
      { käse: Buffer.from('ü') },
    ];
    await produce(ctx, topic, [{ key: 'k', value: Buffer.from('v'), headers }, { key: 'k', value: Buffer.from('none') }]);
    const got = await read(ctx, topic, 2);
    same(got[0].headers, headers, 'headers');
    same(got[1].headers ?? [], [], 'no headers');
    // Should a later version learn it, this says so.
    const client = await producer(ctx);
    const no = await failure(() => send(client, topic, { value: Buffer.from('v'), headers: [{ null: null }] }));
    check(/must be a string or buffer/.test(no.message), `null header: ${no.message}`);
    ctx.detail = 'all but the null header value: the client cannot write it';
  },

  async null_key_and_value(ctx) {
    const topic = await create(ctx);
    const sent = [...TRICKY.slice(0, 4), { key: '', value: Buffer.from('empty key') }];
    await produce(ctx, topic, sent);
    same(plain(await read(ctx, topic, 5)), [...TRICKY.slice(0, 4), { key: Buffer.alloc(0), value: Buffer.from('empty key') }], 'records');
    ctx.detail = 'all but the empty value: the client writes an empty Buffer as null';
  },

  async idempotent_producer(ctx) {
    const topic = await create(ctx, 3);
    await produce(ctx, topic, sample(3000), { 'enable.idempotence': true, 'batch.num.messages': 20, 'linger.ms': 0 });
    const got = await read(ctx, topic, 3000, 3);
    for (const p of range(0, 3)) {
      const mine = got.filter((message) => message.partition === p);
      same(offsets(mine), range(0, mine.length), 'offsets');
      same(mine.map(numberOf), sorted(new Set(mine.map(numberOf))), `order in partition ${p}`);
    }
    same(sorted(got.map(numberOf)), range(0, 3000), 'records');
  },

  async timestamps(ctx) {
    const topic = await create(ctx);
    const start = Date.now() - 60_000;
    const times = range(0, 5).map((n) => start + n * 1000);
    await produce(ctx, topic, times.map((timestamp) => ({ value: Buffer.from('x'), timestamp })));
    same((await read(ctx, topic, 5)).map((message) => message.timestamp), times, 'timestamps');
  },

  async log_append_time(ctx) {
    const topic = await create(ctx, 1, { 'message.timestamp.type': 'LogAppendTime' });
    const before = Date.now() - 1000;
    await produce(ctx, topic, [{ value: Buffer.from('x'), timestamp: 1_000_000_000_000 }]);
    const [{ timestamp }] = await read(ctx, topic, 1);
    check(before <= timestamp && timestamp <= Date.now() + 1000, `timestamp ${timestamp} is not the broker's`);
  },

  async auto_create_topic(ctx) {
    const topic = ctx.name();
    await produce(ctx, topic, sample(10));
    same((await read(ctx, topic, 10)).length, 10, 'records');
  },

  async many_partitions(ctx) {
    const topic = await create(ctx, 60);
    await produce(ctx, topic, range(0, 1200).map((n) => ({ value: Buffer.from(String(n)), partition: n % 60 })));
    const got = (await read(ctx, topic, 1200, 60)).map((message) => `${message.partition}:${message.value}`);
    same(got.sort(), range(0, 1200).map((n) => `${n % 60}:${n}`).sort(), 'records');
  },

  async large_message(ctx) {
    const topic = await create(ctx);
    const big = sample(1, 1_000_000);
    await produce(ctx, topic, big, { 'message.max.bytes': 1_048_000 }); // its own default leaves no room for overhead
    same(plain(await read(ctx, topic, 1)), big, '1 MB message');
    const bigger = await create(ctx, 1, { 'max.message.bytes': 4_000_000 });
    const huge = sample(1, 3_000_000);
    await produce(ctx, bigger, huge, { 'message.max.bytes': 4_000_000 });
    same(plain(await read(ctx, bigger, 1)), huge, '3 MB message');
  },

  async batch_larger_than_fetch(ctx) {
    const topic = await create(ctx);
    const records = sample(200, 1000);
    await produce(ctx, topic, records, { 'linger.ms': 200 });
    const small = { 'fetch.message.max.bytes': 1000, 'fetch.max.bytes': 1000, 'message.max.bytes': 1000 };
    same(plain(await read(ctx, topic, 200, 1, small)), records, 'records');
  },

  async many_batches(ctx) {
    const topic = await create(ctx);
    await produce(ctx, topic, sample(20_000), { 'batch.num.messages': 100 });
    const got = await read(ctx, topic, 20_000);
    same(offsets(got), range(0, 20_000), 'offsets');
    same(got.map(numberOf), range(0, 20_000), 'keys');
  },

  async compacted_topic(ctx) {
    const topic = await create(ctx, 1, { 'cleanup.policy': 'compact' });
    await produce(ctx, topic, [
      { key: 'a', value: Buffer.from('1') }, { key: 'b', value: Buffer.from('2') }, { key: 'a', value: null },
    ]);
    same(plain(await read(ctx, topic, 3))[2], { key: Buffer.from('a'), value: null }, 'tombstone');
  },

  async topic_compression(ctx) {
    for (const codec of ['gzip', 'uncompressed', 'zstd', 'snappy']) {
      const topic = await create(ctx, 1, { 'compression.type': codec });
      const records = sample(100);
      await produce(ctx, topic, records, { 'compression.type': 'lz4', 'linger.ms': 50 });
      same(plain(await read(ctx, topic, 100)), records, `records stored as ${codec}`);
    }
  },

  async consume_by_assignment(ctx) {
    const topic = await create(ctx, 3);
    await produce(ctx, topic, range(0, 60).map((n) => ({ value: Buffer.from('x'), partition: n % 3 })));
    const reader = await Reader.create(ctx);
    reader.assign(topic, [0, 2]);
    same(new Set((await reader.take(40)).map((message) => message.partition)), new Set([0, 2]), 'partitions');
  },

  async consume_by_group(ctx) {
    const topic = await create(ctx, 3);
    const records = sample(300);
    await produce(ctx, topic, records);
    const got = await readPromised(ctx, topic, 300);
    same(sorted(got.map(numberOf)), range(0, 300), 'records');
    for (const message of got) same(message.value, records[numberOf(message)].value, 'value');
  },

  async subscribe_pattern(ctx) {
    const prefix = ctx.name();
    for (const suffix of ['one', 'two']) await produce(ctx, `${prefix}.${suffix}`, sample(10));
    const reader = await Reader.create(ctx, null, { 'topic.metadata.refresh.interval.ms': 500 });
    reader.client.subscribe([new RegExp(`^${prefix.replaceAll('.', '\\.')}\\.`)]);
    const seen = async () => {
      await reader.poll();
      return new Set(reader.messages.map((message) => message.topic));
    };
    await ctx.until('both topics', async () => (await seen()).size === 2);
    await produce(ctx, `${prefix}.three`, sample(10));
    await ctx.until('the later topic', async () => (await seen()).has(`${prefix}.three`));
  },

  async seek_into_batch(ctx) {
    const topic = await create(ctx);
    await produce(ctx, topic, sample(100), { 'linger.ms': 200, 'compression.type': 'lz4' });
    const reader = await Reader.create(ctx);
    reader.assign(topic, [0], 57);
    same(offsets(await reader.take(43)), range(57, 100), 'offsets after assign');
    await call(reader.client, 'seek', { topic, partition: 0, offset: 33 }, 5000);
    same(offsets(await reader.take(1)), [33], 'offset after seek');
  },

  async seek_by_time(ctx) {
    const topic = await create(ctx);
    const start = Date.now() - 600_000;
    await produce(ctx, topic, range(0, 100).map((n) => ({ value: Buffer.from(String(n)), timestamp: start + n * 1000 })), {
      'linger.ms': 100,
    });
    const reader = await Reader.create(ctx);
    const at = async (time) => (await call(reader.client, 'offsetsForTimes', [{ topic, partition: 0, offset: time }], 10_000))[0].offset;
    same(await at(start + 39_500), 40, 'offset for a time between records');
    same(await at(start + 1_000_000), -1, 'offset for a time after all records');
    reader.assign(topic, [0], 40);
    same((await reader.take(1))[0].value.toString(), '40', 'value at the offset');
  },

  async beginning_and_end_offsets(ctx) {
    const topic = await create(ctx);
    const reader = await Reader.create(ctx);
    same(await reader.watermarks(topic), { lowOffset: 0, highOffset: 0 }, 'empty');
    await produce(ctx, topic, sample(25));
    same(await reader.watermarks(topic), { lowOffset: 0, highOffset: 25 }, 'written');
  },

  async empty_poll(ctx) {
    const topic = await create(ctx);
    const reader = await Reader.create(ctx, null, { 'enable.partition.eof': true });
    let end = false;
    reader.client.on('partition.eof', () => { end = true; });
    reader.assign(topic, [0]);
    await ctx.until('the end of the partition', async () => {
      same((await reader.poll()).length, 0, 'messages of an empty topic');
      return end;
    });
    await produce(ctx, topic, sample(1));
    await reader.take(1);
  },

  async reset_latest(ctx) {
    const topic = await create(ctx);
    await produce(ctx, topic, sample(10));
    const reader = await Reader.create(ctx, null, { 'auto.offset.reset': 'latest' });
    reader.client.subscribe([topic]);
    await ctx.until('a new record', async () => { // it may look up the end after we wrote: write again
      await produce(ctx, topic, [{ key: 'new', value: Buffer.from('new') }]);
      return (await reader.poll()).length;
    });
    same(reader.messages[0].key.toString(), 'new', 'first record');
  },

  async read_committed(ctx) {
    const topic = await create(ctx);
    await produce(ctx, topic, sample(100), { 'enable.idempotence': true });
    for (const level of ['read_committed', 'read_uncommitted']) {
      same((await read(ctx, topic, 100, 1, { 'isolation.level': level })).length, 100, 'records');
    }
  },

  async pause_and_resume(ctx) {
    const topic = await create(ctx, 2);
    await produce(ctx, topic, range(0, 40).map((n) => ({ value: Buffer.from('x'), partition: n % 2 })));
    const reader = await Reader.create(ctx);
    reader.assign(topic, [0, 1]);
    reader.client.pause([{ topic, partition: 0 }]);
    same(new Set((await reader.take(20)).map((message) => message.partition)), new Set([1]), 'partitions while paused');
    reader.client.resume([{ topic, partition: 0 }]);
    same(new Set((await reader.take(20)).map((message) => message.partition)), new Set([0]), 'partitions after resume');
  },

  async error_offset_out_of_range(ctx) {
    const topic = await create(ctx);
    await produce(ctx, topic, sample(10));
    const reader = await Reader.create(ctx, null, { 'auto.offset.reset': 'error' });
    reader.assign(topic, [0], 1000);
    expect(await failure(() => reader.take(1)), '_AUTO_OFFSET_RESET');
  },
});
