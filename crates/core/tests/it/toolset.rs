//! Tools and sources, gathered.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use expect_test::expect;
use haft_core::{
    DynamicTool, ListContext, Schema, SourceError, State, StateType, ToolDefinition, ToolList, ToolName,
    ToolSource, Toolset, json,
};

fn tool(name: &str) -> DynamicTool {
    DynamicTool::new(ToolDefinition::new(ToolName::new(name).unwrap(), Schema::object()), |_, _| async {
        "ok"
    })
}

/// A source whose answer a test can change.
#[derive(Clone)]
struct Shelf(Arc<Mutex<Result<ToolList, String>>>);

impl Shelf {
    fn of(names: &[&str]) -> Self {
        Self(Arc::new(Mutex::new(Ok(ToolList::new("shelf", names.iter().map(|name| tool(name)))))))
    }

    fn put(&self, answer: Result<&[&str], &str>) {
        let list = answer.map(|names| ToolList::new("shelf", names.iter().map(|name| tool(name))));
        *self.0.lock().unwrap() = list.map_err(str::to_owned);
    }
}

#[async_trait]
impl ToolSource for Shelf {
    fn label(&self) -> &str {
        "shelf"
    }

    async fn tools(&self, _: &ListContext) -> Result<ToolList, SourceError> {
        self.0.lock().unwrap().clone().map_err(|reason| SourceError::new("shelf", reason))
    }
}

async fn names(tools: &Toolset) -> String {
    tools.names().await.iter().map(ToolName::as_str).collect::<Vec<_>>().join(" ")
}

/// BEHAVIOUR A64.
#[tokio::test]
async fn a_toolset_can_be_asked() {
    let tools = Toolset::new().with(tool("add")).with_source(Shelf::of(&["search", "fetch"]));
    assert_eq!(names(&tools).await, "add search fetch");
    assert!(tools.contains("search").await && !tools.contains("serch").await);
    assert_eq!(tools.get("fetch").await.unwrap().definition().name(), "fetch");
    let info = serde_json::to_value(tools.info("add").await.unwrap()).unwrap();
    assert_eq!(
        info,
        json!({"name": "add", "description": "", "input_schema": {"type": "object", "properties": {}}})
    );

    let two = tools.subset(["fetch", "add"]).await.unwrap();
    assert_eq!(names(&two).await, "add fetch");
    assert_eq!(names(&tools.without(["add"]).await.unwrap()).await, "search fetch");
    expect![[r#"unknown tool "serch"; did you mean "search"? available: add, search, fetch"#]]
        .assert_eq(&tools.subset(["serch"]).await.unwrap_err().to_string());
    assert!(tools.without(["serch"]).await.is_err());
}

/// An unchanged snapshot is the same snapshot; a change is seen at the next step.
#[tokio::test]
async fn what_did_not_change_is_the_same_snapshot() {
    let shelf = Shelf::of(&["search"]);
    let tools = Toolset::new().with(tool("add")).with_source(shelf.clone());
    let cx = ListContext::default();
    let first = tools.list(&cx).await;
    assert_eq!(tools.list(&cx).await.id(), first.id());
    assert_eq!(tools.clone().list(&cx).await.id(), first.id());
    let part = tools.subset(["search"]).await.unwrap();
    assert_eq!(part.list(&cx).await.id(), part.list(&cx).await.id());

    shelf.put(Ok(&["fetch"]));
    assert_ne!(tools.list(&cx).await.id(), first.id());
    assert_eq!(names(&tools).await, "add fetch");
}

/// A source that fails costs its own tools, and comes back.
#[tokio::test]
async fn a_failing_source_costs_its_own_tools() {
    let shelf = Shelf::of(&["search"]);
    let tools = Toolset::new().with(tool("add")).with_source(shelf.clone());
    shelf.put(Err("no connection"));
    let list = tools.list(&ListContext::default()).await;
    assert_eq!(list.len(), 1);
    assert_eq!(list.diagnostics()[0].to_string(), "tool source shelf has no tools: no connection");
    shelf.put(Ok(&["search"]));
    assert_eq!(names(&tools).await, "add search");
}

/// Two static tools with one name are an error that names both; a listed one is withheld.
#[tokio::test]
async fn a_name_is_given_once() {
    let twice = Toolset::new().with(tool("a")).with(tool("b")).with(tool("a"));
    expect![[r#"two tools are named "a", number 1 and number 3 of the toolset: give one another name, or leave it out"#]]
        .assert_eq(&twice.check().unwrap_err().to_string());

    let tools = Toolset::new().with_source(Shelf::of(&["add", "search"])).with(tool("add"));
    let list = tools.list(&ListContext::default()).await;
    assert_eq!(list.len(), 2);
    expect![[
        r#"tool "add" of shelf is withheld: the toolset has a tool of that name; rename or prefix one"#
    ]]
    .assert_eq(&list.diagnostics()[0].to_string());
}

/// A tool whose state is missing is not offered, and says why; who gives the state sees it.
#[tokio::test]
async fn a_tool_without_its_state_is_withheld() {
    let needy = tool("needy").with_definition(|definition| definition.with_state(StateType::of::<u32>()));
    let tools = Toolset::new().with(tool("add")).with(needy);
    let list = tools.list(&ListContext::default()).await;
    assert_eq!(list.len(), 1);
    assert!(list.diagnostics()[0].to_string().ends_with("the host program gives no state of type u32"));
    assert_eq!(tools.list(&ListContext::default()).await.id(), list.id());
    let given = ListContext { state: State::new().with(7_u32), ..ListContext::default() };
    assert_eq!(tools.list(&given).await.len(), 2);
    assert_eq!(names(&tools).await, "add needy");

    let nested = Toolset::new().with_source(tools.subset(["needy"]).await.unwrap());
    assert_eq!(names(&nested).await, "needy");
    assert_eq!(nested.list(&given).await.len(), 1);
    assert_eq!(nested.list(&ListContext::default()).await.len(), 0);
    assert_eq!(nested.list(&given).await.id(), nested.list(&given).await.id());
}

/// A part of a toolset is checked like the whole.
#[tokio::test]
async fn a_subset_is_checked() {
    let twice = Toolset::new().with(tool("a")).with(tool("b")).with(tool("a"));
    assert!(twice.subset(["a"]).await.unwrap().check().is_err());
    assert!(twice.subset(["b"]).await.unwrap().check().is_ok());
}

/// BEHAVIOUR B21, B70.
#[tokio::test]
async fn a_direct_call_is_found_by_name() {
    let tools = Toolset::new().with_source(Shelf::of(&["search", "fetch"]));
    assert_eq!(tools.call("fetch", json!({})).await.model_text(), "ok");
    assert_eq!(tools.call("fetch", ()).await.model_text(), "ok");
    expect![[r#"unknown tool "serch"; did you mean "search"? available: search, fetch"#]]
        .assert_eq(&tools.call("serch", json!({})).await.model_text());
    expect![[r#"unknown tool "x"; no tools are available"#]]
        .assert_eq(&Toolset::new().call("x", json!({})).await.model_text());
}

/// A source that never answers is waited for until its deadline, and no longer.
#[tokio::test(start_paused = true)]
async fn a_silent_source_costs_its_own_tools() {
    struct Silent;
    #[async_trait]
    impl ToolSource for Silent {
        fn label(&self) -> &str {
            "silent"
        }

        async fn tools(&self, _: &ListContext) -> Result<ToolList, SourceError> {
            std::future::pending().await
        }
    }
    let tools = Toolset::new().with(tool("add")).with_source(Silent);
    let began = tokio::time::Instant::now();
    assert_eq!(tools.call("add", json!({})).await.model_text(), "ok");
    assert_eq!(began.elapsed(), std::time::Duration::ZERO, "the toolset's own tool waits for nobody");
    let list = tools.list(&ListContext::default()).await;
    assert_eq!(list.len(), 1);
    assert_eq!(
        list.diagnostics()[0].to_string(),
        "tool source silent has no tools: it did not list its tools within 30 s"
    );
}
