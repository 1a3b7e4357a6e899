// @confluentinc/kafka-javascript: the cases lie in records.js, groups.js, administration.js and errors.js.

'use strict';
process.env.UV_THREADPOOL_SIZE = '32'; // the client waits in Node's threads, of which there would be four
const { main } = require('../js-common/common.js');
const { RdKafka } = require('./base.js');
require('./records.js');
require('./groups.js');
require('./administration.js');
require('./errors.js');

const { version } = require('@confluentinc/kafka-javascript/package.json');

main('js-confluent', `${version} (librdkafka ${RdKafka.librdkafkaVersion})`);
