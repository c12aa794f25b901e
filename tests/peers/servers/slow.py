"""An MCP server with a call that ends when it is cancelled, on standard input and output."""

import asyncio

from fastmcp import Context, FastMCP

server = FastMCP("slow")
cancelled_calls: set[str] = set()


@server.tool
async def wait(key: str, context: Context) -> str:
    """Reports progress, then waits for a minute."""
    await context.report_progress(0, 60, "waiting")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        cancelled_calls.add(key)
        raise
    return "not cancelled"


@server.tool
def was_cancelled(key: str) -> bool:
    """Returns true if the call of `wait` with this key was cancelled."""
    return key in cancelled_calls


if __name__ == "__main__":
    server.run(transport="stdio", show_banner=False)
