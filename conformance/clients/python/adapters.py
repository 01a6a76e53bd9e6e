"""The clients behind one face: a request and its whole answer, and requests that are cancelled at three places."""

import asyncio
import concurrent.futures
import contextlib
import dataclasses

import aiohttp
import httpx
import urllib3

# A request that takes so long has failed: it is far longer than any of them needs.
TIMEOUT_S = 30
# How long a client waits that gives up.
IMPATIENT_S = 0.02
CHUNK_BYTES = 10_000
# The largest body that is answered before it has been sent.
EARLY_BYTES_MAX = 5 << 20
# How long an answer is that the client does not read to its end.
ABANDONED_BYTES = 1_000_000_000


class Stopped(Exception):
    """The body ends here: the client gives up."""


@dataclasses.dataclass
class Answer:
    """One that was read to its end. Names of fields are in lower case."""

    status: int
    headers: dict
    body: bytes


def pieces(body):
    """A body whose length is not told: HTTP/1.1 sends it in chunks."""
    return (body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES))


def stopping(body):
    yield body
    raise Stopped


async def asynchronous(parts):
    for part in parts:
        yield part


class Httpx:
    def __init__(self, base, protocol):
        self.base, self.protocol = base, protocol
        # On HTTP/2 it takes a stream that was reset with NO_ERROR after its answer (RFC 9113 8.1) for an error, whichever server it is, if
        # it has not yet sent the body. What the first window takes it has always sent.
        self.early_bytes_max = EARLY_BYTES_MAX if protocol == 1 else 65_535
        # Nor does it reset a stream that it reads no more, or give back its part of the connection's window, which is 16 MiB.
        self.abandoned_bytes = ABANDONED_BYTES if protocol == 1 else 1_000_000
        self.version = f"httpx {httpx.__version__}"

    async def __aenter__(self):
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
        self.client = httpx.AsyncClient(
            base_url=self.base,
            http1=self.protocol == 1,
            http2=self.protocol == 2,
            timeout=TIMEOUT_S,
            limits=limits,
            trust_env=False,
        )
        return self

    async def __aexit__(self, *_):
        await self.client.aclose()

    async def send(self, method, path, headers=(), body=None, chunked=False):
        content = asynchronous(pieces(body)) if chunked else body
        response = await self.client.request(method, path, headers=list(headers), content=content)
        assert response.http_version == ("HTTP/2" if self.protocol == 2 else "HTTP/1.1"), response.http_version
        return Answer(response.status_code, dict(response.headers), response.content)

    async def stop_reading(self, path, count):
        async with self.client.stream("GET", path) as response:
            seen = 0
            async for chunk in response.aiter_raw():
                seen += len(chunk)
                if seen >= count:
                    return seen

    async def stop_sending(self, path, body):
        with contextlib.suppress(Stopped):
            await self.client.post(path, content=asynchronous(stopping(body)))
            return False
        return True

    async def stop_waiting(self, path):
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.client.get(path), IMPATIENT_S)
            return False
        return True


class Aiohttp:
    protocol = 1
    early_bytes_max = EARLY_BYTES_MAX
    abandoned_bytes = ABANDONED_BYTES

    def __init__(self, base):
        self.base = base
        self.version = f"aiohttp {aiohttp.__version__}"

    async def __aenter__(self):
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        self.session = aiohttp.ClientSession(self.base, timeout=timeout, auto_decompress=False)
        return self

    async def __aexit__(self, *_):
        await self.session.close()

    async def send(self, method, path, headers=(), body=None, chunked=False):
        data = asynchronous(pieces(body)) if chunked else body
        # It waits for the 100 if it is told by this flag.
        waits = ("Expect", "100-continue") in headers
        headers = [field for field in headers if field[0] != "Expect"]
        options = {"expect100": True} if waits else {}
        async with self.session.request(method, path, headers=headers, data=data, **options) as response:
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, headers, await response.read())

    async def stop_reading(self, path, count):
        async with self.session.get(path) as response:
            seen = 0
            async for chunk in response.content.iter_any():
                seen += len(chunk)
                if seen >= count:
                    response.close()
                    return seen

    async def stop_sending(self, path, body):
        # It hides what the body raises in an error of its own.
        with contextlib.suppress(Stopped, aiohttp.ClientError):
            async with self.session.post(path, data=asynchronous(stopping(body))):
                return False
        return True

    async def stop_waiting(self, path):
        with contextlib.suppress(asyncio.TimeoutError):
            timeout = aiohttp.ClientTimeout(total=IMPATIENT_S)
            async with self.session.get(path, timeout=timeout):
                return False
        return True


class Urllib3:
    """Of threads: each request is on one of 32."""

    protocol = 1
    early_bytes_max = EARLY_BYTES_MAX
    abandoned_bytes = ABANDONED_BYTES

    def __init__(self, base):
        self.base = base
        self.version = f"urllib3 {urllib3.__version__}"

    async def __aenter__(self):
        self.pool = urllib3.PoolManager(maxsize=64, retries=False, timeout=TIMEOUT_S)
        self.threads = concurrent.futures.ThreadPoolExecutor(32)
        return self

    async def __aexit__(self, *_):
        self.threads.shutdown()
        self.pool.clear()

    async def on_a_thread(self, call, *values):
        return await asyncio.get_running_loop().run_in_executor(self.threads, call, *values)

    async def send(self, method, path, headers=(), body=None, chunked=False):
        return await self.on_a_thread(self.send_now, method, path, headers, body, chunked)

    def send_now(self, method, path, headers, body, chunked):
        fields = urllib3.HTTPHeaderDict()
        for name, value in headers:
            fields.add(name, value)
        data = pieces(body) if chunked else body
        response = self.pool.request(method, self.base + path, headers=fields, body=data, chunked=chunked, decode_content=False)
        return Answer(response.status, {name.lower(): value for name, value in response.headers.items()}, response.data)

    async def stop_reading(self, path, count):
        return await self.on_a_thread(self.stop_reading_now, path, count)

    def stop_reading_now(self, path, count):
        response = self.pool.request("GET", self.base + path, preload_content=False)
        seen = len(response.read(count))
        response.close()
        return seen

    async def stop_sending(self, path, body):
        return await self.on_a_thread(self.stop_sending_now, path, body)

    def stop_sending_now(self, path, body):
        with contextlib.suppress(Stopped):
            self.pool.request("POST", self.base + path, body=stopping(body), chunked=True)
            return False
        return True

    async def stop_waiting(self, path):
        return await self.on_a_thread(self.stop_waiting_now, path)

    def stop_waiting_now(self, path):
        with contextlib.suppress(urllib3.exceptions.TimeoutError):
            self.pool.request("GET", self.base + path, timeout=IMPATIENT_S)
            return False
        return True


ALL = {
    "httpx-h1": lambda base: Httpx(base, 1),
    "httpx-h2": lambda base: Httpx(base, 2),
    "aiohttp": Aiohttp,
    "urllib3": Urllib3,
}
