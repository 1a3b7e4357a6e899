// Install @confluentinc/kafka-javascript as package-lock.json pins it: `node build.js NPM FOLDER`.
//
// Its own install fetches a binary from its releases on GitHub. Where those cannot be reached, or the binary does not
// load, we compile, into FOLDER, the librdkafka whose source the package brings, and the binding. What librdkafka's
// own build would download comes from elsewhere: zlib and OpenSSL are the system's, and zstd is compiled from the
// source inside the npm package cppzst.

'use strict';
const fs = require('node:fs');
const path = require('node:path');
const { ci, current, done, headers, loads, must, run } = require('../js-common/install.js');

const [npm = 'npm', folder = path.join(__dirname, 'node_modules', '.librdkafka')] = process.argv.slice(2);
const modules = path.join(__dirname, 'node_modules');
const client = path.join(modules, '@confluentinc', 'kafka-javascript');
const librdkafka = path.join(client, 'deps', 'librdkafka');
const nodePreGyp = path.join(modules, '.bin', 'node-pre-gyp');
const jobs = '2';

/** libzstd.a and its headers, in a folder of ours. */
function compileZstd() {
  const source = path.join(modules, 'cppzst', 'deps', 'zstd', 'lib');
  const target = path.join(folder, 'zstd');
  fs.mkdirSync(target, { recursive: true });
  for (const header of ['zstd.h', path.join('common', 'zstd_errors.h')]) {
    fs.copyFileSync(path.join(source, header), path.join(target, path.basename(header)));
  }
  const sources = ['common', 'compress', 'decompress'].flatMap((part) => fs.readdirSync(path.join(source, part))
    .filter((file) => file.endsWith('.c')).map((file) => path.join(source, part, file)));
  const flags = ['-O2', '-fPIC', '-w', `-I${source}`, `-I${path.join(source, 'common')}`];
  must('compiling zstd', target, 'cc', [...flags, '-c', ...sources]);
  must('archiving zstd', target, 'ar', ['rcs', 'libzstd.a', ...sources.map((file) => `${path.basename(file, '.c')}.o`)]);
  return target;
}

/** librdkafka.so with what it needs beside, and its headers. */
function compileLibrdkafka() {
  const zstd = compileZstd();
  const prefix = path.join(folder, 'librdkafka');
  const include = path.join(prefix, 'include', 'librdkafka');
  const lib = path.join(prefix, 'lib');
  const options = [`--prefix=${prefix}`, '--disable-gssapi', '--disable-curl', '--enable-zstd', `--CPPFLAGS=-I${zstd}`];
  must('configuring librdkafka', librdkafka, './configure', options, { STATIC_LIB_libzstd: path.join(zstd, 'libzstd.a') });
  must('compiling librdkafka', librdkafka, 'make', [`-j${jobs}`, 'libs'], { MAKEFLAGS: '' });
  must('installing librdkafka', librdkafka, 'make', ['install-subdirs'], { MAKEFLAGS: '' });
  return { include, lib };
}

const SCRIPT = "require('@confluentinc/kafka-javascript')";

function install() {
  ci(__dirname, npm);
  if (run(client, nodePreGyp, ['install']) && loads(__dirname, SCRIPT)) return;
  console.log('the compiled binary cannot be had: compiling');
  const { include, lib } = compileLibrdkafka();
  must('compiling the binding', client, nodePreGyp, ['rebuild', `--jobs=${jobs}`], {
    ...headers(),
    BUILD_LIBRDKAFKA: '0',
    CXXFLAGS: `-I${include}`,
    LDFLAGS: `-L${lib} -Wl,-rpath,${lib}`,
  });
  if (!loads(__dirname, SCRIPT)) process.exit(1);
}

if (!current(__dirname, SCRIPT)) {
  install();
  done(__dirname);
}
