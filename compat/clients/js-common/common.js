// What the JavaScript programs share: the command line, time limits, the JSON lines, sample records.
//
// A program registers its cases with `add` and calls `main`. ../cases.toml says what each case proves; ../README.md how
// a program behaves. A case is an async function that fails by throwing. Cases run on topics and groups of their own,
// so that they may run in any order and beside others.

'use strict';
const assert = require('node:assert');
const crypto = require('node:crypto');
const readline = require('node:readline');
const { parseArgs } = require('node:util');

const CASES = new Map();

/** Register cases: an object of async functions (ctx) by name. */
function add(cases) {
  for (const [name, body] of Object.entries(cases)) CASES.set(name, body);
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** What a case gets: the server's address, unique names, the time that is left. */
class Context {
  constructor(name, bootstrap, limit, arrive) {
    this.case = name;
    this.bootstrap = bootstrap;
    this.detail = '';
    this.refused = '';
    this.shared = {}; // clients that live as long as the case
    this.limit = limit;
    this.end = Date.now() + limit;
    this.arrive = arrive;
    this.cleanup = [];
  }

  /** A topic or group name that nobody else has. */
  name(label = 't') {
    return `compat.${this.case}.${label}.${crypto.randomUUID().slice(0, 10)}`;
  }

  /** Milliseconds left for this case, never below 1. */
  get left() {
    return Math.max(1, this.end - Date.now());
  }

  /** Ask until the (async) question has a true answer and give that; fails when the time is up. */
  async until(what, ask) {
    while (Date.now() < this.end) {
      const answer = await ask();
      if (answer) return answer;
      await sleep(10);
    }
    throw new Error(`gave up waiting for ${what}`);
  }

  /** Comes back after the server was restarted. */
  async restart() {
    this.end = Infinity;
    this.bootstrap = (await this.arrive()) || this.bootstrap;
    this.shared = {}; // what was connected before says nothing about the server after
    this.end = Date.now() + this.limit;
  }

  /** Call this when the case ends, whatever its outcome; the last one given comes first. */
  closing(close) {
    this.cleanup.unshift(close);
  }

  async clean() {
    for (const close of this.cleanup) {
      try {
        await Promise.race([close(), sleep(5000)]);
      } catch (error) {
        // The case has its verdict; a client that closes badly is worth a line, not a failure.
        console.error(`${this.case}: closing: ${error.message}`);
      }
    }
  }
}

const emit = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

function where(error) {
  const line = (error.stack ?? '').split('\n').slice(1)
    .find((frame) => !frame.includes('node_modules') && !frame.includes('common.js') && frame.includes('clients/'));
  const match = line?.match(/([\w.-]+\.js:\d+)/);
  return match ? ` (${match[1]})` : '';
}

/** Run one case to its verdict and print that; one past its time is left behind. */
async function run(ctx) {
  const started = Date.now();
  const outcome = { case: ctx.case };
  let over = false;
  const body = (async () => CASES.get(ctx.case)(ctx))();
  const watch = (async () => {
    while (!over && Date.now() < ctx.end + 10_000) await sleep(200);
    if (!over) throw new Error(`no end after ${ctx.limit / 1000 + 10} s`);
  })();
  try {
    await Promise.race([body, watch]);
    Object.assign(outcome, { ok: true, detail: ctx.detail });
    if (ctx.refused) outcome.refused = ctx.refused;
  } catch (thrown) {
    const error = thrown instanceof Error ? thrown : new Error(String(thrown));
    outcome.ok = false;
    outcome.detail = `${error.name}: ${error.message}${where(error)}`.slice(0, 1000);
  }
  over = true;
  outcome.ms = Date.now() - started;
  emit(outcome);
  await ctx.clean();
  return outcome.ok;
}

async function runPlain(names, options) {
  const waiting = [...names];
  let failed = 0;
  const worker = async () => {
    while (waiting.length) failed += !(await run(new Context(waiting.shift(), options.bootstrap, options.limit)));
  };
  await Promise.all(Array.from({ length: options.parallel }, worker));
  return failed;
}

/** All at once up to the restart, tell the harness, wait for its line, go on. */
async function runRestart(names, options) {
  if (!names.length) return 0;
  let release;
  const released = new Promise((resolve) => { release = resolve; });
  const contexts = [];
  const ready = names.map((name) => new Promise((resolve) => {
    const ctx = new Context(name, options.bootstrap, options.limit, () => {
      resolve();
      return released;
    });
    contexts.push(ctx);
    ctx.verdict = run(ctx).finally(resolve);
  }));
  await Promise.all(ready);
  emit({ waiting: 'restart' });
  const lines = readline.createInterface({ input: process.stdin });
  const line = await new Promise((resolve) => { lines.once('line', resolve).once('close', () => resolve('')); });
  lines.close();
  release(line.trim().split(/\s+/)[1]);
  return (await Promise.all(contexts.map((ctx) => ctx.verdict))).filter((ok) => !ok).length;
}

/** The command line of a program; ends the process. */
async function main(client, version) {
  const { values } = parseArgs({
    options: {
      bootstrap: { type: 'string' },
      case: { type: 'string', multiple: true, default: [] },
      limit: { type: 'string', default: '30' },
      list: { type: 'boolean', default: false },
      parallel: { type: 'string', default: '4' },
      'skip-restart': { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    console.log(`compatibility cases of ${client}: --bootstrap HOST:PORT [--case NAME ...] [--skip-restart] `
      + '[--limit SECONDS] [--parallel N], or --list. See ../README.md.');
    return;
  }
  if (values.list) {
    emit({ client, version, cases: [...CASES.keys()] });
    return;
  }
  if (!values.bootstrap) throw new Error('--bootstrap is needed');
  const unknown = values.case.filter((name) => !CASES.has(name));
  if (unknown.length) throw new Error(`no such case: ${unknown.join(', ')}`);
  const options = { bootstrap: values.bootstrap, limit: Number(values.limit) * 1000, parallel: Number(values.parallel) };
  const names = values.case.length ? values.case : [...CASES.keys()];
  const restarts = names.filter((name) => name.startsWith('restart_'));
  emit({ client, version });
  // What a client throws outside of our calls belongs to no case: say it, and let the cases judge.
  process.on('uncaughtException', (error) => console.error(`uncaught: ${error.stack}`));
  process.on('unhandledRejection', (error) => console.error(`unhandled: ${error?.stack ?? error}`));
  let failed = await runPlain(names.filter((name) => !restarts.includes(name)), options);
  if (!values['skip-restart']) failed += await runRestart(restarts, options);
  process.exitCode = failed ? 1 : 0;
  // Clients of timed-out cases may hang: do not wait for them, only for the lines.
  process.stdout.write('', () => process.exit());
}

/** Fail with `what` unless the condition holds. */
function check(condition, what) {
  if (!condition) throw new Error(what);
}

function short(value) {
  const text = JSON.stringify(value, (_, part) => (typeof part === 'bigint' ? `${part}` : part)) ?? 'undefined';
  return text.length <= 300 ? text : `${text.slice(0, 300)}… (${text.length} characters)`;
}

/** Fail unless both are deeply equal. */
function same(actual, expected, what) {
  try {
    assert.deepStrictEqual(actual, expected);
  } catch {
    throw new Error(`${what}: got ${short(actual)}, expected ${short(expected)}`);
  }
}

/** The error that an action throws; fails when it throws none. */
async function failure(action) {
  try {
    await action();
  } catch (error) {
    return error;
  }
  throw new Error('expected an error, got none');
}

const range = (from, to) => Array.from({ length: to - from }, (_, n) => from + n);

const sorted = (values) => [...values].sort((a, b) => a - b);

/** Records with distinct keys; half of a value is text (compresses), half noise (does not). */
function sample(count, size = 100) {
  return range(0, count).map((n) => {
    const value = Buffer.alloc(size, '.');
    crypto.randomFillSync(value, size >> 1);
    return { key: Buffer.from(`key-${n}`), value };
  });
}

/** The number in the key of a sample record. */
const numberOf = (message) => Number(message.key.toString().split('-')[1]);

const record = (key, value) => ({ key: key === null ? null : Buffer.from(key), value: value === null ? null : Buffer.from(value) });

/** Null and empty keys and values, which must stay apart. */
const TRICKY = [record('k', 'v'), record(null, 'no key'), record('no value', null), record(null, null), record('', '')];

module.exports = { TRICKY, add, check, failure, main, numberOf, range, record, same, sample, sleep, sorted };
