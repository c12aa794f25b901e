"""Validates requests of haft-gemini with the types of Google's SDK, which forbid unknown fields.

Without an argument, reads JSON lines such as `{"api": "generate_content", "body": {…}}` from the
standard input, and prints a line for each fault. With the argument `replies`, prints JSON lines with
replies that are built from the types of the SDK.
"""

import json
import sys
import warnings
from typing import List, Optional

import pydantic
from google.genai import types
from google.genai._gaos.types.interactions.createmodelinteraction import CreateModelInteraction
from google.genai._gaos.types.interactions.interaction import Interaction


class GenerateContentBody(pydantic.BaseModel):
    """The body of `generateContent`. The SDK has no type for it, only for its fields."""

    model_config = pydantic.ConfigDict(
        alias_generator=pydantic.alias_generators.to_camel,
        extra="forbid",
        val_json_bytes="base64",
    )

    contents: List[types.Content]
    system_instruction: Optional[types.Content] = None
    tools: Optional[List[types.Tool]] = None
    tool_config: Optional[types.ToolConfig] = None
    safety_settings: Optional[List[types.SafetySetting]] = None
    generation_config: Optional[types.GenerationConfig] = None


def unknown_parts(value, path=""):
    """Yields the paths of variants that the SDK does not know. It accepts them as raw data."""
    if getattr(value, "is_unknown", False):
        yield path
    elif isinstance(value, pydantic.BaseModel):
        if value.model_extra:
            yield f"{path}: unknown fields {sorted(value.model_extra)}"
        for name in type(value).model_fields:
            yield from unknown_parts(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown_parts(item, f"{path}[{index}]")


def faults(api, body):
    """Yields a text for each fault of `body`."""
    model = GenerateContentBody if api == "generate_content" else CreateModelInteraction
    try:
        parsed = model.model_validate_json(json.dumps(body))
    except pydantic.ValidationError as error:
        for fault in error.errors():
            yield f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
    else:
        yield from unknown_parts(parsed, api)


def replies():
    """Yields replies with a thought, a text with a source, and a call."""
    part = types.Part
    call = types.FunctionCall(id="c1", name="add", args={"x": 1, "y": 2})
    grounding = types.GroundingMetadata(
        web_search_queries=["haft"],
        grounding_chunks=[types.GroundingChunk(web=types.GroundingChunkWeb(uri="https://a.org", title="a"))],
        grounding_supports=[
            types.GroundingSupport(
                segment=types.Segment(part_index=1, end_index=8, text="Grüße!"), grounding_chunk_indices=[0]
            )
        ],
    )
    candidate = types.Candidate(
        content=types.Content(
            role="model",
            parts=[
                part(text="Hm.", thought=True),
                part(text="Grüße!"),
                part(function_call=call, thought_signature=b"signature"),
            ],
        ),
        finish_reason=types.FinishReason.STOP,
        grounding_metadata=grounding,
        index=0,
    )
    reply = types.GenerateContentResponse(
        candidates=[candidate],
        response_id="r1",
        model_version="gemini-3-flash",
        usage_metadata=types.GenerateContentResponseUsageMetadata(
            prompt_token_count=10, candidates_token_count=5, thoughts_token_count=3
        ),
    )
    yield "generate_content", reply.model_dump_json(by_alias=True, exclude_none=True)
    reply = Interaction.model_validate(
        {
            "id": "r1",
            "status": "requires_action",
            "model": "gemini-3-flash",
            "steps": [
                {"type": "thought", "signature": "c2ln", "summary": [{"type": "text", "text": "Hm."}]},
                {
                    "type": "google_search_call",
                    "id": "s1",
                    "arguments": {"queries": ["haft"]},
                    "signature": "c2ln",
                },
                {"type": "google_search_result", "call_id": "s1", "result": [{"search_suggestions": "<b>"}]},
                {
                    "type": "model_output",
                    "content": [
                        {
                            "type": "text",
                            "text": "Grüße!",
                            "annotations": [
                                {
                                    "type": "url_citation",
                                    "start_index": 0,
                                    "end_index": 8,
                                    "url": "https://a.org",
                                    "title": "a",
                                }
                            ],
                        }
                    ],
                },
                {"type": "function_call", "id": "c1", "name": "add", "arguments": {"x": 1, "y": 2}},
            ],
            "usage": {"total_input_tokens": 10, "total_output_tokens": 5, "total_thought_tokens": 3},
        }
    )
    assert not list(unknown_parts(reply)), list(unknown_parts(reply))
    yield "interactions", reply.model_dump_json(by_alias=True, exclude_none=True)


def main():
    # The settings `temperature` and `top_p` are deprecated in the Interactions API.
    warnings.simplefilter("ignore", DeprecationWarning)
    if sys.argv[1:] == ["replies"]:
        for api, body in replies():
            print(json.dumps({"api": api, "body": json.loads(body)}))
        return
    for number, line in enumerate(sys.stdin, 1):
        request = json.loads(line)
        for fault in faults(request["api"], request["body"]):
            print(f"request {number} ({request['api']}): {fault}")


main()
