//! Behaviour of each adaptor for toolsets and tool sources.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use expect_test::expect;
use haft_core::{
    Schema, Tool, ToolCall, ToolContext, ToolDefinition, ToolError, ToolName, ToolOutput, ToolSource,
    Toolset,
    call::{Decision, Pending, PendingKind, ToolResponse},
    content::Content,
    export::async_trait,
    pipeline::CallOutcome,
    tool::DynamicTool,
    toolset::{ListContext, SourceError, ToolList},
};
use haft_middleware::ToolRegistry;
use haft_middleware::ToolsetMiddleware as _;
use serde_json::json;

/// A tool that returns the name in its own definition, which adaptors do not change.
struct OwnName(ToolDefinition);

#[async_trait]
impl Tool for OwnName {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    async fn call(&self, _: serde_json::Value, _: &ToolContext) -> Result<ToolResponse, ToolError> {
        Ok(format!("I am {}", self.0.name()).into())
    }
}

fn own_name(name: &str) -> OwnName {
    OwnName(ToolDefinition::new(ToolName::new(name).unwrap(), Schema::object()))
}

fn plugin_registry(names: &[&str]) -> ToolRegistry {
    let registry = ToolRegistry::new("plugins");
    names.iter().for_each(|name| registry.register(own_name(name)).unwrap());
    registry
}

fn plugin_tools(names: &[&str]) -> Toolset {
    Toolset::from_source(plugin_registry(names))
}

async fn list(source: &impl ToolSource) -> ToolList {
    source.tools(&ListContext::default()).await.unwrap()
}

async fn names(source: &impl ToolSource) -> String {
    list(source).await.names().map(ToolName::as_str).collect::<Vec<_>>().join(" ")
}

async fn result_text(tools: &Toolset, name: &str) -> String {
    tools.call(name, json!({})).await.model_text().into_owned()
}

/// A prefixed tool is called by its new name, but its implementation still sees the original name.
#[tokio::test]
async fn prefixed_tool_sees_its_own_name() {
    let source = plugin_tools(&["search", "get"]).prefixed("web_");
    assert_eq!((source.label(), names(&source).await), ("plugins", "web_search web_get".to_owned()));
    let tools = Toolset::new().with_source(source);
    assert_eq!(result_text(&tools, "web_search").await, "I am search");
    assert!(result_text(&tools, "search").await.starts_with("unknown tool"));
    // If a prefix makes names invalid or too long, the adaptor converts them into valid names,
    // which are still distinct.
    let long = plugin_tools(&["search-a", "search_a"]).prefixed("my server!.".repeat(9));
    let list = list(&long).await;
    assert_eq!(list.len(), 2);
    assert!(list.names().all(|name| name.as_str().len() <= 64));
}

/// A renamed tool is called by its new name. Two tools can swap their names, and a new name also
/// applies to a tool that is registered later.
#[tokio::test]
async fn renamed_tool_is_called_by_its_new_name() {
    let tools = plugin_registry(&["search", "get", "a", "b"]);
    let renamed = Toolset::from_source(tools.clone())
        .renamed([("search", "find"), ("a", "b"), ("b", "a"), ("later", "soon")])
        .unwrap();
    assert_eq!(names(&renamed).await, "find get b a");
    let toolset = Toolset::new().with_source(renamed);
    assert_eq!(result_text(&toolset, "find").await, "I am search");
    assert_eq!(result_text(&toolset, "a").await, "I am b");
    tools.register(own_name("later")).unwrap();
    assert_eq!(result_text(&toolset, "soon").await, "I am later");
}

/// If a tool is renamed to the name of another tool, the listing fails. If a new name is invalid,
/// `renamed` returns an error.
#[tokio::test]
async fn renaming_to_a_used_or_invalid_name_is_an_error() {
    let error = async |names: &[(&str, &str)]| {
        let renamed = plugin_tools(&["search", "get", "find"]).renamed(names.iter().copied()).unwrap();
        renamed.tools(&ListContext::default()).await.unwrap_err().to_string()
    };
    expect![[r#"tool source plugins: the tool "search" cannot be renamed to "find": the tool "find" has that name; choose another"#]].assert_eq(&error(&[("search", "find")]).await);
    expect![[r#"tool source plugins: the tool "search" cannot be renamed to "look": the tool "get" has that name; choose another"#]].assert_eq(&error(&[("search", "look"), ("get", "look")]).await);
    let invalid = plugin_tools(&["search"]).renamed([("search", "look up")]).err().unwrap();
    expect![[r#""look up" is not a tool name: use 1 to 64 of the letters A-Z and a-z, digits, "_" and "-""#]]
        .assert_eq(&invalid.to_string());
}

/// A call to a hidden tool fails like a call to an unknown tool. The error lists only the visible
/// tools.
#[tokio::test]
async fn filtered_tool_is_unknown() {
    let source = plugin_tools(&["search", "delete"]).filtered(|it| *it.name() != *"delete");
    let tools = Toolset::new().with_source(source);
    expect![[r#"unknown tool "delete"; available: search"#]].assert_eq(&result_text(&tools, "delete").await);
}

/// An output is mapped before it is validated against the output schema.
#[tokio::test]
async fn results_are_mapped_before_validation() {
    let number = ToolDefinition::new(ToolName::new("number").unwrap(), Schema::object())
        .with_output_schema(Schema::new(json!({"type": "integer"})).unwrap());
    let registry = plugin_registry(&["search", "fail"]);
    registry
        .register(DynamicTool::new(number, |_, _| async { ToolOutput::structured(json!("secret")) }))
        .unwrap();
    let tools = Toolset::new().with_source(Toolset::from_source(registry).mapped(|definition, output| {
        match definition.name().as_str() {
            "number" => Ok(ToolOutput::structured(json!(1))),
            "fail" => Err(ToolError::failed("not that")),
            name => Ok(ToolOutput {
                content: vec![Content::text(format!("{name}: {}", output.text()))],
                ..output
            }),
        }
    }));
    assert_eq!(result_text(&tools, "search").await, "search: I am search");
    assert_eq!(result_text(&tools, "number").await, "1");
    assert_eq!(result_text(&tools, "fail").await, "not that");
}

/// Calls the tool `pay` and returns the outcome. If `resumed` is `Some`, resumes the suspended call
/// with the decision instead.
async fn call_outcome(tools: &Toolset, resumed: Option<(Pending, Decision)>) -> CallOutcome {
    let list = tools.list(&ListContext::default()).await;
    let mut cx = ToolContext::default();
    if let Some((pending, decision)) = resumed {
        cx = cx.with_resumed(pending.resume(decision).unwrap());
    }
    tools.pipeline().call(&list, &ToolCall::new("1", "pay", "{}"), &cx).await
}

/// A call to a tool with `approval_required` is suspended and resumed with an approval. A call to
/// an `external` tool is suspended and resumed with its output.
#[tokio::test]
async fn calls_for_approval_and_external_calls_are_suspended_and_resumed() {
    let tools =
        Toolset::new().with_source(plugin_tools(&["pay"]).approval_required(|it| *it.name() == *"pay"));
    let CallOutcome::Pending(suspended) = call_outcome(&tools, None).await else { panic!() };
    assert!(matches!(suspended.pending.kind, PendingKind::Approval { .. }));
    let done = call_outcome(&tools, Some((suspended.pending, Decision::approved()))).await.into_result();
    assert_eq!(done.model_text(), "I am pay");

    let tools = Toolset::new().with_source(plugin_tools(&["pay"]).external(|_| true));
    let CallOutcome::Pending(suspended) = call_outcome(&tools, None).await else { panic!() };
    assert_eq!(suspended.pending.kind, PendingKind::External);
    let done = call_outcome(&tools, Some((suspended.pending, Decision::output("paid")))).await.into_result();
    assert_eq!(done.model_text(), "paid");
}

/// A source that returns an error for its first listing, and counts its listings.
struct FailsFirst(ToolRegistry, Arc<AtomicU32>);

#[async_trait]
impl ToolSource for FailsFirst {
    fn label(&self) -> &str {
        "counting"
    }

    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
        match self.1.fetch_add(1, Ordering::Relaxed) {
            0 => Err(SourceError::new("counting", "not yet")),
            _ => self.0.tools(cx).await,
        }
    }
}

/// A source that is `cached` for 10 s is listed again only after 10 s. A failed listing is not
/// cached.
#[tokio::test(start_paused = true)]
async fn cached_source_is_listed_again_after_its_ttl() {
    let (registry, listings) = (plugin_registry(&["a"]), Arc::new(AtomicU32::new(0)));
    let cached = Toolset::from_source(FailsFirst(registry.clone(), Arc::clone(&listings)))
        .cached(Duration::from_secs(10));
    assert!(cached.tools(&ListContext::default()).await.is_err());
    assert_eq!(names(&cached).await, "a");
    registry.register(own_name("b")).unwrap();
    tokio::time::advance(Duration::from_secs(9)).await;
    assert_eq!((names(&cached).await, listings.load(Ordering::Relaxed)), ("a".to_owned(), 2));
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!((names(&cached).await, listings.load(Ordering::Relaxed)), ("a b".to_owned(), 3));
}

/// If two `combined` sources have a tool with the same name, the tool of the second source is
/// withheld. If one source fails, the tools of the other source are listed.
#[tokio::test]
async fn combined_sources_share_one_list() {
    let combined = plugin_tools(&["a", "b"]).combined(plugin_registry(&["b", "c"]));
    let both = list(&combined).await;
    assert_eq!(names(&combined).await, "a b c");
    expect![[r#"tool "b" of plugins is withheld: plugins has a tool of that name; rename or prefix one"#]]
        .assert_eq(&both.diagnostics()[0].to_string());

    let down = || Toolset::from_source(FailsFirst(plugin_registry(&[]), Arc::default()));
    let combined = plugin_tools(&["a"]).combined(down());
    assert_eq!(combined.label(), "plugins+counting");
    let half = list(&combined).await;
    expect!["tool source counting has no tools: not yet"].assert_eq(&half.diagnostics()[0].to_string());
    assert_eq!(half.len(), 1);
    expect!["tool source counting+counting: counting: not yet; counting: not yet"]
        .assert_eq(&down().combined(down()).tools(&ListContext::default()).await.unwrap_err().to_string());
}

/// While the tools are unchanged, a source wrapped in all adaptors returns the same snapshot. The
/// next listing contains a newly registered tool.
#[tokio::test]
async fn unchanged_snapshot_is_the_same_through_all_adaptors() {
    let registry = plugin_registry(&["search", "get"]);
    let source = Toolset::from_source(registry.clone())
        .prefixed("web_")
        .renamed([("web_get", "fetch")])
        .unwrap()
        .filtered(|it| *it.name() != *"hidden")
        .prepared(|it, _| Some(it.with_description("Described.")))
        .mapped(|_, output| Ok(output))
        .approval_required(|_| false)
        .external(|_| false)
        .layered(tower::layer::util::Identity::new())
        .combined(plugin_registry(&["more"]))
        .cached(Duration::ZERO);
    let first = list(&source).await;
    assert_eq!(names(&source).await, "web_search fetch more");
    assert_eq!(list(&source).await.snapshot_id(), first.snapshot_id());
    let tools = Toolset::new().with_source(source);
    assert_eq!(result_text(&tools, "fetch").await, "I am get");
    registry.register(own_name("look")).unwrap();
    assert_eq!(tools.names().await, ["web_search", "fetch", "web_look", "more"]);
}
