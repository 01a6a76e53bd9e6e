// node's http, with an agent that keeps connections.

import http from "node:http";
import { collect, pieces, TIMEOUT_MS } from "./bodies.mjs";

export class Http {
  protocol = 1;
  version = `node ${process.versions.node}`;
  sendsTrailers = true;

  constructor(base) {
    this.base = base;
    this.agent = new http.Agent({ keepAlive: true, maxSockets: 64 });
  }

  close() {
    this.agent.destroy();
  }

  /// Sends a request; answers with the response whose body is not read yet.
  begin(method, path, { headers = {}, body, chunked, trailers, signal } = {}) {
    return new Promise((resolve, reject) => {
      const at = new URL(this.base);
      const fields = { ...headers };
      if (body && !chunked) fields["Content-Length"] = body.length;
      if (chunked) fields["Transfer-Encoding"] = "chunked";
      if (trailers) fields["Trailer"] = Object.keys(trailers).join(", ");
      const options = { host: at.hostname, port: at.port, method, path, agent: this.agent, headers: fields };
      const request = http.request({ ...options, signal, timeout: TIMEOUT_MS });
      request.on("timeout", () => request.destroy(new Error("timeout")));
      request.on("error", reject);
      request.on("response", resolve);
      const send = () => {
        if (!chunked) return request.end(body);
        for (const piece of pieces(body)) request.write(piece);
        if (trailers) request.addTrailers(trailers);
        request.end();
      };
      if (!headers.Expect) return send();
      request.flushHeaders();
      let isSent = false;
      request.on("continue", () => ((isSent = true), send()));
      // An answer without a 100: the body is not sent, and what was announced never comes on this connection (RFC 9110 10.1.1).
      request.on("response", (response) => response.on("end", () => isSent || request.destroy()));
    });
  }

  async send(method, path, options) {
    const response = await this.begin(method, path, options);
    return { status: response.statusCode, headers: response.headers, body: await collect(response) };
  }

  async stopReading(path, count) {
    const response = await this.begin("GET", path);
    let seen = 0;
    for await (const chunk of response) {
      seen += chunk.length;
      if (seen >= count) break;
    }
    response.destroy();
    return seen;
  }

  async stopSending(path, body) {
    const at = new URL(this.base);
    const request = http.request({ host: at.hostname, port: at.port, method: "POST", path, agent: this.agent });
    const ended = new Promise((resolve) => request.on("error", () => resolve(true)).on("response", () => resolve(false)));
    request.write(body, () => request.destroy(new Error("given up")));
    return ended;
  }

  async stopWaiting(path) {
    return this.begin("GET", path, { signal: AbortSignal.timeout(20) }).then(() => false, () => true);
  }
}
