//! Benches of the definitions of 1,000 tools: listing the tools of a toolset, and formatting their
//! definitions for a model request.

use std::{hint::black_box, process::ExitCode};

use haft_benches::{Case, Work, asynchronous, run};
use haft_core::{
    Schema, ToolDefinition, ToolName, Toolset,
    tool::DynamicTool,
    toolset::{ListContext, ToolList},
};
use serde_json::json;

const TOOLS: usize = 1_000;

fn main() -> ExitCode {
    run(
        "definitions",
        &[
            Case::new("snapshot, unchanged", || snapshot(toolset())),
            Case::new("snapshot, unchanged, of a source", || snapshot(Toolset::new().with_source(toolset()))),
            Case::new("in a request, first time", format_new).with_rounds(1),
            Case::new("in a request, again", format_cached)
                .with_baseline("in a request, first time")
                .with_max_ratio(0.01),
            Case::new("in a request, strict, first time", format_new_strict).with_rounds(1),
            Case::new("in a request, strict, again", format_cached_strict)
                .with_baseline("in a request, strict, first time")
                .with_max_ratio(0.01),
        ],
    )
}

fn tools() -> Vec<DynamicTool> {
    (0..TOOLS).filter_map(tool).collect()
}

/// Creates a tool with common argument types. Its name and its schema contain `number`, so no two
/// tools are equal.
fn tool(number: usize) -> Option<DynamicTool> {
    let schema = Schema::for_arguments(json!({
        "properties": {
            "query": {"type": "string", "description": format!("What to look for in place {number}.")},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
            "order": {"enum": ["newest", "oldest", "best"]},
            "filter": {"type": "object", "properties": {"since": {"type": "string", "format": "date"}}},
        },
        "required": ["query"],
    }));
    let name = ToolName::new(format!("search_{number}")).ok()?;
    let definition = ToolDefinition::new(name, schema.ok()?).with_description("Looks for something.");
    Some(DynamicTool::new(definition, |_, _| async { "found" }))
}

fn toolset() -> Toolset {
    Toolset::new().with_tools(tools())
}

fn snapshot(tools: Toolset) -> Work {
    let cx = ListContext::default();
    asynchronous(async move |rounds| {
        for _ in 0..rounds {
            black_box(tools.list(&cx).await);
        }
    })
}

/// Creates the [`Work`] of formatting the tool definitions for a model request, with an empty
/// cache.
fn format_new() -> Work {
    let tools = tools();
    Box::new(move |rounds| {
        for _ in 0..rounds {
            black_box(haft_openai::encode_tools(&ToolList::new("bench", tools.clone())));
        }
    })
}

/// Creates the [`Work`] of formatting the tool definitions for a model request, with all formatted
/// definitions in the cache.
fn format_cached() -> Work {
    let list = ToolList::new("bench", tools());
    Box::new(move |rounds| {
        for _ in 0..rounds {
            black_box(haft_openai::encode_tools(&list));
        }
    })
}

fn format_new_strict() -> Work {
    let tools = tools();
    Box::new(move |rounds| {
        for _ in 0..rounds {
            black_box(haft_openai::encode_strict_tools(&ToolList::new("bench", tools.clone())));
        }
    })
}

fn format_cached_strict() -> Work {
    let list = ToolList::new("bench", tools());
    Box::new(move |rounds| {
        for _ in 0..rounds {
            black_box(haft_openai::encode_strict_tools(&list));
        }
    })
}
