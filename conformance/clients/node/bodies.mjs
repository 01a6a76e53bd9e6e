// Bodies: what they are made of, and how they are read.

import { createHash } from "node:crypto";

// A request that takes so long has failed: it is far longer than any of them needs.
export const TIMEOUT_MS = 30_000;

// At both sides of every boundary.
export const SIZES = [0, 1, 4095, 4096, 4097, 16383, 16384, 16385, 65535, 65536, 65537, 1 << 20, 5 << 20];

/// A body of so many bytes, the same for each length and without a short period.
export function content(length) {
  const body = Buffer.alloc(length);
  let state = (length + 1) >>> 0;
  for (let at = 0; at < length; at += 1) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    body[at] = state >>> 24;
  }
  return body;
}

export function* pieces(body) {
  for (let at = 0; at < body.length; at += 10_000) yield body.subarray(at, at + 10_000);
}

export async function collect(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}

export function same(one, other) {
  const hash = (bytes) => createHash("sha256").update(bytes).digest("hex");
  return one.length === other.length && hash(one) === hash(other);
}
