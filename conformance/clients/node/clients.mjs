// Checked requests of every kind to arena, with node's http and http2, undici and ws.
//
//   clients.mjs --client NAME --base http://127.0.0.1:8080 --via direct|nginx|haproxy-h1|haproxy-h2
//
// A line on stdout for each kind of request, `kind NAME PASSED FAILED`, the versions before them, `done` after them. What failed is on stderr.

import { parseArgs } from "node:util";
import { Http } from "./http.mjs";
import { Http2 } from "./http2.mjs";
import { Undici } from "./undici.mjs";
import { KINDS } from "./kinds.mjs";
import { SOCKET_KINDS, socketVersion } from "./socket_kinds.mjs";
import { runKinds } from "./tally.mjs";

const CLIENTS = {
  http: (base) => new Http(base),
  // The windows of the defaults, and the smallest that make sense.
  http2: (base) => new Http2(base, {}),
  "http2-small": (base) => new Http2(base, { initialWindowSize: 1000 }),
  undici: (base) => new Undici(base),
};

const { values: flags } = parseArgs({
  options: { client: { type: "string" }, base: { type: "string" }, via: { type: "string", default: "direct" } },
});
let good;
if (flags.client === "ws") {
  console.log(`version ${socketVersion()}`);
  good = await runKinds(SOCKET_KINDS, flags.base);
} else {
  const target = CLIENTS[flags.client](flags.base);
  target.via = flags.via;
  console.log(`version ${target.version}`);
  good = await runKinds(KINDS, target);
  await target.close();
}
process.exit(good ? 0 : 1);
