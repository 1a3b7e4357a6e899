// Install what package-lock.json pins: `node build.js NPM`. KafkaJS is JavaScript; two of its codecs are not.

'use strict';
const { ci, compile } = require('../js-common/install.js');

const npm = process.argv[2] ?? 'npm';
ci(__dirname, npm);
compile(__dirname, npm, ['cppzst', 'lz4']);
