// Queue topics with KafkaJS.

'use strict';
const { main } = require('../js-common/common.js');
require('./commits.js');
require('./members.js');

main('js-kafkajs-queue', require('../js-kafkajs/node_modules/kafkajs/package.json').version);
