// What the build scripts of the JavaScript programs share: npm ci, and compiling the native parts of packages.

'use strict';
const { spawnSync } = require('node:child_process');
const crypto = require('node:crypto');
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

/** The file that says what node_modules was made from, and what it should say now. */
function stamp(folder) {
  const digest = crypto.createHash('sha256').update(process.version);
  for (const file of [path.join(folder, 'package-lock.json'), path.join(folder, 'build.js'), __filename]) {
    digest.update(fs.readFileSync(file));
  }
  return [path.join(folder, 'node_modules', '.built-from'), digest.digest('hex')];
}

/** Does this JavaScript run in the folder? */
const loads = (folder, script) => run(folder, process.execPath, ['-e', script]);

/** True when nothing has to be installed: a case was changed, no package, and what was compiled still loads. */
function current(folder, script) {
  const [file, wanted] = stamp(folder);
  return fs.existsSync(file) && fs.readFileSync(file, 'utf8') === wanted && loads(folder, script);
}

/** Note that all is installed. */
function done(folder) {
  fs.writeFileSync(...stamp(folder));
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

module.exports = { ci, compile, current, done, headers, loads, must, run };
