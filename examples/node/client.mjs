// A client of the daemon for Node, without any package: node client.mjs HOME AGENT HARNESS TOOL ARGS
//
// Calls a tool and prints its result. The few messages that this takes are encoded and decoded by hand; a real
// program generates them from proto/crabtalk.proto.

import { existsSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";

// Fields of the schema that are used here.
const REQUEST = { getAgent: 16, callTool: 65, auth: 69, requestId: 101 };
const REPLY = { error: 1, agentInfo: 11, toolOutcome: 65, requestId: 101 };

// Writing protobuf: a varint, and a field that has a length.
function varint(number) {
  const bytes = [];
  for (let rest = BigInt(number); ; ) {
    const low = Number(rest & 127n);
    rest >>= 7n;
    if (rest === 0n) return Buffer.from([...bytes, low]);
    bytes.push(low | 128);
  }
}

function field(number, content) {
  const bytes = Buffer.from(content);
  return Buffer.concat([varint((number << 3) | 2), varint(bytes.length), bytes]);
}

function number(fieldNumber, value) {
  return Buffer.concat([varint(fieldNumber << 3), varint(value)]);
}

// Reading protobuf: every field of a message, the last one of a number counts.
function decode(bytes) {
  const fields = new Map();
  let at = 0;
  const readVarint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      if (at >= bytes.length) throw new Error("a message ends within a number");
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const tag = Number(readVarint());
    const kind = tag & 7;
    if (kind === 0) {
      fields.set(tag >> 3, readVarint());
    } else if (kind === 2) {
      const end = Number(readVarint()) + at;
      if (end > bytes.length) throw new Error("a message ends within a field");
      fields.set(tag >> 3, bytes.subarray(at, end));
      at = end;
    } else {
      at += kind === 1 ? 8 : 4;
    }
  }
  return fields;
}

// One connection; requests may be made side by side, since each has an id.
class Client {
  #waiting = new Map();
  #received = Buffer.alloc(0);
  #lastId = 0;

  constructor(socket) {
    this.socket = socket;
    socket.on("data", (chunk) => this.#take(chunk));
    socket.on("error", (error) => this.#end(error));
    socket.on("close", () => this.#end(new Error("the daemon closed the connection")));
  }

  ask(request, reply) {
    const id = ++this.#lastId;
    const payload = Buffer.concat([request, number(REQUEST.requestId, id)]);
    const length = Buffer.alloc(4);
    length.writeUInt32BE(payload.length);
    this.socket.write(Buffer.concat([length, payload]));
    return new Promise((resolve, reject) => this.#waiting.set(id, { reply, resolve, reject }));
  }

  #take(chunk) {
    this.#received = Buffer.concat([this.#received, chunk]);
    while (this.#received.length >= 4) {
      const end = 4 + this.#received.readUInt32BE();
      if (this.#received.length < end) return;
      this.#answer(decode(this.#received.subarray(4, end)));
      this.#received = this.#received.subarray(end);
    }
  }

  #answer(message) {
    const error = message.has(REPLY.error) ? decode(message.get(REPLY.error)) : null;
    const failure = error && new Error(`error ${error.get(1)}: ${error.get(2)}`);
    if (!message.has(REPLY.requestId)) return this.#end(failure ?? new Error("a reply without an id"));
    const id = Number(message.get(REPLY.requestId));
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (failure) waiting?.reject(failure);
    else waiting?.resolve(decode(message.get(waiting.reply) ?? Buffer.alloc(0)));
  }

  #end(error) {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}

async function open(home) {
  const path = join(home, "run", "crabtalk.sock");
  if (existsSync(path)) return new Client(connect(path));
  const port = Number(readFileSync(join(home, "run", "crabtalk.port"), "utf8"));
  const token = readFileSync(join(home, "run", "crabtalk.token"), "utf8").trim();
  const client = new Client(connect({ port, host: "127.0.0.1", noDelay: true }));
  await client.ask(field(REQUEST.auth, field(1, token)), 2);
  return client;
}

async function main(home, agent, harness, tool, args) {
  const client = await open(home);
  const info = await client.ask(field(REQUEST.getAgent, field(1, agent)), REPLY.agentInfo);
  const id = info.get(12) ?? "";
  const call = Buffer.concat([field(1, id), field(2, harness), field(3, tool), field(4, args)]);
  const outcome = await client.ask(field(REQUEST.callTool, call), REPLY.toolOutcome);
  client.socket.end();
  if (outcome.has(3)) throw new Error(`trap: ${decode(outcome.get(3)).get(2)}`);
  if (outcome.has(2)) throw new Error(`failed: ${outcome.get(2)}`);
  process.stdout.write(`${outcome.get(1) ?? ""}\n`);
}

main(...process.argv.slice(2)).catch((error) => {
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
});
