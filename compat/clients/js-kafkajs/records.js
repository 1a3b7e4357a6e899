// KafkaJS: producing and consuming.

'use strict';
const { TRICKY, add, check, failure, numberOf, range, same, sample, sorted } = require('../js-common/common.js');
const { CompressionTypes, Reader, admin, create, offsets, plain, produce, producer, read } = require('./base.js');

const CODECS = { none: 'None', gzip: 'GZIP', snappy: 'Snappy', lz4: 'LZ4', zstd: 'ZSTD' };

for (const [codec, name] of Object.entries(CODECS)) {
  add({
    [`produce_${codec}`]: async (ctx) => {
      const topic = await create(ctx);
      const records = sample(500);
      await produce(ctx, topic, records, { compression: CompressionTypes[name], acks: -1 });
      same(plain(await read(ctx, topic, 500)), records, 'records');
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
    const headers = {
      trace: Buffer.from([0, 255]), twice: [Buffer.from('1'), Buffer.from('2')], empty: Buffer.alloc(0), käse: Buffer.from('ü'),
    };
    await produce(ctx, topic, [{ key: 'k', value: 'v', headers }, { key: 'k', value: 'none' }]);
    const got = await read(ctx, topic, 2);
    same(got[0].headers, headers, 'headers');
    same(got[1].headers, {}, 'no headers');
    // Should a later version learn it, this says so.
    const no = await failure(() => produce(ctx, topic, [{ value: 'v', headers: { null: null } }]));
    check(no instanceof TypeError, `null header: ${no}`);
    ctx.detail = 'all but the null header value: KafkaJS cannot write it';
  },

  async null_key_and_value(ctx) {
    const topic = await create(ctx);
    await produce(ctx, topic, TRICKY);
    same(plain(await read(ctx, topic, TRICKY.length)), TRICKY, 'records');
  },

  async idempotent_producer(ctx) {
    const topic = await create(ctx, 3);
    const records = sample(3000);
    const client = await producer(ctx, { idempotent: true });
    // KafkaJS asks for one request in flight to keep the order; so we wait for each.
    for (let n = 0; n < 3000; n += 60) await client.send({ topic, messages: records.slice(n, n + 60) });
    const got = await read(ctx, topic, 3000);
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
    const times = range(0, 5).map((n) => String(start + n * 1000));
    await produce(ctx, topic, times.map((timestamp) => ({ value: 'x', timestamp })));
    same((await read(ctx, topic, 5)).map((message) => message.timestamp), times, 'timestamps');
  },

  async log_append_time(ctx) {
    const topic = await create(ctx, 1, { 'message.timestamp.type': 'LogAppendTime' });
    const before = Date.now() - 1000;
    const [report] = await produce(ctx, topic, [{ value: 'x', timestamp: '1000000000000' }]);
    const [message] = await read(ctx, topic, 1);
    const stamp = Number(message.timestamp);
    check(before <= stamp && stamp <= Date.now() + 1000, `timestamp ${stamp} is not the broker's`);
    same(report.logAppendTime, message.timestamp, 'timestamp in the produce response');
  },

  async auto_create_topic(ctx) {
    const topic = ctx.name();
    await produce(ctx, topic, sample(10));
    same((await read(ctx, topic, 10)).length, 10, 'records');
  },

  async many_partitions(ctx) {
    const topic = await create(ctx, 60);
    await produce(ctx, topic, range(0, 1200).map((n) => ({ value: String(n), partition: n % 60 })));
    const got = (await read(ctx, topic, 1200)).map((message) => `${message.partition}:${message.value}`);
    same([...got].sort(), range(0, 1200).map((n) => `${n % 60}:${n}`).sort(), 'records');
  },

  async large_message(ctx) {
    const topic = await create(ctx);
    const big = sample(1, 1_000_000);
    await produce(ctx, topic, big);
    same(plain(await read(ctx, topic, 1)), big, '1 MB message');
    const bigger = await create(ctx, 1, { 'max.message.bytes': 4_000_000 });
    const huge = sample(1, 3_000_000);
    await produce(ctx, bigger, huge);
    same(plain(await read(ctx, bigger, 1)), huge, '3 MB message');
  },

  async batch_larger_than_fetch(ctx) {
    const topic = await create(ctx);
    const records = sample(200, 1000);
    await produce(ctx, topic, records);
    same(plain(await read(ctx, topic, 200, { maxBytesPerPartition: 1000, maxBytes: 1000 })), records, 'records');
  },

  async many_batches(ctx) {
    const topic = await create(ctx);
    const records = sample(20_000);
    const client = await producer(ctx, { maxInFlightRequests: 1 });
    for (let n = 0; n < 20_000; n += 100) await client.send({ topic, messages: records.slice(n, n + 100) });
    const got = await read(ctx, topic, 20_000);
    same(offsets(got), range(0, 20_000), 'offsets');
    same(got.map(numberOf), range(0, 20_000), 'keys');
  },

  async compacted_topic(ctx) {
    const topic = await create(ctx, 1, { 'cleanup.policy': 'compact' });
    await produce(ctx, topic, [{ key: 'a', value: '1' }, { key: 'b', value: '2' }, { key: 'a', value: null }]);
    same(plain(await read(ctx, topic, 3))[2], { key: Buffer.from('a'), value: null }, 'tombstone');
  },

  async topic_compression(ctx) {
    for (const codec of ['gzip', 'uncompressed', 'zstd', 'snappy']) {
      const topic = await create(ctx, 1, { 'compression.type': codec });
      const records = sample(100);
      await produce(ctx, topic, records, { compression: CompressionTypes.LZ4 });
      same(plain(await read(ctx, topic, 100)), records, `records stored as ${codec}`);
    }
  },

  async consume_by_group(ctx) {
    const topic = await create(ctx, 3);
    const records = sample(300);
    await produce(ctx, topic, records);
    const got = await read(ctx, topic, 300);
    same(sorted(got.map(numberOf)), range(0, 300), 'records');
    for (const message of got) same(message.value, records[numberOf(message)].value, 'value');
  },

  async subscribe_pattern(ctx) {
    const prefix = ctx.name();
    const pattern = new RegExp(`^${prefix.replaceAll('.', '\\.')}\\.`);
    const group = ctx.name('g');
    for (const suffix of ['one', 'two']) await produce(ctx, `${prefix}.${suffix}`, sample(10));
    const first = await new Reader(ctx, group).start(pattern);
    same(new Set((await first.take(20)).map((m) => m.topic)), new Set([`${prefix}.one`, `${prefix}.two`]), 'topics');
    await first.client.disconnect();
    await produce(ctx, `${prefix}.three`, sample(10));
    const second = await new Reader(ctx, group).start(pattern);
    same(new Set((await second.take(30)).map((m) => m.topic)).size, 3, 'topics with the later one');
    ctx.detail = 'KafkaJS looks a pattern up once: the later topic joined with the next subscription';
  },

  async seek_into_batch(ctx) {
    const topic = await create(ctx);
    await produce(ctx, topic, sample(100), { compression: CompressionTypes.LZ4 });
    const reader = await new Reader(ctx).start(topic);
    await reader.take(100);
    for (const [from, count] of [[57, 43], [33, 67]]) {
      reader.messages = [];
      reader.client.seek({ topic, partition: 0, offset: String(from) });
      same(offsets(await reader.take(count)), range(from, 100), `offsets after seek to ${from}`);
    }
  },

  async seek_by_time(ctx) {
    const topic = await create(ctx);
    const start = Date.now() - 600_000;
    await produce(ctx, topic, range(0, 100).map((n) => ({ value: String(n), timestamp: String(start + n * 1000) })));
    const at = async (time) => (await (await admin(ctx)).fetchTopicOffsetsByTimestamp(topic, time))[0].offset;
    same(await at(start + 39_500), '40', 'offset for a time between records');
    same(await at(start + 1_000_000), '100', 'a time after all records (KafkaJS gives the end)');
    const reader = await new Reader(ctx).start(topic);
    await reader.take(100);
    reader.messages = [];
    reader.client.seek({ topic, partition: 0, offset: '40' });
    same((await reader.take(1))[0].value.toString(), '40', 'value at the offset');
  },

  async beginning_and_end_offsets(ctx) {
    const topic = await create(ctx);
    const ask = async () => (await (await admin(ctx)).fetchTopicOffsets(topic))[0];
    same(await ask(), { partition: 0, offset: '0', high: '0', low: '0' }, 'empty');
    await produce(ctx, topic, sample(25));
    same(await ask(), { partition: 0, offset: '25', high: '25', low: '0' }, 'written');
  },

  async empty_poll(ctx) {
    const topic = await create(ctx);
    const reader = new Reader(ctx);
    let fetches = 0;
    reader.client.on('consumer.fetch', () => { fetches += 1; });
    await reader.start(topic);
    await ctx.until('some empty fetches', () => fetches >= 3);
    same(reader.messages.length, 0, 'messages of an empty topic');
    await produce(ctx, topic, sample(1));
    await reader.take(1);
  },

  async reset_latest(ctx) {
    const topic = await create(ctx);
    await produce(ctx, topic, sample(10));
    const reader = await new Reader(ctx).start(topic, { fromBeginning: false });
    await ctx.until('a new record', async () => { // it may look up the end after we wrote: write again
      await produce(ctx, topic, [{ key: 'new', value: 'new' }]);
      return reader.messages.length;
    });
    same(reader.messages[0].key.toString(), 'new', 'first record');
  },

  async read_committed(ctx) {
    const topic = await create(ctx);
    await produce(ctx, topic, sample(100), {}, { idempotent: true });
    for (const readUncommitted of [false, true]) {
      same((await read(ctx, topic, 100, { readUncommitted })).length, 100, 'records');
    }
  },

  async pause_and_resume(ctx) {
    const topic = await create(ctx, 2);
    const reader = await new Reader(ctx).start(topic);
    reader.client.pause([{ topic, partitions: [0] }]);
    for (const partition of [0, 1]) await produce(ctx, topic, sample(20).map((r) => ({ ...r, partition })));
    const first = await reader.take(20);
    same(new Set(first.map((message) => message.partition)), new Set([1]), 'partitions while paused');
    reader.messages = [];
    reader.client.resume([{ topic, partitions: [0] }]);
    same(new Set((await reader.take(20)).map((message) => message.partition)), new Set([0]), 'partitions after resume');
  },
});
