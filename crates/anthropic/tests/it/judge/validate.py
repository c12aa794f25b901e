"""Checks requests with the types of Anthropic's Python SDK, and prints replies that it can read.

`validate.py requests` reads JSON lines such as {"kind": "create", "body": {...}} and prints the
faults of each body, one a line. The kinds are `create`, `beta` and `count`.
`validate.py replies` prints replies that are built from the models of the SDK, one a line.
"""

import importlib
import json
import pkgutil
import sys
import typing

# pydantic checks the elements of an `Iterable` only when they are read.
typing.Iterable = typing.List

import anthropic.types
import pydantic
import pydantic_core
from typing_extensions import is_typeddict


def forbid_unknown_keys():
    """A `TypedDict` accepts unknown keys by default, and so do the models of replies, which the SDK
    also accepts in requests."""

    def only_instances(cls, source, handler):
        return pydantic_core.core_schema.is_instance_schema(cls)

    anthropic.BaseModel.__get_pydantic_core_schema__ = classmethod(only_instances)
    for info in pkgutil.walk_packages(anthropic.types.__path__, "anthropic.types."):
        module = importlib.import_module(info.name)
        for value in list(vars(module).values()):
            if is_typeddict(value) and not hasattr(value, "__pydantic_config__"):
                value.__pydantic_config__ = pydantic.ConfigDict(extra="forbid")


def adapters():
    from anthropic.types import message_count_tokens_params, message_create_params
    from anthropic.types.beta import message_create_params as beta_create_params

    types = {
        "create": message_create_params.MessageCreateParams,
        "beta": beta_create_params.MessageCreateParams,
        "count": message_count_tokens_params.MessageCountTokensParams,
    }
    return {kind: pydantic.TypeAdapter(type_) for kind, type_ in types.items()}


def faults(adapter, body):
    try:
        adapter.validate_python(body)
    except pydantic.ValidationError as error:
        return [f"{'/'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
    return []


def check_requests():
    forbid_unknown_keys()
    known = adapters()
    # The judge must find a fault.
    wrong = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "text", "text": "a", "x": 1}]}]}
    if not faults(known["create"], {**wrong, "stream": False}):
        print("the judge accepts unknown keys")
    for number, line in enumerate(sys.stdin):
        request = json.loads(line)
        for fault in faults(known[request["kind"]], request["body"]):
            print(f"{number}: {fault}")


def print_replies():
    from anthropic import types

    def reply(content, stop_reason, **fields):
        usage = types.Usage(input_tokens=10, output_tokens=5, cache_read_input_tokens=3, cache_creation_input_tokens=2)
        message = types.Message(
            id="msg_1",
            type="message",
            role="assistant",
            model="claude-opus-5-5",
            content=content,
            stop_reason=stop_reason,
            usage=usage,
            **fields,
        )
        print(message.model_dump_json())

    text = types.TextBlock(type="text", text="Hi")
    citation = types.CitationsWebSearchResultLocation(
        type="web_search_result_location", url="https://a.example", title="A", encrypted_index="e", cited_text="q"
    )
    result = types.WebSearchResultBlock(
        type="web_search_result", url="https://a.example", title="A", encrypted_content="x"
    )
    reply(
        [
            types.ThinkingBlock(type="thinking", thinking="I think.", signature="s1"),
            types.RedactedThinkingBlock(type="redacted_thinking", data="x"),
            types.ServerToolUseBlock(type="server_tool_use", id="srv_1", name="web_search", input={"query": "a"}),
            types.WebSearchToolResultBlock(type="web_search_tool_result", tool_use_id="srv_1", content=[result]),
            types.TextBlock(type="text", text="It is A.", citations=[citation]),
            types.ToolUseBlock(type="tool_use", id="toolu_1", name="add", input={"x": 1}),
        ],
        "tool_use",
    )
    details = types.RefusalStopDetails(type="refusal", category="bio", explanation="No.")
    reply([text], "refusal", stop_details=details)
    for reason in ["end_turn", "max_tokens", "stop_sequence", "model_context_window_exceeded"]:
        reply([text], reason)


if __name__ == "__main__":
    {"requests": check_requests, "replies": print_replies}[sys.argv[1]]()
