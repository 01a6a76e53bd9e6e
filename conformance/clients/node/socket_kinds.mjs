// The kinds of messages, with ws.

import { once } from "node:events";
import { createRequire } from "node:module";
import WebSocket from "ws";
import { content, same, TIMEOUT_MS } from "./bodies.mjs";

// Where the length of a frame gets longer, and where buffers end.
const SIZES = [0, 1, 125, 126, 127, 4095, 4096, 4097, 65535, 65536, 65537, 1 << 20, 5 << 20];

export const socketVersion = () => `ws ${createRequire(import.meta.url)("ws/package.json").version}`;

/// A connection whose messages wait to be taken, one at a time.
class Connection {
  constructor(base, deflate) {
    const options = { perMessageDeflate: deflate, handshakeTimeout: TIMEOUT_MS, maxPayload: 16 << 20 };
    this.socket = new WebSocket(`${base.replace("http:", "ws:")}/ws`, options);
    this.arrived = [];
    this.wanted = [];
    this.opened = this.once("open");
    this.closed = new Promise((resolve) => this.socket.on("close", (code, reason) => resolve([code, String(reason)])));
    this.socket.on("message", (data, isBinary) => this.arrive({ data, isBinary }));
    this.socket.on("error", (error) => this.fail(error));
    this.socket.on("close", (code) => this.fail(new Error(`closed with ${code}`)));
  }

  arrive(message) {
    const wanted = this.wanted.shift();
    if (wanted) wanted.resolve(message);
    else this.arrived.push(message);
  }

  fail(error) {
    for (const { reject } of this.wanted.splice(0)) reject(error);
  }

  next() {
    if (this.arrived.length > 0) return Promise.resolve(this.arrived.shift());
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error("no message in time")), TIMEOUT_MS);
      this.wanted.push({ resolve: (message) => (clearTimeout(timer), resolve(message)), reject: (error) => (clearTimeout(timer), reject(error)) });
    });
  }

  once(event) {
    return once(this.socket, event, { signal: AbortSignal.timeout(TIMEOUT_MS) });
  }

  async echo(checks, message) {
    this.socket.send(message);
    await this.expect(checks, message);
  }

  async expect(checks, message) {
    const { data, isBinary } = await this.next();
    const right = isBinary === (typeof message !== "string") && same(data, Buffer.from(message));
    checks.that(right, `echo of ${message.length}: ${isBinary ? "bytes" : "text"}, ${data.length}`);
  }

  async close(code, reason) {
    this.socket.close(code, reason);
    return this.closed;
  }
}

async function connect(base, deflate = false) {
  const connection = new Connection(base, deflate);
  await connection.opened;
  return connection;
}

/// Characters of one to three bytes.
const text = (length) => "aé€z".repeat(length / 4 + 1).slice(0, length);

async function messages(base, checks, deflate) {
  const connection = await connect(base, deflate);
  const agreed = connection.socket.extensions;
  checks.that(agreed === (deflate ? "permessage-deflate" : ""), `extensions: ${agreed}`);
  for (const size of SIZES) {
    await connection.echo(checks, content(size));
    await connection.echo(checks, text(size));
    await connection.echo(checks, Buffer.alloc(size, "a"));
  }
  for (let number = 0; number < 100; number += 1) await connection.echo(checks, `message ${number}`);
  await connection.close(1000);
}

export const SOCKET_KINDS = {
  messages: (base, checks) => messages(base, checks, false),

  deflate: (base, checks) => messages(base, checks, { threshold: 0 }),

  async fragments(base, checks) {
    for (const deflate of [false, { threshold: 0 }]) {
      const connection = await connect(base, deflate);
      for (const size of [1, 125, 126, 4096, 65536, 200_000]) {
        const whole = content(size);
        for (let at = 0; at < size; at += 999) connection.socket.send(whole.subarray(at, at + 999), { fin: at + 999 >= size });
        await connection.expect(checks, whole);
        connection.socket.send("", { fin: false });
        connection.socket.send(text(size), { fin: false });
        connection.socket.ping("between fragments");
        connection.socket.send("", { fin: true });
        await connection.expect(checks, text(size));
      }
      await connection.close(1000);
    }
  },

  async ping(base, checks) {
    const connection = await connect(base);
    for (const size of [0, 1, 125]) {
      for (let turn = 0; turn < 10; turn += 1) {
        const pong = connection.once("pong");
        connection.socket.ping(content(size));
        checks.that(same((await pong)[0], content(size)), "another pong");
        connection.socket.pong("unasked");
        await connection.echo(checks, "between");
      }
    }
    await connection.close(1000);
  },

  async close(base, checks) {
    for (const [code, reason] of [[1000, ""], [1001, "away"], [1011, ""], [3000, "r".repeat(123)], [4999, "é"]]) {
      const connection = await connect(base);
      await connection.echo(checks, "before");
      const [received] = await connection.close(code, reason);
      checks.that(received === code, `closed with ${code}, the answer is ${received}`);
    }
    // Without a word: what follows must not be disturbed.
    for (let turn = 0; turn < 10; turn += 1) {
      const connection = await connect(base);
      connection.socket.send(content(100_000));
      connection.socket.terminate();
      const following = await connect(base);
      await following.echo(checks, "after");
      await following.close(1000);
    }
  },

  async concurrent(base, checks) {
    const one = async (worker) => {
      const connection = await connect(base, worker % 2 === 1 && { threshold: 0 });
      for (let number = 0; number < 10; number += 1) await connection.echo(checks, content(worker * 1000 + number));
      await connection.close(1000);
    };
    await Promise.all(Array.from({ length: 32 }, (_, worker) => one(worker)));
  },

  /// Many messages before the first answer is read.
  async ahead(base, checks) {
    const connection = await connect(base);
    const whole = Array.from({ length: 200 }, (_, number) => content(1 + number * 37));
    for (const message of whole) connection.socket.send(message);
    for (const message of whole) await connection.expect(checks, message);
    await connection.close(1000);
  },
};
