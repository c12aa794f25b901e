"""Calls the tools of `haft mcp serve` with version 1 of the official Python SDK.

Usage: python_sdk_v1.py REVISION stdio COMMAND [ARGUMENT]...
       python_sdk_v1.py REVISION http URL [TOKEN]
"""

import asyncio
import sys
from contextlib import AsyncExitStack

from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from checks import TOOLS, Progress, check_unknown_tool, wait_until

KEY = "python-sdk-v1"


async def open_session(stack: AsyncExitStack, transport: str, address: list[str]) -> ClientSession:
    if transport == "stdio":
        server = stdio_client(StdioServerParameters(command=address[0], args=address[1:]))
    else:
        url, *token = address
        headers = {"Authorization": f"Bearer {token[0]}"} if token else {}
        http_client = await stack.enter_async_context(create_mcp_http_client(headers=headers))
        server = streamable_http_client(url, http_client=http_client)
    read, write, *_ = await stack.enter_async_context(server)
    return await stack.enter_async_context(ClientSession(read, write))


async def check_calls(session: ClientSession) -> None:
    tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    assert TOOLS <= tools.keys(), tools.keys()
    assert tools["calculator"].outputSchema is not None

    result = await session.call_tool("calculator", {"expression": "6 * 7"})
    assert not result.isError and result.structuredContent == {"result": "42", "exact": True}, (
        result
    )

    result = await session.call_tool("calculator", {"expresion": "6 * 7"})
    assert result.isError and "expression" in result.content[0].text, result

    await check_unknown_tool(session.call_tool("calculatr", {}), McpError)


async def check_cancellation(session: ClientSession) -> None:
    progress = Progress()

    async def was_cancelled() -> bool:
        result = await session.call_tool("was_cancelled", {"key": KEY})
        return result.content[0].text == "true"

    # The SDK neither returns the id of a request nor sends a notification for a cancelled task.
    request_id = session._request_id
    call = asyncio.create_task(
        session.call_tool("wait", {"key": KEY}, progress_callback=progress)
    )
    async with asyncio.timeout(20):
        await progress.wait()
        params = types.CancelledNotificationParams(requestId=request_id)
        await session.send_notification(
            types.ClientNotification(types.CancelledNotification(params=params))
        )
        await wait_until(was_cancelled)
    call.cancel()


async def main(revision: str, transport: str, *address: str) -> None:
    async with AsyncExitStack() as stack:
        session = await open_session(stack, transport, list(address))
        initialized = await session.initialize()
        assert initialized.protocolVersion == revision, initialized
        assert initialized.serverInfo.name == "haft", initialized
        await session.send_ping()
        await check_calls(session)
        await check_cancellation(session)


asyncio.run(main(*sys.argv[1:]))
