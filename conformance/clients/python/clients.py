"""Checked requests of every kind to arena, with httpx (HTTP/1.1 and HTTP/2), aiohttp, urllib3 and websockets.

    clients.py --client NAME --base http://127.0.0.1:8080 --via direct|nginx|haproxy-h1|haproxy-h2

A line on stdout for each kind of request, `kind NAME PASSED FAILED`, the versions before them, `done` after them. What failed is on stderr.
"""

import argparse
import asyncio
import sys

import adapters
import kinds
import socket_kinds
from tally import run_kinds


async def run(flags):
    if flags.client == "websockets":
        print(f"version {socket_kinds.version()}", flush=True)
        return await run_kinds(socket_kinds.KINDS, flags.base)
    async with adapters.ALL[flags.client](flags.base) as target:
        target.via = flags.via
        print(f"version {target.version}", flush=True)
        return await run_kinds(kinds.KINDS, target)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--client", required=True, choices=[*adapters.ALL, "websockets"])
    parser.add_argument("--base", required=True)
    parser.add_argument("--via", default="direct", choices=["direct", "nginx", "haproxy-h1", "haproxy-h2"])
    sys.exit(0 if asyncio.run(run(parser.parse_args())) else 1)


main()
