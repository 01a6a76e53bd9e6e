// undici, with pipelining.

import { createRequire } from "node:module";
import { Agent, Pool, request } from "undici";
import { pieces, TIMEOUT_MS } from "./bodies.mjs";

const { version } = createRequire(import.meta.url)("undici/package.json");

export class Undici {
  protocol = 1;
  version = `undici ${version}`;

  constructor(base) {
    this.base = base;
    this.agent = new Agent({ connections: 64, headersTimeout: TIMEOUT_MS, bodyTimeout: TIMEOUT_MS });
  }

  close() {
    return this.agent.destroy();
  }

  begin(method, path, { headers = {}, body, chunked, signal } = {}) {
    const { Expect, ...fields } = headers;
    const given = chunked ? (async function* () { yield* pieces(body); })() : body;
    return request(this.base + path, { dispatcher: this.agent, method, headers: fields, body: given, expectContinue: false, signal });
  }

  async send(method, path, options) {
    const response = await this.begin(method, path, options);
    return { status: response.statusCode, headers: response.headers, body: Buffer.from(await response.body.arrayBuffer()) };
  }

  /// So many GET at once on one connection, which carries 16 of them at a time.
  async pipelined(paths) {
    const pool = new Pool(this.base, { connections: 1, pipelining: 16, headersTimeout: TIMEOUT_MS, bodyTimeout: TIMEOUT_MS });
    const one = async (path) => {
      const { statusCode, body } = await pool.request({ method: "GET", path });
      return { status: statusCode, body: Buffer.from(await body.arrayBuffer()) };
    };
    const answers = await Promise.all(paths.map(one));
    await pool.close();
    return answers;
  }

  async stopReading(path, count) {
    const { body } = await this.begin("GET", path);
    let seen = 0;
    for await (const chunk of body) {
      seen += chunk.length;
      if (seen >= count) break;
    }
    return seen;
  }

  async stopSending(path, body) {
    const stopping = (async function* () {
      yield body;
      throw new Error("given up");
    })();
    return request(this.base + path, { dispatcher: this.agent, method: "POST", body: stopping }).then(() => false, () => true);
  }

  async stopWaiting(path) {
    return this.begin("GET", path, { signal: AbortSignal.timeout(20) }).then(() => false, () => true);
  }
}
