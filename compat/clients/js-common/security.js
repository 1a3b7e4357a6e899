// What the JavaScript programs are told of TLS and logins (COMPAT_SECURITY, ../README.md), as each library takes it.

'use strict';
const fs = require('node:fs');

const told = JSON.parse(process.env.COMPAT_SECURITY || 'null');

const read = (file) => fs.readFileSync(file, 'utf8');

/** librdkafka's properties; none where clients connect in the clear. */
function librdkafka() {
  if (!told) return {};
  const found = { 'security.protocol': told.protocol, 'ssl.ca.location': told.ca };
  if (told.certificate) Object.assign(found, { 'ssl.certificate.location': told.certificate, 'ssl.key.location': told.key });
  if (!told.mechanism) return found;
  found['sasl.mechanisms'] = told.mechanism;
  if (told.mechanism === 'OAUTHBEARER') {
    // a callback and no token endpoint: librdkafka has that only where it was built with libcurl
    const token = read(told.token_file);
    const lifetime = 1000 * JSON.parse(Buffer.from(token.split('.')[1], 'base64url')).exp;
    const give = (_, done) => done(null, { tokenValue: token, lifetime, principal: told.user });
    return { ...found, oauthbearer_token_refresh_cb: give };
  }
  return { ...found, 'sasl.username': told.user, 'sasl.password': told.password };
}

/** The fields `ssl` and `sasl` of KafkaJS, likewise. */
function kafkajs() {
  if (!told) return {};
  const ssl = { ca: [read(told.ca)] };
  if (told.certificate) Object.assign(ssl, { cert: read(told.certificate), key: read(told.key) });
  if (!told.mechanism) return { ssl };
  const mechanism = told.mechanism.toLowerCase();
  if (mechanism === 'oauthbearer') {
    return { ssl, sasl: { mechanism, oauthBearerProvider: async () => ({ value: read(told.token_file) }) } };
  }
  return { ssl, sasl: { mechanism, username: told.user, password: told.password } };
}

module.exports = { kafkajs, librdkafka };
