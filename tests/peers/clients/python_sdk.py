"""Calls the tools of `haft mcp serve` with version 2 of the official Python SDK.

Usage: python_sdk.py REVISION stdio COMMAND [ARGUMENT]...
       python_sdk.py REVISION http URL [TOKEN]
"""

import asyncio
import sys
from contextlib import AsyncExitStack

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from checks import TOOLS, Progress, check_unknown_tool, wait_until

KEY = "python-sdk"


async def open_client(stack: AsyncExitStack, transport: str, address: list[str]) -> Client:
    if transport == "stdio":
        server = StdioServerParameters(command=address[0], args=address[1:])
    else:
        url, *token = address
        headers = {"Authorization": f"Bearer {token[0]}"} if token else {}
        http_client = await stack.enter_async_context(create_mcp_http_client(headers=headers))
        server = streamable_http_client(url, http_client=http_client)
    return await stack.enter_async_context(Client(server))


async def check_calls(client: Client) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert TOOLS <= tools.keys(), tools.keys()
    assert tools["calculator"].output_schema is not None

    result = await client.call_tool("calculator", {"expression": "6 * 7"})
    assert not result.is_error and result.structured_content == {"result": "42", "exact": True}, (
        result
    )

    result = await client.call_tool("calculator", {"expresion": "6 * 7"})
    assert result.is_error and "expression" in result.content[0].text, result

    await check_unknown_tool(client.call_tool("calculatr", {}), MCPError)


async def check_cancellation(client: Client) -> None:
    progress = Progress()

    async def was_cancelled() -> bool:
        result = await client.call_tool("was_cancelled", {"key": KEY})
        return result.content[0].text == "true"

    call = asyncio.create_task(
        client.call_tool("wait", {"key": KEY}, progress_callback=progress)
    )
    async with asyncio.timeout(20):
        await progress.wait()
        call.cancel()
        await wait_until(was_cancelled)


async def main(revision: str, transport: str, *address: str) -> None:
    async with AsyncExitStack() as stack:
        client = await open_client(stack, transport, list(address))
        assert client.protocol_version == revision, client.protocol_version
        assert client.server_info.name == "haft", client.server_info
        await check_calls(client)
        await check_cancellation(client)


asyncio.run(main(*sys.argv[1:]))
