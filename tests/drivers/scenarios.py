"""Runs the scenarios of a Python driver's program: each is a function, alone or a coroutine; each counts as passed or failed."""

import asyncio
import inspect
import os
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor

POOL_SIZE = int(os.environ["WEIR_POOL_SIZE"])
# More clients than the pooler has server connections.
CLIENTS = POOL_SIZE * 2 + 2


def by_many(work):
    """Runs `work(number)` in as many threads as there are clients; the first exception is raised."""
    with ThreadPoolExecutor(CLIENTS) as threads:
        return list(threads.map(work, range(CLIENTS)))


async def by_many_tasks(work):
    """Runs `work(number)` in as many tasks as there are clients; the first exception is raised."""
    return await asyncio.gather(*(work(number) for number in range(CLIENTS)))


def equal(found, expected):
    if found != expected:
        raise AssertionError(f"found {found!r:.300}, expected {expected!r:.300}")


async def _within_a_minute(scenario):
    async with asyncio.timeout(60):
        await scenario()


def _fails(scenario):
    try:
        if inspect.iscoroutinefunction(scenario):
            asyncio.run(_within_a_minute(scenario))
        else:
            scenario()
    except BaseException:
        print(f"FAILED: {scenario.__name__}")
        traceback.print_exc(limit=-6)
        return True
    return False


def run(scenarios):
    failed = sum([_fails(scenario) for scenario in scenarios])
    print(f"{len(scenarios) - failed} passed, {failed} failed", flush=True)
    sys.exit(failed > 0)
