// The kinds of requests, the same for each client.

import { content, same, SIZES } from "./bodies.mjs";

/// Sends a request and checks status and body. The answer, or nothing if there was none.
async function ask(target, checks, method, path, { status = 200, expected, ...options } = {}) {
  let answer;
  try {
    answer = await target.send(method, path, options);
  } catch (error) {
    checks.that(false, `${method} ${path}: ${error.code} ${error.message}`);
    return undefined;
  }
  const right = answer.status === status && (expected === undefined || answer.body.equals(Buffer.from(expected)));
  checks.that(right, `${method} ${path}: ${answer.status} with ${answer.body.length} bytes: ${answer.body.subarray(0, 60)}`);
  return answer;
}

/// Sends a body and checks that it comes back as it was.
async function echo(target, checks, body, options = {}) {
  const answer = await ask(target, checks, "POST", "/echo", { body, ...options });
  checks.that(answer && same(answer.body, body), `echo of ${body.length}: ${answer?.body.length} bytes, not the same`);
  return answer;
}

/// A small request that the client does not send again by itself if the connection is lost.
const postEcho = (target, checks) => echo(target, checks, content(1000), { chunked: true });

/// Sizes of bodies that may come back before they were sent. Once an answer begins, nginx sends no more of the request's body: larger ones may
/// stop in the middle. Data that haproxy cannot pass on keeps it from reading the window updates behind them: with HTTP/2 on both sides and both ways
/// full, neither goes on.
function echoSizes(target, sizes) {
  const largest = { nginx: 65537, "haproxy-h2": target.protocol === 2 ? 16384 : Infinity }[target.via] ?? Infinity;
  return sizes.filter((size) => size <= largest);
}

/// With HTTP/2 on both sides, haproxy 2.6 reads neither the client nor the server any more when much goes both ways on many streams, whichever server it is.
const isHttp2ByHaproxy = (target) => target.via === "haproxy-h2" && target.protocol === 2;

/// Sizes of bodies whose answers may come before they were sent. haproxy 2.6 with HTTP/2 on both sides stops reading the server's connection when its client
/// has gone from a stream that was answered, while the server still takes the rest of the body: one of a frame is over by then.
const earlySizes = (target, sizes) =>
  isHttp2ByHaproxy(target) ? sizes.filter((size) => size <= 16384) : sizes;

/// How many connections the server has taken so far.
async function accepted(target, checks) {
  const answer = await ask(target, checks, "GET", "/metrics");
  return Number(/^plimsoll_accepted_total (\d+)$/m.exec(String(answer?.body))?.[1]);
}

const at32 = (run) => Promise.all(Array.from({ length: 32 }, (_, worker) => run(worker)));

export const KINDS = {
  async get(target, checks) {
    for (let turn = 0; turn < 10; turn += 1) {
      const index = await ask(target, checks, "GET", "/");
      checks.that(index?.body.length >= 1024 && index.headers["content-type"].startsWith("text/"), "GET /");
      await ask(target, checks, "GET", "/pipeline", { expected: "ok" });
      await ask(target, checks, "GET", "/baseline11?a=1&b=2", { expected: "3" });
      await ask(target, checks, "GET", "/baseline2?a=-5&b=x&c=7", { expected: "2" });
    }
  },

  /// Requests one after the other need one connection, and a proxy needs no more of its own.
  async "keep-alive"(target, checks) {
    const before = await accepted(target, checks);
    for (let number = 0; number < 100; number += 1) {
      await ask(target, checks, "POST", "/baseline2?a=1", { body: Buffer.from(String(number)), expected: String(number + 1) });
    }
    const after = await accepted(target, checks);
    checks.that(before > 0 && after - before <= 1, `100 requests took ${before} to ${after} connections`);
  },

  async head(target, checks) {
    const lengths = { "/pipeline": "2", "/blob/1000000": "1000000", "/baseline11?a=10": "2", "/json/5": undefined, "/": undefined };
    for (const [path, length] of Object.entries(lengths)) {
      for (let turn = 0; turn < 3; turn += 1) {
        const answer = await ask(target, checks, "HEAD", path, { expected: "" });
        const given = answer?.headers["content-length"];
        checks.that(answer && (length === undefined || given === length), `HEAD ${path}: Content-Length ${given}`);
      }
    }
    await ask(target, checks, "HEAD", "/nothing", { status: 404, expected: "" });
  },

  async post(target, checks) {
    for (let number = 0; number < 10; number += 1) {
      const body = Buffer.from(String(number));
      await ask(target, checks, "POST", "/", { body: Buffer.from("x") });
      await ask(target, checks, "POST", "/baseline11?a=1&b=2", { body, expected: String(number + 3) });
      await ask(target, checks, "POST", "/baseline11?a=1", { body, chunked: true, expected: String(number + 1) });
      await ask(target, checks, "POST", "/upload", { body: Buffer.alloc(0), expected: "0" });
    }
  },

  async "echo-length"(target, checks) {
    for (const size of echoSizes(target, SIZES)) await echo(target, checks, content(size));
    const answer = await echo(target, checks, Buffer.from("{}"), { headers: { "Content-Type": "application/x-of-ours" } });
    checks.that(answer?.headers["content-type"] === "application/x-of-ours", "the Content-Type does not come back");
  },

  async "echo-chunked"(target, checks) {
    for (const size of echoSizes(target, SIZES)) await echo(target, checks, content(size), { chunked: true });
  },

  async upload(target, checks) {
    for (const size of SIZES) {
      await ask(target, checks, "POST", "/upload", { body: content(size), expected: String(size) });
      await ask(target, checks, "POST", "/upload", { body: content(size), chunked: true, expected: String(size) });
    }
  },

  async expect(target, checks) {
    const headers = { Expect: "100-continue" };
    for (const size of [1, 4096, 65537, 1 << 20]) {
      for (let turn = 0; turn < 3; turn += 1) {
        // haproxy cuts an answer off if it comes together with the 100, before the body was sent.
        if (target.via === "direct") await echo(target, checks, content(size), { headers });
        else await ask(target, checks, "POST", "/upload", { body: content(size), headers, expected: String(size) });
        for (const early of earlySizes(target, [size])) await ask(target, checks, "POST", "/nothing", { body: content(early), headers, status: 404 });
        await postEcho(target, checks);
      }
    }
  },

  async blob(target, checks) {
    for (const size of [(16 << 20) + 1, ...SIZES]) {
      const answer = await ask(target, checks, "GET", `/blob/${size}`);
      checks.that(answer && same(answer.body, Buffer.alloc(size, "p")), `/blob/${size} is not as it should be`);
    }
  },

  async delay(target, checks) {
    await at32(async (worker) => {
      const start = performance.now();
      await ask(target, checks, "GET", `/delay/${20 + worker}`, { expected: "ok" });
      // The clock of the timer is coarser than this one.
      checks.that(performance.now() - start >= 19 + worker, `a delay of ${20 + worker} ms ended before its time`);
    });
    await ask(target, checks, "GET", "/delay/0", { expected: "ok" });
  },

  async json(target, checks) {
    for (const [count, factor] of [[0, 1], [1, 1], [25, 3], [50, 1], [50, 7]]) {
      const answer = await ask(target, checks, "GET", factor === 1 ? `/json/${count}` : `/json/${count}?m=${factor}`);
      const page = JSON.parse(answer.body);
      checks.that(page.count === count && page.items.length === count, `/json/${count}: ${page.count}`);
      checks.that(answer.headers["content-type"] === "application/json", answer.headers["content-type"]);
      for (const { price, quantity, total } of page.items) {
        checks.that(total === price * quantity * factor, `/json/${count}: a total of ${total}`);
      }
    }
  },

  async headers(target, checks) {
    for (const value of ["x", 'a, b;c="d"', "v".repeat(4000)]) {
      const answer = await ask(target, checks, "GET", "/headers", { headers: { "X-Of-Ours": value, "X-Twice": ["one", "two"] } });
      const lines = String(answer?.body).toLowerCase().split("\n");
      checks.that(lines.includes(`x-of-ours: ${value}`), `x-of-ours is missing: ${lines}`);
      const apart = lines.includes("x-twice: one") && lines.includes("x-twice: two");
      checks.that(apart || lines.includes("x-twice: one, two"), `x-twice is missing: ${lines}`);
    }
  },

  async gzip(target, checks) {
    for (const coding of ["", "gzip", "gzip, deflate, br", "identity"]) {
      const answer = await ask(target, checks, "GET", "/json/50", { headers: { "Accept-Encoding": coding } });
      checks.that(answer && !answer.headers["content-encoding"] && JSON.parse(answer.body), `with "${coding}"`);
    }
  },

  async trailers(target, checks) {
    // On HTTP/2 nginx takes the second HEADERS frame for an error of the connection.
    if (!target.sendsTrailers || (target.via === "nginx" && target.protocol === 2)) return;
    for (const size of echoSizes(target, [1, 4096, 65537, 1 << 20])) {
      await echo(target, checks, content(size), { chunked: true, trailers: { "x-checksum": "1234", "x-other": "t".repeat(500) } });
      await postEcho(target, checks);
    }
  },

  async errors(target, checks) {
    for (let turn = 0; turn < 3; turn += 1) {
      for (const path of ["/nothing", "/json/51", "/delay/60001", "/blob/x", "/pipeline/"]) {
        await ask(target, checks, "GET", path, { status: 404 });
      }
      for (const [method, path, allow] of [["DELETE", "/pipeline", "GET, HEAD"], ["GET", "/echo", "POST"]]) {
        const answer = await ask(target, checks, method, path, { status: 405 });
        checks.that(answer?.headers.allow === allow, `Allow of ${path}`);
      }
      await ask(target, checks, "POST", "/baseline11", { status: 413, body: content(5000) });
      if (target.protocol === 1) {
        await ask(target, checks, "GET", "/ws", { status: 426 });
        // Refused by the first who sees it.
        const { status } = await target.send("GET", "/pipeline", { headers: { Host: "a[b" } });
        checks.that(status === 400, `a bad host: ${status}`);
      }
      await postEcho(target, checks);
    }
  },

  async pipelining(target, checks) {
    if (!target.pipelined) return;
    const paths = Array.from({ length: 200 }, (_, turn) => `/baseline11?a=${turn}`);
    const answers = await target.pipelined(paths);
    answers.forEach(({ status, body }, turn) => checks.that(status === 200 && String(body) === String(turn), `pipelined: ${status} ${body}`));
    const blobs = await target.pipelined(Array.from({ length: 50 }, (_, turn) => (turn % 5 ? "/pipeline" : `/blob/${turn * 3000}`)));
    blobs.forEach(({ status, body }, turn) => checks.that(status === 200 && body.length === (turn % 5 ? 2 : turn * 3000), `pipelined: ${status} ${body.length}`));
  },

  async concurrent(target, checks) {
    const before = await accepted(target, checks);
    await at32(async (worker) => {
      for (let turn = 0; turn < 3; turn += 1) {
        const size = 1 + worker * 5000 + turn;
        await ask(target, checks, "GET", "/pipeline", { expected: "ok" });
        await postEcho(target, checks);
        await ask(target, checks, "GET", `/blob/${size}`, { expected: "p".repeat(size) });
        if (!isHttp2ByHaproxy(target)) await ask(target, checks, "POST", "/upload", { body: content(size), expected: String(size) });
      }
    });
    const after = await accepted(target, checks);
    checks.that(before > 0 && after - before <= 64, `384 requests, 32 at once, took ${before} to ${after} connections`);
  },

  async cancel(target, checks) {
    for (let turn = 0; turn < 5; turn += 1) {
      const seen = await target.stopReading("/blob/1000000000", 100_000);
      checks.that(seen >= 100_000, `read ${seen} bytes before the client gave up`);
      await postEcho(target, checks);
      checks.that(await target.stopSending("/upload", content(20_000)), "half a body was answered");
      await postEcho(target, checks);
      checks.that(await target.stopWaiting("/delay/50000"), "a delay of 50 s was answered at once");
      await postEcho(target, checks);
    }
  },

  /// Answers that come before the body has been sent, and the request that follows on the same client.
  async early(target, checks) {
    for (const size of earlySizes(target, [1000, 65536, 65537, 200_000, 1 << 20, 1 << 20, 1 << 20, 5 << 20])) {
      for (const [path, status, chunked] of [["/nothing", 404, false], ["/nothing", 404, true], ["/pipeline", 405, false]]) {
        await ask(target, checks, "POST", path, { status, body: content(size), chunked });
        await postEcho(target, checks);
      }
    }
  },
};
