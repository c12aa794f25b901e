//! Properties of every adaptor: an adapted toolset keeps its pipeline, its checks and its label.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use haft_core::{
    Pipeline, Schema, Tool, ToolContext, ToolDefinition, ToolExt as _, ToolName, ToolSource as _, Toolset,
    export::async_trait,
    pipeline::{CallRecord, Recorder},
    schema::RepairPolicy,
    tool::{DynamicTool, StateType},
    toolset::{Adaptor, ListContext, ToolsetError},
};
use haft_middleware::ToolsetMiddleware as _;
use serde_json::json;
use tower::layer::util::Identity;

/// A recorder that logs the names of the called tools.
#[derive(Clone, Default)]
struct CallLog(Arc<Mutex<Vec<String>>>);

impl Recorder for CallLog {
    fn record(&self, record: &CallRecord<'_>) {
        self.0.lock().unwrap().push(record.call.name.clone());
    }
}

impl CallLog {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// The host state that the tool `refund` needs.
#[derive(Clone)]
struct Database;

fn definition(name: &str) -> ToolDefinition {
    let schema =
        Schema::for_arguments(json!({"properties": {"x": {"type": "integer"}}, "required": ["x"]})).unwrap();
    ToolDefinition::new(ToolName::new(name).unwrap(), schema)
}

fn doubling_tool(name: &str) -> DynamicTool {
    DynamicTool::new(definition(name), |arguments, _| async move {
        (arguments["x"].as_i64().unwrap_or_default() * 2).to_string()
    })
}

fn double_with_state(name: &str) -> impl Tool + 'static {
    doubling_tool(name).with_definition(|it| it.with_state_type(StateType::of::<Database>()))
}

/// Creates a toolset with the label `billing`. Its pipeline records calls in `log` and does not
/// repair arguments.
fn billing_toolset(log: &CallLog) -> Toolset {
    let pipeline = Pipeline::new().with_repair(RepairPolicy::Strict).with_recorder(log.clone());
    Toolset::new()
        .with_label("billing")
        .with_pipeline(pipeline)
        .with_tool(doubling_tool("pay"))
        .with_tool(double_with_state("refund"))
}

/// An adaptor that changes nothing.
struct Unchanged;

impl Adaptor for Unchanged {
    fn adapt(&self, tool: &Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        Some(Arc::clone(tool))
    }
}

type Adapt = fn(Toolset) -> Toolset;

/// The name of each adaptor, and a function that applies the adaptor to a toolset without changing
/// the names of its tools.
const ADAPTORS: [(&str, Adapt); 12] = [
    ("adapted", |it| it.adapted(Unchanged)),
    ("approval_required", |it| it.approval_required(|_| false)),
    ("cached", |it| it.cached(Duration::from_secs(1))),
    ("combined", |it| it.combined(Toolset::new())),
    ("external", |it| it.external(|_| false)),
    ("filtered", |it| it.filtered(|_| true)),
    ("layered", |it| it.layered(Identity::new())),
    ("mapped", |it| it.mapped(|_, output| Ok(output))),
    ("nested", |it| Toolset::new().with_source(it)),
    ("prefixed", |it| it.prefixed("")),
    ("prepared", |it| it.prepared(|it, _| Some(it.with_title("changed")))),
    ("renamed", |it| it.renamed([("other", "another")]).unwrap()),
];

/// Checks that calls to `tools` run in the pipeline of [`billing_toolset`]: each call is recorded
/// once, and arguments are not repaired.
async fn assert_pipeline_is_kept(tools: &Toolset, log: &CallLog, name: &str) {
    let cx = ToolContext::default().with_state(Database);
    let done = tools.call_with("pay", json!({"x": 21}), &cx).await;
    assert_eq!(done.model_text(), "42", "{name}");
    assert_eq!(log.take(), ["pay"], "{name}: each call is recorded once");
    let strict = tools.call_with("pay", json!({"x": "21"}), &cx).await;
    assert_eq!(
        strict.model_text(),
        "invalid arguments: /x: expected integer, received string \"21\"",
        "{name}: arguments are not repaired"
    );
    assert_eq!(log.take(), ["pay"], "{name}");
}

async fn assert_settings_are_kept(adapt: impl Fn(Toolset) -> Toolset, name: &str) {
    let log = CallLog::default();
    let tools = adapt(billing_toolset(&log));
    assert_pipeline_is_kept(&tools, &log, name).await;

    // The context contains no `Database`, so the tool `refund` is withheld. The diagnostic contains
    // the label of the inner toolset.
    let list = tools.list(&ListContext::default()).await;
    assert!(list.get("refund").is_none(), "{name}");
    let diagnostics: Vec<_> = list.diagnostics().iter().map(ToString::to_string).collect();
    let [withheld] = diagnostics.as_slice() else { panic!("{name}: {diagnostics:?}") };
    assert!(withheld.starts_with("tool \"refund\" of billing is quarantined: "), "{name}: {withheld}");
    let own: Vec<_> = tools.static_tools().map(|tool| tool.definition().name().clone()).collect();
    assert_eq!(own, ["pay", "refund"], "{name}: `static_tools` includes tools without state");

    // `check` returns an error if two tools have the same name.
    let twice = adapt(billing_toolset(&log).with_tool(doubling_tool("pay")));
    let error = twice.check().unwrap_err();
    assert!(matches!(&error, ToolsetError::DuplicateName { name, .. } if *name == *"pay"), "{name}: {error}");
}

#[tokio::test]
async fn each_adaptor_keeps_pipeline_checks_and_label() {
    for (name, adapt) in ADAPTORS {
        assert_settings_are_kept(adapt, name).await;
    }
}

#[tokio::test]
async fn each_adaptor_applied_twice_keeps_pipeline_checks_and_label() {
    for (name, adapt) in ADAPTORS {
        assert_settings_are_kept(|it| adapt(adapt(it)), name).await;
    }
}

#[tokio::test]
async fn each_pair_of_nested_adaptors_keeps_pipeline_checks_and_label() {
    for (outer, around) in ADAPTORS {
        for (inner, within) in ADAPTORS {
            let nested = |it| around(Toolset::new().with_label("outer").with_source(within(it)));
            assert_settings_are_kept(nested, &format!("{outer} around {inner}")).await;
        }
    }
}

#[tokio::test]
async fn calls_of_a_nested_toolset_are_recorded_by_both_pipelines() {
    let (inner, outer) = (CallLog::default(), CallLog::default());
    let pipeline = Pipeline::new().with_recorder(outer.clone());
    let tools = Toolset::new()
        .with_pipeline(pipeline)
        .with_tool(doubling_tool("own"))
        .with_source(billing_toolset(&inner).prefixed("b_"));
    tools.call("b_pay", json!({"x": 1})).await;
    assert_eq!((inner.take(), outer.take()), (vec!["b_pay".to_owned()], vec!["b_pay".to_owned()]));
    tools.call("own", json!({"x": "1"})).await;
    assert_eq!((inner.take(), outer.take()), (vec![], vec!["own".to_owned()]));
    // The outer pipeline repairs arguments, but the inner pipeline does not.
    assert!(tools.call("own", json!({"x": "1"})).await.is_success());
    assert!(!tools.call("b_pay", json!({"x": "1"})).await.is_success());
}

/// A toolset inside an `Arc<dyn ToolSource>` keeps its pipeline, even if an adaptor is applied to
/// the trait object.
#[tokio::test]
async fn toolset_behind_a_trait_object_keeps_its_pipeline() {
    let log = CallLog::default();
    let source: Arc<dyn haft_core::ToolSource> = Arc::new(billing_toolset(&log));
    let tools = Toolset::new().with_source(source);
    assert_pipeline_is_kept(&tools, &log, "trait object").await;
    let source: Arc<dyn haft_core::ToolSource> = Arc::new(billing_toolset(&log));
    assert_pipeline_is_kept(&Toolset::from_source(source).filtered(|_| true), &log, "adapted trait object")
        .await;
}

#[tokio::test]
async fn pipeline_of_an_adapted_toolset_can_be_replaced() {
    let (first, second) = (CallLog::default(), CallLog::default());
    let tools = billing_toolset(&first)
        .filtered(|_| true)
        .with_pipeline(Pipeline::new().with_recorder(second.clone()));
    tools.call("pay", json!({"x": "1"})).await;
    assert_eq!((first.take(), second.take()), (vec![], vec!["pay".to_owned()]));
}

/// The label of an adapted toolset can be replaced. The diagnostics about tools added before the
/// adaptor then contain the new label: missing host state is detected by the outer toolset, and a
/// tool with a used name by the inner toolset.
#[tokio::test]
async fn label_of_an_adapted_toolset_can_be_replaced() {
    // These two put the toolset with its own label into another toolset.
    let nests = |name: &str| ["combined", "nested"].contains(&name);
    for (name, adapt) in ADAPTORS.into_iter().filter(|(name, _)| !nests(name)) {
        let tools = billing_toolset(&CallLog::default()).with_tool(doubling_tool("pay"));
        let tools = adapt(adapt(tools)).with_label("invoices");
        assert_eq!(tools.label(), "invoices");
        let list = tools.list(&ListContext::default()).await;
        let diagnostics: Vec<_> = list.diagnostics().iter().map(ToString::to_string).collect();
        let [taken, withheld] = diagnostics.as_slice() else { panic!("{name}: {diagnostics:?}") };
        assert!(taken.starts_with("tool \"pay\" of invoices is withheld: invoices has"), "{name}: {taken}");
        assert!(withheld.starts_with("tool \"refund\" of invoices is"), "{name}: {withheld}");
    }
}

#[tokio::test]
async fn adaptor_changes_only_tools_added_before_it() {
    let tools = Toolset::new().with_tool(doubling_tool("a")).prefixed("x_").with_tool(doubling_tool("b"));
    let names = tools.tools(&ListContext::default()).await.unwrap();
    let mut names: Vec<_> = names.names().map(ToString::to_string).collect();
    names.sort();
    assert_eq!(names, ["b", "x_a"]);
}

/// A source that panics while it lists its tools.
struct PanickingSource;

#[async_trait]
impl haft_core::ToolSource for PanickingSource {
    fn label(&self) -> &str {
        "broken"
    }

    async fn tools(
        &self,
        _: &ListContext,
    ) -> Result<haft_core::toolset::ToolList, haft_core::toolset::SourceError> {
        panic!("broken")
    }
}

#[tokio::test]
async fn panic_while_listing_withholds_only_the_tools_of_that_source() {
    let adapted = Toolset::new()
        .with_label("adapted")
        .with_tool(doubling_tool("a"))
        .prepared(|_, _| panic!("prepared"));
    let tools =
        Toolset::new().with_tool(doubling_tool("b")).with_source(adapted).with_source(PanickingSource);
    let list = tools.list(&ListContext::default()).await;
    assert_eq!(list.names().map(ToString::to_string).collect::<Vec<_>>(), ["b"]);
    let failed: Vec<_> = list.diagnostics().iter().map(ToString::to_string).collect();
    assert_eq!(
        failed,
        [
            "tool source adapted has no tools: it panicked while it listed its tools",
            "tool source broken has no tools: it panicked while it listed its tools",
        ]
    );
}
