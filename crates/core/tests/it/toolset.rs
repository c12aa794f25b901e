//! Tools and sources, gathered.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use expect_test::expect;
use haft_core::{
    Pipeline, Schema, ToolDefinition, ToolExt as _, ToolName, ToolSource, Toolset,
    call::FailureKind,
    pipeline::{CallRecord, Recorder},
    tool::{DynamicTool, State, StateType},
    toolset::{ListContext, SourceError, ToolList},
};
use serde::Serialize;
use serde_json::json;
use tokio::time::{Instant, sleep};

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

/// Behaviour A64.
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
    assert!(list.diagnostics()[0].to_string().ends_with("the host program provides no state of type u32"));
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

/// Behaviour B21, B70.
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

/// A source that is slow is waited for a moment. What it lists too late is there next time, and stays there while it is
/// slow again.
#[tokio::test(start_paused = true)]
async fn a_silent_source_costs_its_own_tools() {
    /// Takes so many seconds, one listing after the other, and then for ever.
    struct Slow(Mutex<std::vec::IntoIter<u64>>);
    #[async_trait]
    impl ToolSource for Slow {
        fn label(&self) -> &str {
            "slow"
        }

        async fn tools(&self, _: &ListContext) -> Result<ToolList, SourceError> {
            let seconds = self.0.lock().unwrap().next();
            match seconds {
                Some(seconds) => sleep(Duration::from_secs(seconds)).await,
                None => std::future::pending().await,
            }
            Ok(ToolList::new("slow", [tool("sub")]))
        }
    }
    let slow = Slow(Mutex::new(vec![3, 0].into_iter()));
    let tools = Toolset::new().with(tool("add")).with_source(slow);
    let began = Instant::now();
    assert_eq!(tools.call("add", json!({})).await.model_text(), "ok");
    assert_eq!(began.elapsed(), Duration::ZERO, "the toolset's own tool waits for nobody");

    let list = async || {
        let began = Instant::now();
        let list = tools.list(&ListContext::default()).await;
        let names: Vec<_> = list.names().map(|name| name.as_str().to_owned()).collect();
        (names.join(" "), list.diagnostics().first().map(ToString::to_string), began.elapsed().as_secs())
    };
    let told = |reason: &str| Some(format!("tool source slow has no tools: {reason}"));
    let asked = told("no listing within 1 s; it continues in the background");
    assert_eq!(list().await, ("add".to_owned(), asked.clone(), 1));
    assert_eq!(list().await, ("add".to_owned(), asked.clone(), 0), "it is not waited for twice");
    sleep(Duration::from_secs(3)).await;
    assert_eq!(list().await, ("add sub".to_owned(), None, 0));
    assert_eq!(list().await, ("add sub".to_owned(), None, 0));
    // From now on it is silent. Another run has nothing from before.
    assert_eq!(list().await, ("add sub".to_owned(), None, 1));
    let other = ListContext { run_id: "other".to_owned(), ..ListContext::default() };
    assert_eq!(tools.list(&other).await.len(), 1);
    assert_eq!(list().await, ("add".to_owned(), asked, 1));
    sleep(Duration::from_secs(30)).await;
    assert_eq!(list().await, ("add".to_owned(), told("it did not list its tools within 30 s"), 0));
}

/// A source that panics costs its own tools.
#[tokio::test]
async fn a_source_that_panics_is_one_that_fails() {
    struct Panicking;
    #[async_trait]
    impl ToolSource for Panicking {
        fn label(&self) -> &str {
            "broken"
        }

        async fn tools(&self, _: &ListContext) -> Result<ToolList, SourceError> {
            panic!("with a secret")
        }
    }
    let list = Toolset::new().with(tool("add")).with_source(Panicking).list(&ListContext::default()).await;
    assert_eq!(list.len(), 1);
    assert_eq!(
        list.diagnostics()[0].to_string(),
        "tool source broken has no tools: it panicked while it listed its tools"
    );
}

/// Behaviour B70: a call of one's own goes through the pipeline, as an agent's does.
#[tokio::test]
async fn a_direct_call_is_validated_repaired_and_recorded() {
    #[derive(Serialize)]
    struct Args {
        x: &'static str,
        y: i64,
    }
    struct Count(Arc<AtomicUsize>);
    impl Recorder for Count {
        fn record(&self, _: &CallRecord<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let schema =
        json!({"properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}, "required": ["x"]});
    let definition = ToolDefinition::new(ToolName::new("add").unwrap(), Schema::arguments(schema).unwrap());
    let add = DynamicTool::new(definition, |arguments, _| async move { arguments.to_string() });
    let count = Arc::new(AtomicUsize::new(0));
    let pipeline = Pipeline::new().with_recorder(Count(Arc::clone(&count)));
    let tools = Toolset::new().with(add.clone()).with_pipeline(pipeline);

    let result = tools.call("add", Args { x: "1", y: 2 }).await;
    assert_eq!((&*result.model_text(), result.repairs.len()), (r#"{"x":1,"y":2}"#, 1));
    let wrong = tools.call("add", json!({"x": "one"})).await;
    assert_eq!(wrong.failure().unwrap().kind, FailureKind::InvalidArguments);
    assert_eq!(count.load(Ordering::Relaxed), 2);
    assert_eq!(add.invoke(Args { x: "1", y: 2 }).await.repairs.len(), 1);
}
