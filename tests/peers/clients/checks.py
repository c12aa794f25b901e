"""The checks of the Python clients."""

import asyncio
from collections.abc import Awaitable, Callable

TOOLS = {"calculator", "wait", "was_cancelled"}


async def check_unknown_tool(call: Awaitable[object], error_type: type[Exception]) -> None:
    """Checks the error of a call of the tool `calculatr`."""
    try:
        result = await call
    except error_type as error:
        assert error.error.code == -32602 and "calculatr" in error.error.message, error
    else:
        raise AssertionError(result)


class Progress:
    """Receives the progress notification of the tool `wait`."""

    def __init__(self) -> None:
        self._received = asyncio.Event()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        assert (progress, total, message) == (0, 60, "waiting")
        self._received.set()

    async def wait(self) -> None:
        await self._received.wait()


async def wait_until(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():
        await asyncio.sleep(0.05)
