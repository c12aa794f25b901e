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

from checks import TOOLS, Progress, check_unknown_tool, wait_until

KEY = "fastmcp"


def open_transport(transport: str, address: list[str]) -> StdioTransport | StreamableHttpTransport:
    if transport == "stdio":
        return StdioTransport(command=address[0], args=address[1:])
    url, *token = address
    return StreamableHttpTransport(url, auth=token[0] if token else None)


async def check_calls(client: Client) -> None:
    names = {tool.name for tool in await client.list_tools()}
    assert TOOLS <= names, names

    result = await client.call_tool("calculator", {"expression": "6 * 7"})
    assert (result.data.result, result.data.exact) == ("42", True), result

    try:
        result = await client.call_tool("calculator", {"expresion": "6 * 7"})
    except ToolError as error:
        assert "expression" in str(error), error
    else:
        raise AssertionError(result)

    await check_unknown_tool(client.call_tool("calculatr", {}), MCPError)


async def check_cancellation(client: Client) -> None:
    progress = Progress()

    async def was_cancelled() -> bool:
        return (await client.call_tool("was_cancelled", {"key": KEY})).data

    call = asyncio.create_task(client.call_tool("wait", {"key": KEY}, progress_handler=progress))
    async with asyncio.timeout(20):
        await progress.wait()
        call.cancel()
        await wait_until(was_cancelled)


async def main(revision: str, transport: str, *address: str) -> None:
    async with Client(open_transport(transport, list(address))) as client:
        assert client.protocol_version == revision, client.protocol_version
        assert client.server_info.name == "haft", client.server_info
        await check_calls(client)
        await check_cancellation(client)


asyncio.run(main(*sys.argv[1:]))
