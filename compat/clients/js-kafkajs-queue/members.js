// Queue topics: members that die, come and go under load, and live through a restart.

'use strict';
const { add, check, range, same, sleep } = require('../js-common/common.js');
const { admin } = require('../js-kafkajs/base.js');
const { Queue, places, valueOf, values } = require('./queue.js');

const KEYS = 40;

/** What members tell of their records: a key's are worked on in order; what was not committed may come again. */
class Ledger {
  constructor() {
    Object.assign(this, { next: new Map(), top: new Map(), done: 0, again: 0, lives: 0, wrong: '' });
  }

  take(member, record) {
    const key = record.key.toString();
    const number = Math.floor(valueOf(record) / KEYS);
    const due = this.next.get(key) ?? 0;
    if (number > due) this.wrong ||= `${member} got ${key} ${number} when ${due} was due (${places([record])})`;
    this.next.set(key, number + 1);
    if (number < (this.top.get(key) ?? 0)) this.again += 1;
    else {
      this.top.set(key, number + 1);
      this.done += 1;
    }
  }
}

add({
  async queue_poison(ctx) {
    const queue = await Queue.make(ctx, 1, { 'pulsar.max.redeliver.count': 2 });
    await queue.feed(0, 40, 10);
    const done = new Set();
    let deaths = 0;
    while (deaths < 3) {
      let dead = false;
      const member = await queue.join((record) => {
        if (valueOf(record) === 31) {
          dead = true;
          member.cut();
        } else done.add(valueOf(record));
      }, { sessionTimeout: 2000 });
      await ctx.until(`death ${deaths + 1}`, () => dead);
      deaths += 1;
    }
    const after = await queue.join((record) => { done.add(valueOf(record)); });
    await queue.letters([31]);
    await ctx.until('the rest', () => done.size >= 39);
    check(!done.has(31), 'the poison came a fourth time');
    await queue.nothingElse(after);
  },

  async queue_crash(ctx) {
    const queue = await Queue.make(ctx, 2, { 'pulsar.max.redeliver.count': 1, 'pulsar.nack.delay.ms': 0 });
    await queue.feed(0, 20, 5);
    const first = await queue.join(() => 'hold', { sessionTimeout: 2000 });
    await first.take(20);
    const had = new Set(places(first.messages));
    first.cut();
    // the nack is its second and last: the crash was the first
    const second = await queue.join((record) => (valueOf(record) === 3 ? 'n' : ''));
    await second.take(20);
    await queue.nothingElse(second);
    same(values(second.messages), [...range(0, 20), 1_000_000], 'records');
    check(places(second.messages).every((place) => !had.has(place)), 'an offset is one delivery');
    await queue.letters([3]);
  },

  async queue_rebalance(ctx) {
    const queue = await Queue.make(ctx, 8, { 'pulsar.subscription.type': 'key_shared' });
    const ledger = new Ledger();
    let over = false;
    const live = async (name, ms) => {
      let began = 0;
      const member = await queue.join((record) => {
        began ||= Date.now();
        ledger.take(name, record);
      });
      while (!over && ctx.left > 1 && (!began || Date.now() - began < ms)) await sleep(50);
      await member.leave();
      ledger.lives += 1;
    };
    const workers = [0, 1, 2].map(async (place) => {
      for (let life = 1; !over && ctx.left > 1; life += 1) {
        await live(`member ${place}.${life}`, place ? place * 700 : Infinity);
      }
    });
    let written = 0;
    const state = () => {
      if (ledger.wrong) throw new Error(ledger.wrong);
    };
    try {
      await ctx.until('six members to have come and gone', async () => {
        state();
        if (ledger.lives < 6 && written - ledger.done < KEYS * 10) {
          await queue.feed(written, written + KEYS * 10, KEYS);
          written += KEYS * 10;
        }
        return ledger.lives >= 6;
      });
      await ctx.until(`all of ${written} records`, () => {
        state();
        return ledger.done === written;
      });
    } finally {
      over = true;
    }
    await Promise.all(workers);
    state();
    ctx.detail = `${written} records, ${ledger.again} of them again`;
  },

  async queue_more_lanes(ctx) {
    const queue = await Queue.make(ctx, 2, { 'pulsar.subscription.type': 'key_shared' });
    const ledger = new Ledger();
    const members = [];
    for (const n of [0, 1]) members.push(await queue.join((record) => ledger.take(`member ${n}`, record)));
    const shares = (count) => () => {
      if (ledger.wrong) throw new Error(ledger.wrong);
      return members.every((member) => member.share === count);
    };
    await ctx.until('a lane for each', shares(1));
    await queue.feed(0, 400, KEYS);
    const begun = Date.now();
    await (await admin(ctx)).createPartitions({ topicPartitions: [{ topic: queue.name, count: 6 }] });
    await ctx.until('three lanes for each', shares(3));
    ctx.detail = `all members had their lanes ${((Date.now() - begun) / 1000).toFixed(1)} s later`;
    await queue.feed(400, 800, KEYS);
    await ctx.until('all records', () => shares(3)() && ledger.done === 800);
  },

  async restart_queue(ctx) {
    const queue = await Queue.make(ctx, 3, { 'pulsar.subscription.type': 'key_shared' });
    await queue.feed(0, 300, 20);
    const retry = { initialRetryTime: 100, maxRetryTime: 1000, retries: 50 };
    const member = await queue.join(() => '', { retry });
    await member.take(300);
    await ctx.until('all to be committed', async () => (await queue.settled()) === 300);
    await ctx.restart();
    await queue.feed(300, 400, 20);
    const seen = () => new Set(member.messages.map(valueOf));
    await ctx.until('the others', () => seen().size === 400);
    const again = member.messages.filter((one) => valueOf(one) < 300).length;
    same(again, 300, 'deliveries of those that were committed before');
  },
});
