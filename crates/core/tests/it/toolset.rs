//! Tests of toolsets: tools added as values, sources, names, checks and direct calls.

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
    Pipeline, Schema, Tool as _, ToolDefinition, ToolExt as _, ToolName, ToolSource, Toolset,
    call::FailureKind,
    pipeline::{CallRecord, Recorder},
    tool::{DynamicTool, HostState, StateType},
    tool_fn,
    toolset::{Diagnostic, ListContext, SourceError, ToolList},
};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

fn tool(name: &str) -> DynamicTool {
    DynamicTool::new(ToolDefinition::new(ToolName::new(name).unwrap(), Schema::object()), |_, _| async {
        "ok"
    })
}

/// A source whose next list or error is set by the test.
#[derive(Clone)]
struct SettableSource(Arc<Mutex<Result<ToolList, String>>>);

impl SettableSource {
    fn new(names: &[&str]) -> Self {
        Self(Arc::new(Mutex::new(Ok(ToolList::new("catalogue", names.iter().map(|name| tool(name)))))))
    }

    fn set(&self, result: Result<&[&str], &str>) {
        let list = result.map(|names| ToolList::new("catalogue", names.iter().map(|name| tool(name))));
        *self.0.lock().unwrap() = list.map_err(str::to_owned);
    }
}

#[async_trait]
impl ToolSource for SettableSource {
    fn label(&self) -> &str {
        "catalogue"
    }

    async fn tools(&self, _: &ListContext) -> Result<ToolList, SourceError> {
        self.0.lock().unwrap().clone().map_err(|reason| SourceError::new("catalogue", reason))
    }
}

/// A closure that receives a `Value` is a tool that accepts any arguments.
#[test]
fn closure_with_a_value_is_a_tool() {
    let show = tool_fn("show", "", |arguments: Value| async move { arguments.to_string() });
    assert_eq!(show.definition().input_schema(), &Schema::object());
    assert_eq!(show.invoke_blocking(json!({"x": 1})).model_text(), r#"{"x":1}"#);
    Toolset::new().with_tool(show).check().unwrap();
}

async fn names(tools: &Toolset) -> String {
    tools.names().await.iter().map(ToolName::as_str).collect::<Vec<_>>().join(" ")
}

/// Tools are looked up and selected by name. The error for an unknown name lists the known names.
#[tokio::test]
async fn tools_are_looked_up_by_name() {
    let tools = Toolset::new().with_tool(tool("add")).with_source(SettableSource::new(&["search", "fetch"]));
    assert_eq!(names(&tools).await, "add search fetch");
    assert!(tools.contains("search").await && !tools.contains("serch").await);
    assert_eq!(tools.get("fetch").await.unwrap().definition().name(), "fetch");
    let definition = serde_json::to_value(tools.definition("add").await.unwrap()).unwrap();
    assert_eq!(
        definition,
        json!({"name": "add", "description": "", "input_schema": {"type": "object", "properties": {}}})
    );

    let two = tools.subset(["fetch", "add"]).await.unwrap();
    assert_eq!(names(&two).await, "add fetch");
    assert_eq!(names(&tools.without_tools(["add"]).await.unwrap()).await, "search fetch");
    expect![[r#"unknown tool "serch"; did you mean "search"? available: add, search, fetch"#]]
        .assert_eq(&tools.subset(["serch"]).await.unwrap_err().to_string());
    assert!(tools.without_tools(["serch"]).await.is_err());
}

/// An unchanged toolset returns the same snapshot at each listing, and so do its clones and its
/// subsets. After a change of a source, the next listing returns a new snapshot.
#[tokio::test]
async fn unchanged_snapshot_keeps_its_id() {
    let catalogue = SettableSource::new(&["search"]);
    let tools = Toolset::new().with_tool(tool("add")).with_source(catalogue.clone());
    let cx = ListContext::default();
    let first = tools.list(&cx).await;
    assert_eq!(tools.list(&cx).await.snapshot_id(), first.snapshot_id());
    assert_eq!(tools.clone().list(&cx).await.snapshot_id(), first.snapshot_id());
    let part = tools.subset(["search"]).await.unwrap();
    assert_eq!(part.list(&cx).await.snapshot_id(), part.list(&cx).await.snapshot_id());

    catalogue.set(Ok(&["fetch"]));
    assert_ne!(tools.list(&cx).await.snapshot_id(), first.snapshot_id());
    assert_eq!(names(&tools).await, "add fetch");
}

/// A label that is set after a listing appears in the diagnostics of the next listing.
#[tokio::test]
async fn label_set_after_a_listing_is_used() {
    let stateful = ToolDefinition::new(ToolName::new("stateful").unwrap(), Schema::object());
    let stateful = stateful.with_state_type(StateType::of::<u8>());
    let tools = Toolset::new().with_tool(DynamicTool::new(stateful, |_, _| async { "ok" }));
    let source_label = async |tools: &Toolset| match tools.list(&ListContext::default()).await.diagnostics() {
        [Diagnostic::Quarantined { source_label, .. }] => source_label.clone(),
        others => panic!("{others:?}"),
    };
    assert_eq!(source_label(&tools).await, "the toolset");
    assert_eq!(source_label(&tools.with_label("billing")).await, "billing");
}

/// While a source fails, its tools are missing from the list, but all other tools stay available.
#[tokio::test]
async fn failing_source_does_not_affect_other_tools() {
    let catalogue = SettableSource::new(&["search"]);
    let tools = Toolset::new().with_tool(tool("add")).with_source(catalogue.clone());
    catalogue.set(Err("no connection"));
    let list = tools.list(&ListContext::default()).await;
    assert_eq!(list.len(), 1);
    assert_eq!(list.diagnostics()[0].to_string(), "tool source catalogue has no tools: no connection");
    catalogue.set(Ok(&["search"]));
    assert_eq!(names(&tools).await, "add search");
}

/// If two tools added as values have the same name, `check` fails with the positions of both. If a
/// source lists a tool with the name of a tool added as a value, the tool of the source is
/// withheld.
#[tokio::test]
async fn duplicate_names_are_errors_or_diagnostics() {
    let twice = Toolset::new().with_tool(tool("a")).with_tool(tool("b")).with_tool(tool("a"));
    expect![[r#"two tools are named "a", number 1 and number 3 of the toolset: give one another name, or leave it out"#]]
        .assert_eq(&twice.check().unwrap_err().to_string());

    let tools = Toolset::new().with_source(SettableSource::new(&["add", "search"])).with_tool(tool("add"));
    let list = tools.list(&ListContext::default()).await;
    assert_eq!(list.len(), 2);
    expect![[
        r#"tool "add" of catalogue is withheld: the toolset has a tool of that name; rename or prefix one"#
    ]]
    .assert_eq(&list.diagnostics()[0].to_string());
}

/// A tool of a named source has the name of its source as prefix if its own name is taken. Later
/// listings of the same tools are the same snapshot.
#[tokio::test]
async fn tool_of_a_named_source_is_renamed() {
    let (wiki, mail) = (SettableSource::new(&["search", "page"]), SettableSource::new(&["search", "add"]));
    let tools = Toolset::new()
        .with_named_source("wiki", wiki.clone())
        .with_named_source("mail", mail)
        .with_tool(tool("add"));
    assert_eq!(names(&tools).await, "add search page mail_search mail_add");
    let list = tools.list(&ListContext::default()).await;
    assert!(list.diagnostics().is_empty());
    assert_eq!(list.snapshot_id(), tools.list(&ListContext::default()).await.snapshot_id());
    assert_eq!(tools.call("mail_search", json!({})).await.model_text(), "ok");
    wiki.set(Err("no connection"));
    assert_eq!(names(&tools).await, "add search mail_add");
}

/// The tools of a named toolset are renamed in the same way, so `check` accepts them.
#[test]
fn named_toolset_has_no_duplicate_names() {
    let inner = Toolset::new().with_tool(tool("add")).with_tool(tool("search"));
    let tools = Toolset::new().with_tool(tool("add")).with_named_source("inner", inner.clone());
    assert!(tools.check().is_ok());
    let names: Vec<_> = tools.static_tools().map(|tool| tool.definition().name().to_string()).collect();
    assert_eq!(names, ["add", "inner_add", "search"]);
    let twice = inner.with_tool(tool("search"));
    assert!(Toolset::new().with_named_source("twice", twice).check().is_err());
    let none = Toolset::new().with_timeout(Duration::ZERO);
    assert!(Toolset::new().with_named_source("none", none).check().is_err());
}

/// A tool is listed only if the caller provides the host state that the tool declares. If the state
/// is missing, a diagnostic names its type.
#[tokio::test]
async fn tool_without_its_state_is_withheld() {
    let stateful =
        tool("stateful").with_definition(|definition| definition.with_state_type(StateType::of::<u32>()));
    let tools = Toolset::new().with_tool(tool("add")).with_tool(stateful);
    let list = tools.list(&ListContext::default()).await;
    assert_eq!(list.len(), 1);
    assert!(list.diagnostics()[0].to_string().ends_with("the host program provides no state of type u32"));
    assert_eq!(tools.list(&ListContext::default()).await.snapshot_id(), list.snapshot_id());
    let given = ListContext { state: HostState::new().with_value(7_u32), ..ListContext::default() };
    assert_eq!(tools.list(&given).await.len(), 2);
    assert_eq!(names(&tools).await, "add stateful");

    let nested = Toolset::new().with_source(tools.subset(["stateful"]).await.unwrap());
    assert_eq!(names(&nested).await, "stateful");
    assert_eq!(nested.list(&given).await.len(), 1);
    assert_eq!(nested.list(&ListContext::default()).await.len(), 0);
    assert_eq!(nested.list(&given).await.snapshot_id(), nested.list(&given).await.snapshot_id());
}

#[tokio::test]
async fn subset_is_checked_like_a_toolset() {
    let twice = Toolset::new().with_tool(tool("a")).with_tool(tool("b")).with_tool(tool("a"));
    assert!(twice.subset(["a"]).await.unwrap().check().is_err());
    assert!(twice.subset(["b"]).await.unwrap().check().is_ok());
}

/// The error for an unknown tool name suggests a similar name. A direct call by name also finds
/// tools from a source.
#[tokio::test]
async fn direct_call_finds_its_tool_by_name() {
    let tools = Toolset::new().with_source(SettableSource::new(&["search", "fetch"]));
    assert_eq!(tools.call("fetch", json!({})).await.model_text(), "ok");
    assert_eq!(tools.call("fetch", ()).await.model_text(), "ok");
    expect![[r#"unknown tool "serch"; did you mean "search"? available: search, fetch"#]]
        .assert_eq(&tools.call("serch", json!({})).await.model_text());
    expect![[r#"unknown tool "x"; no tools are available"#]]
        .assert_eq(&Toolset::new().call("x", json!({})).await.model_text());
}

/// A listing waits at most 1 s for a slow source. If the source responds later, its tools are in
/// the next listing of the run, and remain listed if the source becomes slow again.
#[tokio::test(start_paused = true)]
async fn slow_source_delays_a_listing_by_at_most_one_second() {
    /// A source whose listings each take the next number of seconds from the iterator. After the
    /// last number, a listing never completes.
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
    let tools = Toolset::new().with_tool(tool("add")).with_source(slow);
    let began = Instant::now();
    assert_eq!(tools.call("add", json!({})).await.model_text(), "ok");
    assert_eq!(began.elapsed(), Duration::ZERO, "own tools do not wait for sources");

    let list = async || {
        let began = Instant::now();
        let list = tools.list(&ListContext::default()).await;
        let names: Vec<_> = list.names().map(|name| name.as_str().to_owned()).collect();
        (names.join(" "), list.diagnostics().first().map(ToString::to_string), began.elapsed().as_secs())
    };
    let missing = |reason: &str| Some(format!("tool source slow has no tools: {reason}"));
    let still_listing = missing("no listing within 1 s; it continues in the background");
    assert_eq!(list().await, ("add".to_owned(), still_listing.clone(), 1));
    assert_eq!(
        list().await,
        ("add".to_owned(), still_listing.clone(), 0),
        "a run waits once for a slow source"
    );
    sleep(Duration::from_secs(3)).await;
    assert_eq!(list().await, ("add sub".to_owned(), None, 0));
    assert_eq!(list().await, ("add sub".to_owned(), None, 0));
    // From now on, the source does not respond. The same run gets the previous snapshot, but a new
    // run gets no tools of the source.
    assert_eq!(list().await, ("add sub".to_owned(), None, 1));
    let other = ListContext { run_id: "other".to_owned(), ..ListContext::default() };
    assert_eq!(tools.list(&other).await.len(), 1);
    assert_eq!(list().await, ("add sub".to_owned(), None, 0), "another run does not drop the snapshot");
    sleep(Duration::from_secs(30)).await;
    assert_eq!(list().await, ("add".to_owned(), missing("it did not list its tools within 30 s"), 0));
}

/// The values of a run may be connections of a pool, so a source must not keep them.
#[tokio::test]
async fn host_state_of_a_finished_run_is_dropped() {
    let tools = Toolset::new().with_source(SettableSource::new(&["sub"]));
    let value = Arc::new(7_u8);
    let run =
        ListContext { state: HostState::new().with_value(Arc::clone(&value)), ..ListContext::default() };
    assert_eq!(tools.list(&run).await.len(), 1);
    drop(run);
    assert_eq!(Arc::strong_count(&value), 1);
}

/// Each run continues its own listing, so runs that list in turn all get the tools of a source that
/// is always slow.
#[tokio::test(start_paused = true)]
async fn concurrent_runs_get_the_tools_of_a_slow_source() {
    struct AlwaysSlow;
    #[async_trait]
    impl ToolSource for AlwaysSlow {
        fn label(&self) -> &str {
            "slow"
        }

        async fn tools(&self, _: &ListContext) -> Result<ToolList, SourceError> {
            sleep(Duration::from_millis(1500)).await;
            Ok(ToolList::new("slow", [tool("sub")]))
        }
    }
    let tools = Toolset::new().with_source(AlwaysSlow);
    let runs: Vec<_> =
        (0..20).map(|id| ListContext { run_id: format!("run {id}"), ..ListContext::default() }).collect();
    for run in &runs {
        assert_eq!(tools.list(run).await.len(), 0);
    }
    sleep(Duration::from_secs(5)).await;
    for run in &runs {
        assert_eq!(tools.list(run).await.len(), 1, "{}", run.run_id);
    }
}

/// A diagnostic reports a source that panicked. It does not contain the panic message, which may
/// contain secrets.
#[tokio::test]
async fn panicking_source_does_not_affect_other_tools() {
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
    let list =
        Toolset::new().with_tool(tool("add")).with_source(Panicking).list(&ListContext::default()).await;
    assert_eq!(list.len(), 1);
    assert_eq!(
        list.diagnostics()[0].to_string(),
        "tool source broken has no tools: it panicked while it listed its tools"
    );
}

/// Without a tokio timer, there is no timeout for a source that waits. The diagnostic reports the
/// missing timer, and not a timeout.
#[test]
fn waiting_source_needs_a_timer() {
    struct Waiting;
    #[async_trait]
    impl ToolSource for Waiting {
        fn label(&self) -> &str {
            "remote"
        }

        async fn tools(&self, _: &ListContext) -> Result<ToolList, SourceError> {
            std::future::pending().await
        }
    }
    let list = || async { Toolset::new().with_source(Waiting).list(&ListContext::default()).await };
    let without_timer = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for list in [futures::executor::block_on(list()), without_timer.block_on(list())] {
        expect!["tool source remote has no tools: a listing that waits needs a tokio timer"]
            .assert_eq(&list.diagnostics()[0].to_string());
    }
}

/// A direct call runs through the same pipeline as a call from an agent.
#[tokio::test]
async fn direct_call_is_validated_repaired_and_recorded() {
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
    let definition =
        ToolDefinition::new(ToolName::new("add").unwrap(), Schema::for_arguments(schema).unwrap());
    let add = DynamicTool::new(definition, |arguments, _| async move { arguments.to_string() });
    let count = Arc::new(AtomicUsize::new(0));
    let pipeline = Pipeline::new().with_recorder(Count(Arc::clone(&count)));
    let tools = Toolset::new().with_tool(add.clone()).with_pipeline(pipeline);

    let result = tools.call("add", Args { x: "1", y: 2 }).await;
    assert_eq!((&*result.model_text(), result.repairs.len()), (r#"{"x":1,"y":2}"#, 1));
    let wrong = tools.call("add", json!({"x": "one"})).await;
    assert_eq!(wrong.failure().unwrap().kind, FailureKind::InvalidArguments);
    assert_eq!(count.load(Ordering::Relaxed), 2);
    assert_eq!(add.invoke(Args { x: "1", y: 2 }).await.repairs.len(), 1);
}
