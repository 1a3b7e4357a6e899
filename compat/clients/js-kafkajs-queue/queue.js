// A topic of two partitions with a subscription that lanes serve, and members of its group.

'use strict';
const net = require('node:net');
const tls = require('node:tls');
const { check, range, same, sorted } = require('../js-common/common.js');
const { admin, create, describe, entries, kafka, produce, read, typeOf } = require('../js-kafkajs/base.js');

/** The number that a record of `feed` has. */
const valueOf = (message) => Number(message.value.toString());

const values = (messages) => sorted(messages.map(valueOf));

const places = (messages) => messages.map((one) => `${one.partition}:${one.offset}`);

class Queue {
  /** `configs` are the subscription's. */
  static async make(ctx, lanes, configs = {}) {
    const queue = new Queue();
    queue.ctx = ctx;
    queue.topic = await create(ctx, 2);
    queue.group = ctx.name('g');
    queue.name = `${queue.topic}-${queue.group}-QUEUE`;
    queue.lanes = lanes;
    const topics = [{ topic: queue.name, numPartitions: lanes, replicationFactor: 1, configEntries: entries(configs) }];
    check(await (await admin(ctx)).createTopics({ topics, waitForLeaders: false }), 'the queue topic was not created');
    same((await describe(ctx, queue.name)).partitions.length, lanes, 'lanes');
    return queue;
  }

  /** Records with the values from, … to - 1, dealt to so many keys. */
  async feed(from, to, keys) {
    const messages = range(from, to).map((n) => ({ key: `key-${n % keys}`, value: String(n), partition: (n % keys) % 2 }));
    await produce(this.ctx, this.topic, messages);
  }

  async join(handle, settings = {}) {
    const member = new Member(this, handle, settings);
    await member.start();
    return member;
  }

  /** Offset and metadata by lane, of the lanes that have a commit. */
  async committed() {
    const [found] = await (await admin(this.ctx)).fetchOffsets({ groupId: this.group, topics: [this.name] });
    return Object.fromEntries(found.partitions.filter((p) => p.offset !== '-1').map((p) => [p.partition, p]));
  }

  /** How many deliveries are settled, when each lane began at 0. */
  async settled() {
    return Object.values(await this.committed()).reduce((sum, { offset }) => sum + Number(offset), 0);
  }

  /** Nothing comes to this member, though what is produced for others does. */
  async nothingElse(member) {
    const mark = 1_000_000;
    const before = member.messages.length;
    await this.feed(mark, mark + 1, 1);
    await this.ctx.until('the record behind all', () => member.messages.length > before);
    same(values(member.messages.slice(before)), [mark], 'records where there are none');
  }

  /** The dead letters: these values, and no others. */
  async letters(expected) {
    const dead = `${this.topic}-${this.group}-DLQ`;
    await this.ctx.until('the dead letter topic', async () => (await (await admin(this.ctx)).listTopics()).includes(dead));
    const found = await read(this.ctx, dead, expected.length);
    same(values(found), expected, 'dead letters');
    const ends = await (await admin(this.ctx)).fetchTopicOffsets(dead);
    same(ends.reduce((sum, { high }) => sum + Number(high), 0), expected.length, 'dead letters in all');
  }
}

/**
 * A member that gives each message to `handle`. What that gives back is said of the message: "" for nothing, "n:500" for a
 * nack; "hold" commits nothing of the batch. It commits behind each batch.
 */
class Member {
  constructor(queue, handle, { group, ...settings }) {
    this.queue = queue;
    this.handle = handle;
    this.messages = [];
    this.errors = [];
    this.sockets = [];
    this.cutOff = false;
    const socketFactory = ({ host, port, ssl, onConnect }) => {
      const socket = ssl ? tls.connect({ host, port, ...ssl }, onConnect) : net.connect({ host, port }, onConnect);
      if (this.cutOff) socket.destroy();
      this.sockets.push(socket);
      return socket;
    };
    this.client = kafka(queue.ctx, { socketFactory }).consumer({
      groupId: group ?? queue.group, sessionTimeout: 10_000, heartbeatInterval: 300, maxWaitTimeInMs: 100,
      retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 25 }, ...settings,
    });
    this.share = 0;
    this.client.on('consumer.group_join', ({ payload }) => {
      this.share = (payload.memberAssignment[queue.name] ?? []).length;
    });
    queue.ctx.closing(() => this.leave());
  }

  async start() {
    await this.client.connect();
    await this.client.subscribe({ topics: [this.queue.name], fromBeginning: true });
    await this.client.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch: (each) => this.work(each) });
  }

  async work({ batch, resolveOffset, isRunning, isStale }) {
    let names = '';
    let last = null;
    let holds = false;
    for (const message of batch.messages) {
      if (!isRunning() || isStale() || this.cutOff) break;
      const record = { ...message, partition: batch.partition };
      this.messages.push(record);
      const said = (await this.handle(record)) ?? '';
      if (said === 'hold') holds = true;
      else if (said) names += `;${said}=${message.offset}`;
      resolveOffset(message.offset);
      last = message;
    }
    if (last === null || holds || this.cutOff) return;
    const offset = String(Number(last.offset) + 1);
    const one = { topic: batch.topic, partition: batch.partition, offset, metadata: names && `ack1${names}` };
    try {
      await this.client.commitOffsets([one]);
    } catch (error) {
      this.errors.push(typeOf(error));
      if (!['REBALANCE_IN_PROGRESS', 'ILLEGAL_GENERATION', 'UNKNOWN_MEMBER_ID'].includes(typeOf(error))) throw error;
    }
  }

  async take(count) {
    await this.queue.ctx.until(`${count} records (${this.messages.length})`, () => this.messages.length >= count);
    return this.messages;
  }

  /** Dead to the server from now on. */
  cut() {
    this.cutOff = true;
    for (const socket of this.sockets) socket.destroy();
  }

  async leave() {
    if (!this.left) {
      this.left = true;
      await this.client.disconnect();
    }
  }
}

module.exports = { Member, Queue, places, valueOf, values };
