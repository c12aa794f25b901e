"""Calls the tools of `haft mcp serve` with the client of FastMCP.

Usage: fastmcp_client.py REVISION stdio COMMAND [ARGUMENT]...
       fastmcp_client.py REVISION http URL [TOKEN]
"""

import asyncio
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp.exceptions import ToolError
from mcp import MCPError

KEY = "fastmcp"


def open_transport(transport: str, address: list[str]) -> StdioTransport | StreamableHttpTransport:
    if transport == "stdio":
        return StdioTransport(command=address[0], args=address[1:])
    url, *token = address
    return StreamableHttpTransport(url, auth=token[0] if token else None)


async def check_calls(client: Client) -> None:
    names = {tool.name for tool in await client.list_tools()}
    assert {"calculator", "wait", "was_cancelled"} <= names, names

    result = await client.call_tool("calculator", {"expression": "6 * 7"})
    assert (result.data.result, result.data.exact) == ("42", True), result

    try:
        result = await client.call_tool("calculator", {"expresion": "6 * 7"})
    except ToolError as error:
        assert "expression" in str(error), error
    else:
        raise AssertionError(result)

    try:
        result = await client.call_tool("calculatr", {})
    except MCPError as error:
        assert error.code == -32602 and "calculatr" in error.message, error
    else:
        raise AssertionError(result)


async def check_cancellation(client: Client) -> None:
    started = asyncio.Event()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        assert (progress, total, message) == (0, 60, "waiting")
        started.set()

    call = asyncio.create_task(client.call_tool("wait", {"key": KEY}, progress_handler=on_progress))
    async with asyncio.timeout(20):
        await started.wait()
        call.cancel()
        while not (await client.call_tool("was_cancelled", {"key": KEY})).data:
            await asyncio.sleep(0.05)


async def main(revision: str, transport: str, *address: str) -> None:
    async with Client(open_transport(transport, list(address))) as client:
        assert client.protocol_version == revision, client.protocol_version
        assert client.server_info.name == "haft", client.server_info
        await check_calls(client)
        await check_cancellation(client)


asyncio.run(main(*sys.argv[1:]))
