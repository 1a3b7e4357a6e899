// Install what package-lock.json pins: `node build.js NPM`. KafkaJS is JavaScript; two of its codecs are not.

'use strict';
const { ci, compile, current, done, loads } = require('../js-common/install.js');

const SCRIPT = "require('./base.js')"; // loads every codec

const npm = process.argv[2] ?? 'npm';
if (!current(__dirname, SCRIPT)) {
  ci(__dirname, npm);
  compile(__dirname, npm, ['cppzst', 'lz4']);
  if (!loads(__dirname, SCRIPT)) process.exit(1);
  done(__dirname);
}
