//! Tests of tool lists that change: registries, and definitions changed with `prepared`.

use std::sync::Arc;

use expect_test::expect;
use haft_core::{
    Schema, ToolDefinition, ToolExt as _, ToolName, ToolSource, Toolset,
    tool::{Deprecation, DynamicTool},
    tool_fn,
    toolset::ListContext,
};
use haft_middleware::ToolRegistry;
use serde_json::json;
use tokio::sync::Notify;

/// Creates a tool that always returns `text`.
fn constant(name: &str, text: &'static str) -> DynamicTool {
    let definition = ToolDefinition::new(ToolName::new(name).unwrap(), Schema::object());
    DynamicTool::new(definition, move |_, _| async move { text })
}

fn at_step(step: u32) -> ListContext {
    ListContext { step, ..ListContext::default() }
}

async fn names(source: &dyn ToolSource, step: u32) -> String {
    let list = source.tools(&at_step(step)).await.unwrap();
    list.names().map(ToolName::as_str).collect::<Vec<_>>().join(" ")
}

/// A change of a registry appears in the next listing. Without a change, each listing returns the
/// same snapshot.
#[tokio::test]
async fn changes_of_a_registry_are_in_the_next_listing() {
    let registry = ToolRegistry::new("plugins");
    let tools = Toolset::new().with_tool(constant("own", "own")).with_source(registry.clone());
    let list = async |step| tools.list(&at_step(step)).await;
    let empty = list(0).await;
    assert_eq!(empty.len(), 1);

    registry.register(constant("echo", "one")).unwrap();
    let first = list(1).await;
    assert_eq!(names(&tools, 1).await, "own echo");
    assert_eq!(list(2).await.snapshot_id(), first.snapshot_id());

    let before = registry.replace(constant("echo", "two")).unwrap().unwrap();
    assert_eq!(before.invoke(json!({})).await.model_text(), "one");
    assert_ne!(list(3).await.snapshot_id(), first.snapshot_id());
    assert_eq!(tools.call("echo", json!({})).await.model_text(), "two");
    // The snapshot from before the replacement still contains the replaced tool.
    assert_eq!(first.get("echo").unwrap().invoke(json!({})).await.model_text(), "one");

    assert!(registry.replace(constant("more", "more")).unwrap().is_none());
    assert_eq!(names(&registry, 4).await, "echo more", "a replaced tool keeps its position");
    registry.unregister("echo").unwrap();
    assert_eq!(names(&tools, 5).await, "own more");
    assert!(tools.call("echo", json!({})).await.model_text().starts_with("unknown tool \"echo\""));
}

/// A rejected change does not affect the registry, and the error message contains a remedy.
#[tokio::test]
async fn registry_rejects_duplicate_unknown_and_defective_tools() {
    let registry = ToolRegistry::new("plugins");
    registry.register(constant("echo", "one")).unwrap();
    let list = registry.tools(&at_step(0)).await.unwrap();
    expect![[
        r#"a tool named "echo" is registered already: replace it, or give one of the two another name"#
    ]]
    .assert_eq(&registry.register(constant("echo", "two")).unwrap_err().to_string());
    expect![[r#"unknown tool "ecko"; did you mean "echo"? available: echo"#]]
        .assert_eq(&registry.unregister("ecko").err().unwrap().to_string());
    let defect = || tool_fn("echo", "", |list: Vec<i64>| async move { list.len().to_string() });
    expect![[r#"tool "echo" cannot be used: its arguments: invalid schema at /: the arguments of a tool must be an object"#]]
        .assert_eq(&registry.replace(defect()).err().unwrap().to_string());
    assert!(registry.register(defect()).is_err());
    assert_eq!(registry.tools(&at_step(1)).await.unwrap().snapshot_id(), list.snapshot_id());
    assert_eq!(format!("{registry:?}"), r#"ToolRegistry { label: "plugins", tools: ["echo"] }"#);
}

/// A running call continues after its tool is unregistered.
#[tokio::test]
async fn running_call_outlives_the_registration_of_its_tool() {
    let (began, resume) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let slow = {
        let (began, resume) = (Arc::clone(&began), Arc::clone(&resume));
        let definition = ToolDefinition::new(ToolName::new("slow").unwrap(), Schema::object());
        DynamicTool::new(definition, move |_, _| {
            let (began, resume) = (Arc::clone(&began), Arc::clone(&resume));
            async move {
                began.notify_one();
                resume.notified().await;
                "done"
            }
        })
    };
    let registry = ToolRegistry::new("plugins");
    registry.register(slow).unwrap();
    let tools = Toolset::new().with_source(registry.clone());
    let change = async {
        began.notified().await;
        registry.unregister("slow").unwrap();
        assert!(!tools.contains("slow").await);
        resume.notify_one();
    };
    let (result, ()) = futures::join!(tools.call("slow", json!({})), change);
    assert_eq!(result.model_text(), "done");
}

/// `prepared` can hide deprecated tools. `prepared` can change or hide definitions at each step of
/// a run.
#[tokio::test]
async fn prepared_changes_or_hides_definitions_per_step() {
    let registry = ToolRegistry::new("plugins");
    let old = constant("old", "old").with_definition(|it| it.with_deprecation(Deprecation::default()));
    registry.register(old).unwrap();
    registry.register(constant("search", "found")).unwrap();
    let prepared = Toolset::from_source(registry.clone()).prepared(|it, cx| match cx.step {
        0 => Some(it),
        1 => it.deprecation().is_none().then_some(it),
        _ => Some(it.with_description("Look.")).filter(|it| it.deprecation().is_none()),
    });
    assert_eq!(prepared.label(), "plugins");
    let list = async |step| prepared.tools(&at_step(step)).await.unwrap();
    assert_eq!(names(&prepared, 0).await, "old search");
    assert_eq!(names(&prepared, 1).await, "search");
    assert_eq!(list(2).await.tools()[0].definition().description(), "Look.");

    let whole = registry.tools(&at_step(0)).await.unwrap();
    assert_eq!(list(0).await.snapshot_id(), whole.snapshot_id(), "without a change the snapshot is the same");
    assert_eq!(
        list(2).await.snapshot_id(),
        list(3).await.snapshot_id(),
        "steps with equal definitions share a snapshot"
    );
    assert_eq!(list(1).await.snapshot_id(), list(1).await.snapshot_id());
    assert_ne!(list(1).await.snapshot_id(), list(2).await.snapshot_id());
    registry.register(constant("fetch", "fetched")).unwrap();
    assert_eq!(names(&prepared, 1).await, "search fetch");
}

/// A call to a tool that `prepared` hides fails like a call to an unknown tool. A tool that
/// `prepared` renames is called by its new name.
#[tokio::test]
async fn hidden_tool_cannot_be_called() {
    let all = Toolset::new().with_tool(constant("delete", "gone")).with_tool(constant("search", "found"));
    let tools = Toolset::new().with_source(all.clone().prepared(|it, _| match it.name().as_str() {
        "delete" => None,
        name => Some(it.clone().with_name(format!("web_{name}"))),
    }));
    assert_eq!(tools.call("web_search", json!({})).await.model_text(), "found");
    expect![[r#"unknown tool "delete"; available: web_search"#]]
        .assert_eq(&tools.call("delete", json!({})).await.model_text());

    // If `prepared` gives two tools the same name, the second tool is withheld.
    let one = Toolset::new().with_source(all.prepared(|it, _| Some(it.with_name("same"))));
    let list = one.list(&at_step(0)).await;
    assert_eq!(list.len(), 1);
    expect![[
        r#"tool "same" of the toolset is withheld: the toolset has a tool of that name; rename or prefix one"#
    ]]
    .assert_eq(&list.diagnostics()[0].to_string());
}
