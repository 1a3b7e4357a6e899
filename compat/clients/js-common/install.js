// What the build scripts of the JavaScript programs share: npm ci, and compiling the native parts of packages.

'use strict';
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

/** Run a command in a folder; its output goes to ours. */
function run(folder, command, args, env = {}) {
  console.log(`+ ${command} ${args.join(' ')}`);
  const done = spawnSync(command, args, { cwd: folder, env: { ...process.env, ...env }, stdio: ['ignore', 'inherit', 'inherit'] });
  if (done.error) console.log(String(done.error));
  return done.status === 0;
}

/** As `run`, but the end of the program with a sentence when it fails. */
function must(what, folder, command, args, env = {}) {
  if (run(folder, command, args, env)) return;
  console.log(`${what} failed`);
  process.exit(1);
}

/** What package-lock.json pins, without any script of the packages. */
function ci(folder, npm) {
  must('npm ci', folder, npm, ['ci', '--ignore-scripts', '--no-audit', '--no-fund']);
}

/** node-gyp downloads Node's headers unless it is told of those that are installed. */
function headers() {
  const prefix = path.dirname(path.dirname(process.execPath));
  return fs.existsSync(path.join(prefix, 'include', 'node', 'node.h')) ? { npm_config_nodedir: prefix } : {};
}

/** Compile the native parts of these packages. cppzst asks for C++11, and Node's headers for C++17 or newer: the last wins. */
function compile(folder, npm, packages) {
  const env = { ...headers(), CXXFLAGS: `${process.env.CXXFLAGS ?? ''} -std=gnu++20` };
  must(`compiling ${packages.join(', ')}`, folder, npm, ['rebuild', '--foreground-scripts', ...packages], env);
}

module.exports = { ci, compile, headers, must, run };
