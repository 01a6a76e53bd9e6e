"""The kinds of messages, with websockets."""

import asyncio

import websockets
from kinds import content

TIMEOUT_S = 30
# Where the length of a frame gets longer, and where buffers end.
SIZES = [0, 1, 125, 126, 127, 4095, 4096, 4097, 65535, 65536, 65537, 1 << 20, 5 << 20]


def version():
    return f"websockets {websockets.__version__}"


def connect(base, compression=None):
    url = base.replace("http://", "ws://") + "/ws"
    return websockets.connect(url, compression=compression, max_size=16 << 20, proxy=None, open_timeout=TIMEOUT_S, close_timeout=TIMEOUT_S)


async def echo(checks, socket, message, sent=None):
    """Sends a message, in the parts that are given, and checks that it comes back whole."""
    await socket.send(message if sent is None else sent)
    back = await asyncio.wait_for(socket.recv(), TIMEOUT_S)
    checks.that(back == message, f"echo of {len(message)}: {type(back).__name__} of {len(back)}")


def text(length):
    """Characters of one to four bytes."""
    return ("aé€😀z" * (length // 5 + 1))[:length]


async def messages(base, checks, compression):
    async with connect(base, compression) as socket:
        agreed = [extension.name for extension in socket.protocol.extensions]
        checks.that(agreed == (["permessage-deflate"] if compression else []), f"extensions: {agreed}")
        for size in SIZES:
            await echo(checks, socket, content(size))
            await echo(checks, socket, text(size))
            await echo(checks, socket, b"a" * size)
        for number in range(100):
            await echo(checks, socket, f"message {number}")


async def plain(base, checks):
    await messages(base, checks, None)


async def deflate(base, checks):
    await messages(base, checks, "deflate")


async def fragmented(base, checks):
    for compression in [None, "deflate"]:
        async with connect(base, compression) as socket:
            for size in [0, 1, 125, 126, 4096, 65536, 200_000]:
                whole = content(size)
                parts = [whole[at : at + 999] for at in range(0, size, 999)] or [b""]
                await echo(checks, socket, whole, parts)
                await echo(checks, socket, text(size), [*text(size)[:500], text(size)[500:]])
                await echo(checks, socket, whole, [b"", whole, b""])


async def ping(base, checks):
    async with connect(base) as socket:
        for size in [0, 1, 125]:
            for _ in range(10):
                pong = await socket.ping(content(size))
                checks.that(await asyncio.wait_for(pong, TIMEOUT_S) >= 0, "no pong")
                await socket.pong(b"unasked")
                await echo(checks, socket, "between")


async def close(base, checks):
    for code, reason in [(1000, ""), (1001, "away"), (1011, ""), (3000, "r" * 123), (4999, "é")]:
        socket = await connect(base)
        await echo(checks, socket, "before")
        await socket.close(code, reason)
        received = socket.protocol.close_rcvd
        checks.that(received is not None and received.code == code, f"closed with {code}, the answer is {received}")
    # Without a word: what follows must not be disturbed.
    for _ in range(10):
        socket = await connect(base)
        await socket.send(content(100_000))
        socket.transport.abort()
        async with connect(base) as following:
            await echo(checks, following, "after")


async def concurrent(base, checks):
    async def one(worker):
        async with connect(base, "deflate" if worker % 2 else None) as socket:
            for number in range(10):
                await echo(checks, socket, content(worker * 1000 + number))

    await asyncio.gather(*(one(worker) for worker in range(32)))


async def ahead(base, checks):
    """Many messages before the first answer is read."""
    async with connect(base) as socket:
        whole = [content(1 + number * 37) for number in range(200)]
        sending = asyncio.gather(*(socket.send(message) for message in whole))
        for message in whole:
            checks.that(await asyncio.wait_for(socket.recv(), TIMEOUT_S) == message, f"echo of {len(message)}")
        await sending


KINDS = [
    ("messages", plain),
    ("deflate", deflate),
    ("fragments", fragmented),
    ("ping", ping),
    ("close", close),
    ("concurrent", concurrent),
    ("ahead", ahead),
]
