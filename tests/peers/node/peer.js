// kafkajs behind JSON lines: one request a line in, one answer a line out (tests/peers/kafkajs.py).
// Bytes are base64. Snappy, lz4 and zstd are not part of kafkajs; other packages fill in.
'use strict';
const readline = require('readline');
const { Kafka, logLevel, CompressionTypes, CompressionCodecs, Partitioners } = require('kafkajs');

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy');
CompressionCodecs[CompressionTypes.LZ4] = () => {
  const lz4 = require('lz4-napi');
  return {
    compress: async (encoder) => lz4.compressFrame(encoder.buffer),
    decompress: async (buffer) => lz4.decompressFrame(buffer),
  };
};
CompressionCodecs[CompressionTypes.ZSTD] = () => {
  const fzstd = require('fzstd');
  return {
    compress: async () => { throw new Error('no zstd compressor in pure JavaScript'); },
    decompress: async (buffer) => Buffer.from(fzstd.decompress(buffer)),
  };
};
const CODECS = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 };

const bytes = (text) => (text === null || text === undefined ? null : Buffer.from(text, 'base64'));
const text = (buffer) => (buffer === null || buffer === undefined ? null : buffer.toString('base64'));
const client = (request) => new Kafka({
  clientId: 'kafkajs', brokers: [request.bootstrap], logLevel: logLevel.NOTHING,
  retry: { retries: request.retries ?? 5 },
});

async function produce(request) {
  const producer = client(request).producer({
    idempotent: request.idempotent ?? false,
    createPartitioner: Partitioners.DefaultPartitioner,
    allowAutoTopicCreation: request.auto_create ?? true,
  });
  await producer.connect();
  try {
    const messages = request.records.map((record) => {
      const headers = {};
      for (const [key, value] of record.headers ?? []) {
        headers[key] = [...(headers[key] ?? []), bytes(value)];
      }
      return {
        partition: record.partition ?? undefined, key: bytes(record.key),
        value: bytes(record.value), headers,
        timestamp: record.timestamp === null || record.timestamp === undefined
          ? undefined : String(record.timestamp),
      };
    });
    return await producer.send({
      topic: request.topic, messages, acks: request.acks ?? -1,
      compression: CODECS[request.codec ?? 'none'],
    });
  } finally {
    await producer.disconnect();
  }
}

function pairs(headers) {
  const result = [];
  for (const [key, value] of Object.entries(headers ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) result.push([key, text(one)]);
  }
  return result;
}

const members = new Map();

async function memberStart(request) {
  const consumer = client(request).consumer({
    groupId: request.group, sessionTimeout: request.session_timeout_ms ?? 10000,
    heartbeatInterval: 500, rebalanceTimeout: 10000, maxWaitTimeInMs: 200,
  });
  const member = { consumer, assigned: [], records: [], rebalances: 0, failure: null };
  members.set(request.member, member);
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    member.rebalances += 1;
    member.assigned = Object.entries(payload.memberAssignment)
      .flatMap(([topic, list]) => list.map((index) => `${topic}-${index}`)).sort();
  });
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    member.failure = `${payload.error.type ?? ''} ${payload.error.name}: ${payload.error.message}`;
  });
  await consumer.connect();
  await consumer.subscribe({ topics: request.topics, fromBeginning: true });
  await consumer.run({
    autoCommitInterval: 200,
    eachMessage: async ({ partition, message }) => {
      member.records.push({
        partition, offset: Number(message.offset), timestamp: Number(message.timestamp),
        key: text(message.key), value: text(message.value), headers: pairs(message.headers),
      });
    },
  });
}

function memberState(request) {
  const { assigned, records, rebalances, failure } = members.get(request.member);
  return { assigned, records, rebalances, failure };
}

async function memberStop(request) {
  const { consumer } = members.get(request.member);
  members.delete(request.member);
  await consumer.disconnect();
}

async function consume(request) {
  const member = `consume-${request.group}`;
  await memberStart({ ...request, member, topics: [request.topic] });
  const deadline = Date.now() + request.timeout_ms;
  const state = members.get(member);
  while (state.records.length < request.count && Date.now() < deadline && !state.failure) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  await memberStop({ member });
  if (state.failure) throw new Error(state.failure);
  return state.records;
}

const admins = new Map();

async function admin(request) {
  if (!admins.has(request.bootstrap)) {
    const connected = client(request).admin();
    await connected.connect();
    admins.set(request.bootstrap, connected);
  }
  return await admins.get(request.bootstrap)[request.call](...request.args) ?? null;
}

const OPERATIONS = {
  produce, consume, admin,
  member_start: memberStart, member_state: memberState, member_stop: memberStop,
};

async function answer(line) {
  const request = JSON.parse(line);
  try {
    return { result: await OPERATIONS[request.op](request) ?? null };
  } catch (error) {
    return { error: error.type ?? error.name, message: String(error.message) };
  }
}

let previous = Promise.resolve();
readline.createInterface({ input: process.stdin }).on('line', (line) => {
  previous = previous.then(async () => {
    process.stdout.write(`${JSON.stringify(await answer(line))}\n`);
  });
}).on('close', () => process.exit(0));
