//! Benches of a tool call through the whole pipeline: parsing the text of the arguments, executing
//! the call, and recording the result.

use std::{
    hint::black_box,
    pin::pin,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::StreamExt as _;
use haft_benches::{Case, Work, asynchronous, run};
use haft_core::{
    Pipeline, Tool, ToolCall, ToolContext, ToolName, ToolResult,
    export::schemars::{self, JsonSchema},
    pipeline::{Batch, CallRecord, Recorder},
    tool,
    tool::{DynamicTool, RunContext},
    toolset::ToolList,
};
use serde::{Deserialize, de::DeserializeOwned};

const INTEGERS: &str = r#"{"x": 17, "y": 25}"#;
const SEARCH: &str = r#"{"query": "async runtime", "filter": {"language": "en", "since": 2024}, "limit": 5}"#;
const ORDER: &str = r#"{"customer": {"name": "Ada Lovelace", "email": "ada@example.org"}, "items": [
    {"sku": "A-1001", "quantity": 2}, {"sku": "B-2002", "quantity": 1}, {"sku": "C-3003", "quantity": 12}
], "note": "leave it at the door"}"#;

/// Adds two integers.
#[tool]
async fn add(x: i64, y: i64) -> i64 {
    x + y
}

#[derive(Deserialize)]
struct Integers {
    x: i64,
    y: i64,
}

/// Finds pages.
#[tool]
async fn search(query: String, filter: Filter, #[tool(default = 10)] limit: u32) -> String {
    search_result(&query, &filter, limit)
}

#[derive(Deserialize, JsonSchema)]
struct Filter {
    language: String,
    since: Option<u32>,
}

#[derive(Deserialize)]
struct Query {
    query: String,
    filter: Filter,
    limit: u32,
}

fn search_result(query: &str, filter: &Filter, limit: u32) -> String {
    format!("{limit} of {query} in {} since {:?}", filter.language, filter.since)
}

/// Places an order.
#[tool]
async fn place_order(customer: Customer, items: Vec<Item>, note: Option<String>) -> String {
    order_result(&customer, &items, note.as_deref())
}

#[derive(Deserialize, JsonSchema)]
struct Customer {
    name: String,
    email: String,
}

#[derive(Deserialize, JsonSchema)]
struct Item {
    sku: String,
    quantity: u32,
}

#[derive(Deserialize)]
struct Order {
    customer: Customer,
    items: Vec<Item>,
    note: Option<String>,
}

fn order_result(customer: &Customer, items: &[Item], note: Option<&str>) -> String {
    let pieces: u32 = items.iter().map(|item| item.quantity).sum();
    let first = items.first().map_or("nothing", |item| &item.sku);
    format!(
        "{pieces} pieces, {first} first, for {} ({}): {}",
        customer.name,
        customer.email,
        note.unwrap_or("-")
    )
}

fn main() -> ExitCode {
    let nanos = |nanos| Duration::from_nanos(nanos);
    let among = |count: usize| move || call_directly(numbered_tools(count), "tool_5", INTEGERS);
    run(
        "call",
        &[
            Case::new("two integers by hand", || {
                deserialize_by_hand(INTEGERS, |Integers { x, y }| (x + y).to_string())
            }),
            Case::new("two integers", || call_directly(ToolList::new("bench", [Add]), "add", INTEGERS))
                .with_goal(nanos(1_100))
                .with_baseline("two integers by hand")
                .with_max_ratio(12.0),
            Case::new("two integers, on a task of its own", || {
                call_in_batch(ToolList::new("bench", [Add]), "add", INTEGERS)
            })
            .with_baseline("two integers by hand")
            .with_max_ratio(24.0),
            Case::new("a nested object by hand", || {
                deserialize_by_hand(SEARCH, |Query { query, filter, limit }| {
                    search_result(&query, &filter, limit)
                })
            }),
            Case::new("a nested object", || {
                call_directly(ToolList::new("bench", [Search]), "search", SEARCH)
            })
            .with_goal(nanos(2_000))
            .with_baseline("a nested object by hand")
            .with_max_ratio(5.0),
            Case::new("an order by hand", || {
                deserialize_by_hand(ORDER, |Order { customer, items, note }| {
                    order_result(&customer, &items, note.as_deref())
                })
            }),
            Case::new("an order", || {
                call_directly(ToolList::new("bench", [PlaceOrder]), "place_order", ORDER)
            })
            .with_baseline("an order by hand")
            .with_max_ratio(5.0),
            Case::new("one of 10 tools", among(10))
                .with_baseline("two integers by hand")
                .with_max_ratio(12.0),
            Case::new("one of 1,000 tools", among(1_000))
                .with_baseline("one of 10 tools")
                .with_max_ratio(1.5),
            Case::new("one of 10,000 tools", among(10_000))
                .with_baseline("one of 10 tools")
                .with_max_ratio(1.5),
        ],
    )
}

/// Creates the [`Work`] of a call without haft: it parses `text` as JSON and calls `function` with
/// the parsed arguments.
fn deserialize_by_hand<A: DeserializeOwned + 'static>(text: &'static str, function: fn(A) -> String) -> Work {
    Box::new(move |rounds| {
        for _ in 0..rounds {
            black_box(serde_json::from_str(black_box(text)).map(function).ok());
        }
    })
}

/// Returns a list of `count` tools with different names. Each tool adds two integers.
fn numbered_tools(count: usize) -> ToolList {
    let named =
        |number| Some(Add.definition().clone().with_name(ToolName::new(format!("tool_{number}")).ok()?));
    let tools = (0..count).filter_map(named);
    ToolList::new(
        "bench",
        tools.map(|definition| {
            DynamicTool::new(definition, |arguments, _| async move {
                tool::parse_arguments(arguments).map(|Integers { x, y }| x + y)
            })
        }),
    )
}

/// Creates the [`Work`] of calls with `Pipeline::call`. Each call is awaited before the next call.
fn call_directly(tools: ToolList, name: &'static str, arguments: &'static str) -> Work {
    let pipeline = Pipeline::new().with_recorder(Tally::default());
    let (call, run) = (ToolCall::new("call_1", name, arguments), Arc::new(RunContext::default()));
    asynchronous(async move |rounds| {
        for _ in 0..rounds {
            let cx = ToolContext::new(Arc::clone(&run), call.id.as_str());
            black_box(pipeline.call(&tools, black_box(&call), &cx).await);
        }
    })
}

/// Creates the [`Work`] of calls with `Pipeline::stream_batch`. As in an agent, each call runs on
/// its own task.
fn call_in_batch(tools: ToolList, name: &'static str, arguments: &'static str) -> Work {
    let pipeline = Pipeline::new().with_recorder(Tally::default());
    let (calls, run) = (vec![ToolCall::new("call_1", name, arguments)], Arc::new(RunContext::default()));
    asynchronous(async move |rounds| {
        for _ in 0..rounds {
            let (tools, run) = (tools.clone(), Arc::clone(&run));
            let batch = Batch { run_context: run, ..Batch::new(tools, calls.clone()) };
            let mut outcomes = pin!(pipeline.stream_batch(batch));
            black_box(outcomes.next().await);
        }
    })
}

/// A minimal recorder, which only counts the successful calls.
#[derive(Default)]
struct Tally(AtomicU64);

impl Recorder for Tally {
    fn record(&self, record: &CallRecord<'_>) {
        self.0.fetch_add(u64::from(record.result().is_some_and(ToolResult::is_success)), Ordering::Relaxed);
    }
}
