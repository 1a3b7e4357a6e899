// KafkaJS: the cases lie in records.js, groups.js, administration.js and errors.js.

'use strict';
const { main } = require('../js-common/common.js');
require('./records.js');
require('./groups.js');
require('./administration.js');
require('./errors.js');

main('js-kafkajs', require('kafkajs/package.json').version);
