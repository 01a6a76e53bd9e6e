// node's http2, one session with prior knowledge.

import http2 from "node:http2";
import { collect, pieces, TIMEOUT_MS } from "./bodies.mjs";

export class Http2 {
  protocol = 2;
  version = `node ${process.versions.node}`;
  sendsTrailers = true;

  constructor(base, settings) {
    Object.assign(this, { base, settings });
  }

  close() {
    this.session?.destroy();
  }

  /// The session, and another one if it was lost, as clients do.
  connected() {
    if (!this.session || this.session.destroyed || this.session.closed) {
      // What was not sent of a body that nobody wants counts for ever, and at the default of 10 MB it resets all streams itself.
      this.session = http2.connect(this.base, { settings: this.settings, maxSessionMemory: 1000 });
      this.session.on("error", () => {});
    }
    return this.session;
  }

  open(method, path, { headers = {}, body, trailers, signal } = {}) {
    const lower = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
    const fields = { ...Object.fromEntries(lower), ":method": method, ":path": path };
    const stream = this.connected().request(fields, { endStream: body === undefined, waitForTrailers: Boolean(trailers), signal });
    stream.setTimeout(TIMEOUT_MS, () => stream.destroy(new Error("timeout")));
    if (trailers) stream.on("wantTrailers", () => stream.sendTrailers(trailers));
    return stream;
  }

  async send(method, path, options = {}) {
    const stream = this.open(method, path, options);
    const headers = new Promise((resolve, reject) => stream.on("response", resolve).on("error", reject));
    // Not told how long it is, or told.
    if (options.chunked) {
      for (const piece of pieces(options.body)) stream.write(piece);
      stream.end();
    } else if (options.body !== undefined) {
      stream.end(options.body);
    }
    const fields = await headers;
    return { status: fields[":status"], headers: fields, body: await collect(stream) };
  }

  async stopReading(path, count) {
    const stream = this.open("GET", path);
    let seen = 0;
    for await (const chunk of stream) {
      seen += chunk.length;
      if (seen >= count) break;
    }
    stream.close(http2.constants.NGHTTP2_CANCEL);
    return seen;
  }

  async stopSending(path, body) {
    const stream = this.open("POST", path, { body });
    const ended = new Promise((resolve) => stream.on("close", () => resolve(true)).on("response", () => resolve(false)).on("error", () => {}));
    stream.write(body, () => stream.close(http2.constants.NGHTTP2_CANCEL));
    return ended;
  }

  async stopWaiting(path) {
    const stream = this.open("GET", path);
    const ended = new Promise((resolve) => stream.on("close", () => resolve(true)).on("response", () => resolve(false)).on("error", () => {}));
    setTimeout(() => stream.close(http2.constants.NGHTTP2_CANCEL), 20);
    return ended;
  }
}
