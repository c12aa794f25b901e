//! A model reads truncated results page by page.

use std::sync::Arc;

use expect_test::expect;
use haft_core::{
    Pipeline, Schema, Tool, ToolContext, ToolDefinition, ToolError, ToolExt, ToolName, ToolOutput,
    ToolResult, Toolset,
    call::FailureKind,
    content::Content,
    limits,
    pipeline::{MemoryResultStore, ResultStore as _},
    tool::{DynamicTool, Principal, RunContext, ToolPolicy},
};
use haft_middleware::ReadResult;
use serde_json::{Value, json};

fn long_result_tool(name: &str, text: impl Fn() -> String + Send + Sync + 'static) -> impl Tool {
    let definition = ToolDefinition::new(ToolName::new(name).unwrap(), Schema::object())
        .with_policy(ToolPolicy { output_limit: 100, ..ToolPolicy::default() });
    DynamicTool::new(definition, move |_, _| {
        let text = text();
        async move { text }
    })
}

fn context_of(principal: Option<&str>, run_id: &str) -> ToolContext {
    let principal = principal.map(|id| Principal { id: id.into(), ..Principal::default() });
    let run = RunContext { run_id: run_id.into(), principal, ..RunContext::default() };
    ToolContext::new(Arc::new(run), "1")
}

fn handle(result: &ToolResult) -> String {
    result.output().unwrap().result_handle.clone().unwrap()
}

async fn call_text(tools: &Toolset, name: &str, arguments: Value) -> String {
    tools.call(name, arguments).await.model_text().into_owned()
}

/// The note at the end of a truncated result contains the arguments for the next page. A model that
/// follows these notes must get the whole result.
#[tokio::test]
async fn following_the_hints_reads_the_whole_result() {
    let whole: String = (0..5_000).map(|n| format!("{n} äöü€😀\n")).collect();
    let (given, wanted) = (whole.clone(), whole.chars().count());
    let tools = Toolset::new()
        .with_tool(long_result_tool("list", move || given.clone()))
        .with_tool(ReadResult::new());
    let first = tools.call("list", json!({})).await;
    let shown = first.model_text().into_owned();
    let (start, mark) = shown.rsplit_once('[').unwrap();
    assert!(mark.ends_with("}]"), "{mark}");
    let mut read = start.trim_end_matches('\n').to_owned();
    let (_, hint) = mark.split_once("read on with read_result ").unwrap();
    let mut arguments: Value = serde_json::from_str(hint.trim_end_matches(']')).unwrap();
    assert_eq!(arguments["handle"], json!(handle(&first)));
    loop {
        let offset = usize::try_from(arguments["offset"].as_u64().unwrap()).unwrap();
        assert_eq!(offset, read.chars().count());
        let page = tools.call("read_result", arguments.clone()).await;
        assert!(page.output().unwrap().result_handle.is_none());
        let page = page.model_text().into_owned();
        let (head, part) = page.split_once('\n').unwrap();
        let end = offset + part.chars().count();
        assert_eq!(head, format!("[characters {offset} to {end} of {wanted}]"));
        read.push_str(part);
        if end == wanted {
            break;
        }
        arguments["offset"] = json!(end);
    }
    assert_eq!(read, whole);
}

#[tokio::test]
async fn offset_limit_and_find_select_a_page() {
    let tools = Toolset::new()
        .with_tool(long_result_tool("list", || format!("{}needle in a haystack, needle", "äx ".repeat(100))))
        .with_tool(ReadResult::new());
    let handle = handle(&tools.call("list", json!({})).await);
    let read = async |mut arguments: Value| {
        arguments["handle"] = json!(handle);
        call_text(&tools, "read_result", arguments).await
    };
    expect![[r#"
        [characters 298 to 303 of 328]
        x nee"#]]
    .assert_eq(&read(json!({"offset": 298, "limit": 5})).await);
    expect![[r#"
        [characters 300 to 309 of 328]
        needle in"#]]
    .assert_eq(&read(json!({"find": "needle", "limit": 9})).await);
    expect![[r#"
        [characters 322 to 328 of 328]
        needle"#]]
    .assert_eq(&read(json!({"find": "needle", "offset": 301})).await);
    expect![[r#"["needle" is not in characters 323 to 328]"#]]
        .assert_eq(&read(json!({"find": "needle", "offset": 323})).await);
    expect![[r#"
        [characters 328 to 328 of 328]
    "#]]
    .assert_eq(&read(json!({"offset": 328})).await);
    expect!["invalid arguments: /offset: the result has 328 characters"]
        .assert_eq(&read(json!({"offset": 329})).await);
    expect![[r#"
        invalid arguments: /offset: expected at least 0, received integer -1
        /limit: expected at least 1, received integer 0
        /: unknown property "from"; known properties: "handle", "offset", "limit", "find""#]]
    .assert_eq(&read(json!({"offset": -1, "limit": 0, "from": 3})).await);
}

/// A page is itself the result of a call to `read_result`. The pipeline must not store it again,
/// even if it consists of multi-byte characters, or if the output limit of `read_result` truncates
/// it.
#[tokio::test]
async fn pages_are_not_stored_again() {
    let store = Arc::new(MemoryResultStore::default());
    let pipeline = Pipeline::new().with_store(Arc::clone(&store));
    let small = ReadResult::new().with_definition(|it| {
        it.with_name("peek").with_policy(ToolPolicy { output_limit: 40, ..ToolPolicy::default() })
    });
    let tools = Toolset::new()
        .with_tool(long_result_tool("list", || "😀".repeat(100_000)))
        .with_tool(ReadResult::new())
        .with_tool(small)
        .with_pipeline(pipeline);
    let ann = context_of(Some("ann"), "");
    let handle = handle(&tools.call_with("list", json!({}), &ann).await);
    let page = tools.call_with("read_result", json!({"handle": handle}), &ann).await;
    let read = page.model_text().into_owned();
    assert!(read.ends_with('😀') && read.len() > 4 * limits::READ_RESULT_CHARACTERS);
    assert!(read.starts_with("[characters 0 to 30000 of 100000]\n😀"));
    let cut = tools.call_with("peek", json!({"handle": handle}), &ann).await;
    expect![[r#"
        [characters 0 to 30000 of 100000]
        😀
        [119996 of 120034 bytes in 1 pieces are cut; ask for fewer characters]"#]]
    .assert_eq(&cut.model_text());
    assert_eq!(store.handles(&ann).await.unwrap(), [handle]);
}

/// `read_result` cannot read omitted media, so the note at the end of the result must not suggest a
/// call to it.
#[tokio::test]
async fn omitted_media_has_no_hint() {
    let definition = ToolDefinition::new(ToolName::new("draw").unwrap(), Schema::object());
    let draw = DynamicTool::new(definition, |_, _| async {
        vec![Content::text("a cat"), Content::from_bytes(vec![0; 17 << 20], "image/png")]
    });
    let result = Toolset::new().with_tool(draw).with_tool(ReadResult::new()).call("draw", json!({})).await;
    let text = result.model_text().into_owned();
    assert!(text.starts_with("a cat\n[image/png, 17825792 bytes]\n[media of 17825792 bytes"), "{text}");
    assert!(!text.contains("read on"), "{text}");
}

/// A stored result and its handle must be visible only to the principal of the call. Without a
/// principal, they must be visible only in the same run.
#[tokio::test]
async fn results_are_private_to_their_owner() {
    let tools =
        Toolset::new().with_tool(long_result_tool("list", || "x".repeat(200))).with_tool(ReadResult::new());
    let owners =
        [(Some("ann"), "run_1"), (Some("bob"), "run_1"), (None, "run_1"), (None, "run_2"), (None, "")];
    let mut handles = Vec::new();
    for (principal, run) in owners {
        handles.push(handle(&tools.call_with("list", json!({}), &context_of(principal, run)).await));
    }
    for (mine, (principal, run)) in owners.iter().enumerate() {
        for (other, handle) in handles.iter().enumerate() {
            let cx = context_of(*principal, run);
            let result = tools.call_with("read_result", json!({"handle": handle}), &cx).await;
            assert_eq!(result.is_success(), mine == other, "{principal:?} {run} {other}");
            if mine != other {
                let known = match (principal, *run) {
                    (None, "") => "the end of a long result says how it is stored".to_owned(),
                    _ => format!("stored, newest first: {}", handles[mine]),
                };
                let text = format!("no result is stored as {handle:?}, or it was forgotten; {known}");
                assert_eq!(result.model_text(), text);
            }
        }
    }
    // A principal can also read results of its earlier runs.
    let later = tools
        .call_with("read_result", json!({"handle": handles[0]}), &context_of(Some("ann"), "run_9"))
        .await;
    assert!(later.is_success());
    let other = tools.call_with("read_result", json!({"handle": "x"}), &context_of(Some("eve"), "")).await;
    assert_eq!(other.failure().unwrap().kind, FailureKind::Failed);
    expect![[
        r#"no result is stored as "x", or it was forgotten; the end of a long result says how it is stored"#
    ]]
    .assert_eq(&other.model_text());
}

/// The note at the end of a truncated result must contain the name under which `read_result` is
/// listed. If `read_result` is not listed, the note must not suggest a call to it.
#[tokio::test]
async fn hint_names_only_a_listed_tool() {
    let list = || long_result_tool("list", || "x".repeat(200));
    let without = Toolset::new().with_tool(list());
    assert!(!call_text(&without, "list", json!({})).await.contains("read on"));
    let readers = Toolset::new().with_tool(ReadResult::new()).prefixed("x_");
    let renamed = Toolset::new().with_source(Toolset::new().with_tool(list())).with_source(readers);
    let shown = call_text(&renamed, "list", json!({})).await;
    assert!(shown.contains("; read on with x_read_result {\"handle\":"), "{shown}");
    // A truncated error message ends with the same note as a truncated result.
    let fails = DynamicTool::new(
        ToolDefinition::new(ToolName::new("fail").unwrap(), Schema::object()),
        |_, _| async { Err::<(), _>(ToolError::failed("ä".repeat(100_000))) },
    );
    let both = Toolset::new().with_tool(fails).with_tool(ReadResult::new());
    let shown = call_text(&both, "fail", json!({})).await;
    assert!(shown.ends_with("\"offset\":65536}]"), "{}", &shown[shown.len() - 200..]);
}

/// `read_result` must return the content blocks of a result in order, with a description in place
/// of each media block.
#[tokio::test]
async fn parts_are_read_in_order() {
    let definition = ToolDefinition::new(ToolName::new("draw").unwrap(), Schema::object())
        .with_policy(ToolPolicy { output_limit: 30, ..ToolPolicy::default() });
    let draw = DynamicTool::new(definition, |_, _| async {
        vec![
            Content::text("one"),
            Content::from_bytes(vec![0; 9], "image/png"),
            Content::text("two".repeat(9)),
        ]
    });
    let tools = Toolset::new().with_tool(draw).with_tool(ReadResult::new());
    let first = tools.call("draw", json!({})).await;
    let shown = first.model_text();
    assert!(shown.contains("\"offset\":32}]"), "{shown}");
    let rest = call_text(&tools, "read_result", json!({"handle": handle(&first), "offset": 20})).await;
    expect![[r#"
        [characters 20 to 52 of 52]
        tes]
        twotwotwotwotwotwotwotwotwo"#]]
    .assert_eq(&rest);
}

#[tokio::test]
async fn without_a_store_reading_fails() {
    let result = ReadResult::new().invoke(json!({"handle": "x"})).await;
    assert_eq!(result.model_text(), "no results are stored here");
    let by_hand = ReadResult::new().call(json!({"handle": "x"}), &ToolContext::default()).await;
    assert_eq!(by_hand.unwrap_err().to_string(), "no results are stored here");
    let whole = Toolset::new()
        .with_pipeline(Pipeline::unbounded())
        .with_tool(long_result_tool("list", || "x".repeat(200)));
    assert_eq!(whole.call("list", json!({})).await.output(), Some(&ToolOutput::from("x".repeat(200))));
}

/// A store with numbered handles must assign the same handles in each run of a program, so that
/// recorded conversations can be replayed.
#[tokio::test]
async fn numbered_handles_are_reproducible() {
    let shown = async || {
        let store = MemoryResultStore::default().with_numbered_handles();
        let tools = Toolset::new()
            .with_tool(long_result_tool("list", || "x".repeat(1_000)))
            .with_tool(ReadResult::new())
            .with_pipeline(Pipeline::new().with_store(store));
        let first = tools.call("list", json!({})).await;
        let second = tools.call("list", json!({})).await;
        let read = call_text(&tools, "read_result", json!({"handle": handle(&second)})).await;
        assert!(read.ends_with("xxx"), "{read}");
        [first, second].map(|it| it.model_text().into_owned())
    };
    let [first, second] = shown().await;
    assert_ne!(first, second);
    assert_eq!([first, second], shown().await);
}
