"""The kinds of requests, the same for each client."""

import asyncio
import hashlib
import json
import random
import time

# At both sides of every boundary.
SIZES = [0, 1, 4095, 4096, 4097, 16383, 16384, 16385, 65535, 65536, 65537, 1 << 20, 5 << 20]
EXPECT = ("Expect", "100-continue")


def echo_sizes(target, sizes):
    """Of bodies that may come back before they were sent."""
    # Once an answer begins, nginx sends no more of the request's body: larger ones may stop in the middle.
    largest = 65537 if target.via == "nginx" else max(sizes)
    if target.via == "haproxy-h2" and target.protocol == 2:
        # Data that it cannot pass on keeps it from reading the window updates behind them: with both ways full, neither goes on.
        largest = 16384
    return [size for size in sizes if size <= largest]


def is_httpx_behind_nginx(target):
    """On HTTP/2 httpx ends a body with an empty frame. nginx 1.22, whose answer is there before that, keeps no connection to its server, whichever that is; and
    uploads beside each other end in httpx with a stream that it does not know any more."""
    return target.via == "nginx" and target.protocol == 2


def content(length):
    """A body of so many bytes, the same for each length and without a period."""
    return random.Random(length).randbytes(length)


async def ask(target, checks, method, path, status=200, expected=None, **options):
    """Sends a request and checks status and body. The answer, or nothing if there was none."""
    try:
        answer = await target.send(method, path, **options)
    except Exception as error:
        checks.that(False, f"{method} {path}: {type(error).__name__}: {error}")
        return None
    right = answer.status == status and (expected is None or answer.body == expected)
    checks.that(right, f"{method} {path}: {answer.status} with {len(answer.body)} bytes: {answer.body[:60]}")
    return answer


async def echo(target, checks, body, **options):
    """Sends a body and checks that it comes back as it was."""
    answer = await ask(target, checks, "POST", "/echo", body=body, **options)
    same = answer and hashlib.sha256(answer.body).digest() == hashlib.sha256(body).digest()
    checks.that(same, f"echo of {len(body)}: {answer and len(answer.body)} bytes, not the same")
    return answer


async def post_echo(target, checks):
    """A small request that the client does not send again by itself if the connection is lost."""
    await echo(target, checks, content(1000), chunked=True)


async def accepted(target, checks):
    """How many connections the server has taken so far."""
    answer = await ask(target, checks, "GET", "/metrics")
    lines = answer.body.decode().splitlines() if answer else []
    values = [line.split()[1] for line in lines if line.startswith("plimsoll_accepted_total ")]
    return int(values[0]) if values else None


async def get(target, checks):
    for _ in range(10):
        index = await ask(target, checks, "GET", "/")
        checks.that(index and len(index.body) >= 1024 and index.headers["content-type"].startswith("text/"), "GET /")
        await ask(target, checks, "GET", "/pipeline", expected=b"ok")
        await ask(target, checks, "GET", "/baseline11?a=1&b=2", expected=b"3")
        await ask(target, checks, "GET", "/baseline2?a=-5&b=x&c=7", expected=b"2")


async def head(target, checks):
    for path, length in [("/pipeline", "2"), ("/blob/1000000", "1000000"), ("/baseline11?a=10", "2"), ("/json/5", None), ("/", None)]:
        for _ in range(3):
            answer = await ask(target, checks, "HEAD", path, expected=b"")
            given = answer and answer.headers.get("content-length")
            checks.that(answer and (length is None or given == length), f"HEAD {path}: Content-Length {given}")
    await ask(target, checks, "HEAD", "/nothing", 404, b"")


async def post(target, checks):
    for number in range(10):
        body = str(number).encode()
        await ask(target, checks, "POST", "/", body=b"x")
        await ask(target, checks, "POST", "/baseline11?a=1&b=2", body=body, expected=str(number + 3).encode())
        await ask(target, checks, "POST", "/baseline11?a=1", body=body, chunked=True, expected=str(number + 1).encode())
        await ask(target, checks, "POST", "/upload", body=b"", expected=b"0")


async def echo_length(target, checks):
    for size in echo_sizes(target, SIZES):
        await echo(target, checks, content(size))
    answer = await echo(target, checks, b"{}", headers=[("Content-Type", "application/x-of-ours")])
    checks.that(answer and answer.headers["content-type"] == "application/x-of-ours", "the Content-Type does not come back")


async def echo_chunked(target, checks):
    for size in echo_sizes(target, SIZES):
        await echo(target, checks, content(size), chunked=True)


async def upload(target, checks):
    for size in SIZES:
        for chunked in [False, True]:
            await ask(target, checks, "POST", "/upload", body=content(size), chunked=chunked, expected=str(size).encode())


async def expect(target, checks):
    for size in [1, 4096, 65537, 1 << 20]:
        for _ in range(3):
            if target.via == "direct":
                await echo(target, checks, content(size), headers=[EXPECT])
            else:
                # haproxy cuts an answer off if it comes together with the 100, before the body was sent.
                await ask(target, checks, "POST", "/upload", body=content(size), headers=[EXPECT], expected=str(size).encode())
            if size <= target.early_bytes_max:
                await ask(target, checks, "POST", "/nothing", 404, body=content(size), headers=[EXPECT])
            await post_echo(target, checks)


async def blob(target, checks):
    for size in [(8 << 20) + 1, *SIZES]:
        await ask(target, checks, "GET", f"/blob/{size}", expected=b"p" * size)


async def delay(target, checks):
    async def one(milliseconds):
        start = time.monotonic()
        await ask(target, checks, "GET", f"/delay/{milliseconds}", expected=b"ok")
        checks.that(time.monotonic() - start >= milliseconds / 1000, f"a delay of {milliseconds} ms ended before its time")

    await asyncio.gather(*(one(20 + worker) for worker in range(32)))
    await ask(target, checks, "GET", "/delay/0", expected=b"ok")


async def items(target, checks):
    for count, factor in [(0, None), (1, None), (25, 3), (50, None), (50, 7)]:
        answer = await ask(target, checks, "GET", f"/json/{count}" + (f"?m={factor}" if factor else ""))
        page = json.loads(answer.body)
        checks.that(page["count"] == count and len(page["items"]) == count, f"/json/{count}: {page['count']}")
        checks.that(answer.headers["content-type"] == "application/json", answer.headers["content-type"])
        for item in page["items"]:
            right = item["total"] == item["price"] * item["quantity"] * (factor or 1)
            checks.that(right, f"/json/{count}: a total of {item['total']}")


async def headers(target, checks):
    for value in ["x", 'a, b;c="d"', "v" * 4000]:
        fields = [("X-Of-Ours", value), ("X-Twice", "one"), ("X-Twice", "two")]
        answer = await ask(target, checks, "GET", "/headers", headers=fields)
        lines = answer.body.decode().lower().splitlines() if answer else []
        checks.that(f"x-of-ours: {value}" in lines, f"x-of-ours is missing: {lines}")
        twice = {"x-twice: one", "x-twice: two"} <= set(lines) or "x-twice: one, two" in lines
        checks.that(twice, f"x-twice is missing: {lines}")


async def gzip(target, checks):
    for coding in ["", "gzip", "gzip, deflate, br", "identity"]:
        answer = await ask(target, checks, "GET", "/json/50", headers=[("Accept-Encoding", coding)])
        checks.that(answer and "content-encoding" not in answer.headers and json.loads(answer.body), f"with {coding!r}")


async def wrong(target, checks):
    for _ in range(3):
        for path in ["/nothing", "/json/51", "/delay/60001", "/blob/x", "/pipeline/"]:
            await ask(target, checks, "GET", path, 404)
        for method, path, allow in [("DELETE", "/pipeline", "GET, HEAD"), ("GET", "/echo", "POST")]:
            answer = await ask(target, checks, method, path, 405)
            checks.that(answer and answer.headers.get("allow") == allow, f"Allow of {path}")
        await ask(target, checks, "POST", "/baseline11", 413, body=content(5000))
        if target.protocol == 1:
            await ask(target, checks, "GET", "/ws", 426)
            # Refused by the first who sees it.
            answer = await target.send("GET", "/pipeline", headers=[("Host", "a[b")])
            checks.that(answer.status == 400, f"a bad host: {answer.status}")
        await post_echo(target, checks)


async def keep_alive(target, checks):
    """Requests one after the other need one connection, and a proxy needs no more of its own."""
    before = await accepted(target, checks)
    for number in range(50):
        await ask(target, checks, "POST", "/baseline2?a=1", body=str(number).encode(), expected=str(number + 1).encode())
    after = await accepted(target, checks)
    checks.that(before and (after - before <= 1 or is_httpx_behind_nginx(target)), f"50 requests took {before} to {after} connections")


async def concurrent(target, checks):
    async def one(worker):
        for turn in range(2):
            size = 1 + worker * 5000 + turn
            await ask(target, checks, "GET", "/pipeline", expected=b"ok")
            await post_echo(target, checks)
            await ask(target, checks, "GET", f"/blob/{size}", expected=b"p" * size)
            if not is_httpx_behind_nginx(target):
                await ask(target, checks, "POST", "/upload", body=content(size), expected=str(size).encode())

    before = await accepted(target, checks)
    await asyncio.gather(*(one(worker) for worker in range(32)))
    after = await accepted(target, checks)
    checks.that(before and (after - before <= 64 or is_httpx_behind_nginx(target)), f"256 requests, 32 at once, took {before} to {after} connections")


async def cancelled(target, checks):
    for _ in range(5):
        seen = await target.stop_reading(f"/blob/{target.abandoned_bytes}", 100_000)
        checks.that(seen and seen >= 100_000, f"read {seen} bytes before the client gave up")
        await post_echo(target, checks)
        checks.that(await target.stop_sending("/upload", content(20_000)), "half a body was answered")
        await post_echo(target, checks)
        checks.that(await target.stop_waiting("/delay/50000"), "a delay of 50 s was answered at once")
        await post_echo(target, checks)


async def early(target, checks):
    """Answers that come before the body has been sent, and the request that follows on the same client."""
    for size in [1000, 65535, 65536, 65537, 200_000, 1 << 20, 1 << 20, 1 << 20, 5 << 20]:
        if size > target.early_bytes_max:
            break
        for path, status, chunked in [("/nothing", 404, False), ("/nothing", 404, True), ("/pipeline", 405, False)]:
            await ask(target, checks, "POST", path, status, body=content(size), chunked=chunked)
            await post_echo(target, checks)


KINDS = [
    ("get", get),
    ("keep-alive", keep_alive),
    ("head", head),
    ("post", post),
    ("echo-length", echo_length),
    ("echo-chunked", echo_chunked),
    ("upload", upload),
    ("expect", expect),
    ("blob", blob),
    ("delay", delay),
    ("json", items),
    ("headers", headers),
    ("gzip", gzip),
    ("errors", wrong),
    ("concurrent", concurrent),
    ("cancel", cancelled),
    ("early", early),
]
