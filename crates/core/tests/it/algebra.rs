//! Adaptors keep the pipeline, the checks and the label of a toolset.

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
    toolset::{Adaptor, ListContext, ToolSourceExt as _, ToolsetError},
};
use haft_middleware::ToolsetMiddleware as _;
use serde_json::json;
use tower::layer::util::Identity;

/// Records the names of called tools.
#[derive(Clone, Default)]
struct Audit(Arc<Mutex<Vec<String>>>);

impl Recorder for Audit {
    fn record(&self, record: &CallRecord<'_>) {
        self.0.lock().unwrap().push(record.call.name.clone());
    }
}

impl Audit {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Host state that one of the tools declares.
#[derive(Clone)]
struct Database;

fn definition(name: &str) -> ToolDefinition {
    let schema =
        Schema::arguments(json!({"properties": {"x": {"type": "integer"}}, "required": ["x"]})).unwrap();
    ToolDefinition::new(ToolName::new(name).unwrap(), schema)
}

fn double(name: &str) -> DynamicTool {
    DynamicTool::new(definition(name), |arguments, _| async move {
        (arguments["x"].as_i64().unwrap_or_default() * 2).to_string()
    })
}

fn with_state(name: &str) -> impl Tool + 'static {
    double(name).with_definition(|it| it.with_state(StateType::of::<Database>()))
}

/// A strict, audited toolset named `billing`.
fn billing(audit: &Audit) -> Toolset {
    let pipeline = Pipeline::new().with_repair(RepairPolicy::Strict).with_recorder(audit.clone());
    Toolset::named("billing").with_pipeline(pipeline).with(double("pay")).with(with_state("refund"))
}

struct Same;

impl Adaptor for Same {
    fn adapt(&self, tool: &Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        Some(Arc::clone(tool))
    }
}

type Adapt = fn(Toolset) -> Toolset;

/// Every adaptor, in a form that keeps the names of the tools.
const ADAPTORS: [(&str, Adapt); 12] = [
    ("adapted", |it| it.adapted(Same)),
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

/// Calls that prove audit and strictness through `tools`.
async fn assert_pipeline(tools: &Toolset, audit: &Audit, name: &str) {
    let cx = ToolContext::default().with_state(Database);
    let done = tools.call_with("pay", json!({"x": 21}), &cx).await;
    assert_eq!(done.model_text(), "42", "{name}");
    assert_eq!(audit.take(), ["pay"], "{name}: each call is recorded once");
    let strict = tools.call_with("pay", json!({"x": "21"}), &cx).await;
    assert_eq!(
        strict.model_text(),
        "invalid arguments: /x: expected integer, received string \"21\"",
        "{name}: arguments are not repaired"
    );
    assert_eq!(audit.take(), ["pay"], "{name}");
}

async fn assert_checks(adapt: impl Fn(Toolset) -> Toolset, name: &str) {
    let audit = Audit::default();
    let tools = adapt(billing(&audit));
    assert_pipeline(&tools, &audit, name).await;

    // A tool without its state is withheld, and the diagnostic has the label of the toolset inside.
    let list = tools.list(&ListContext::default()).await;
    assert!(list.get("refund").is_none(), "{name}");
    let diagnostics: Vec<_> = list.diagnostics().iter().map(ToString::to_string).collect();
    let [withheld] = diagnostics.as_slice() else { panic!("{name}: {diagnostics:?}") };
    assert!(withheld.starts_with("tool \"refund\" of billing is quarantined: "), "{name}: {withheld}");
    let own: Vec<_> = tools.own_tools().map(|tool| tool.definition().name().clone()).collect();
    assert_eq!(own, ["pay", "refund"], "{name}: an agent finds the declared state when it is built");

    // A duplicate is a build error.
    let twice = adapt(billing(&audit).with(double("pay")));
    let error = twice.check().unwrap_err();
    assert!(matches!(&error, ToolsetError::DuplicateName { name, .. } if *name == *"pay"), "{name}: {error}");
}

#[tokio::test]
async fn each_adaptor_keeps_pipeline_checks_and_label() {
    for (name, adapt) in ADAPTORS {
        assert_checks(adapt, name).await;
    }
}

#[tokio::test]
async fn each_adaptor_applied_twice_keeps_pipeline_checks_and_label() {
    for (name, adapt) in ADAPTORS {
        assert_checks(|it| adapt(adapt(it)), name).await;
    }
}

#[tokio::test]
async fn each_pair_of_nested_adaptors_keeps_pipeline_checks_and_label() {
    for (outer, around) in ADAPTORS {
        for (inner, within) in ADAPTORS {
            let nested = |it| around(Toolset::named("outer").with_source(within(it)));
            assert_checks(nested, &format!("{outer} around {inner}")).await;
        }
    }
}

#[tokio::test]
async fn a_nested_toolset_is_recorded_by_both_pipelines() {
    let (inner, outer) = (Audit::default(), Audit::default());
    let pipeline = Pipeline::new().with_recorder(outer.clone());
    let tools = Toolset::new()
        .with_pipeline(pipeline)
        .with(double("own"))
        .with_source(billing(&inner).prefixed("b_"));
    tools.call("b_pay", json!({"x": 1})).await;
    assert_eq!((inner.take(), outer.take()), (vec!["b_pay".to_owned()], vec!["b_pay".to_owned()]));
    tools.call("own", json!({"x": "1"})).await;
    assert_eq!((inner.take(), outer.take()), (vec![], vec!["own".to_owned()]));
    // The outer pipeline repairs arguments, the inner one does not.
    assert!(tools.call("own", json!({"x": "1"})).await.is_success());
    assert!(!tools.call("b_pay", json!({"x": "1"})).await.is_success());
}

/// A source behind a trait object is a toolset as well.
#[tokio::test]
async fn a_toolset_behind_a_trait_object_keeps_its_pipeline() {
    let audit = Audit::default();
    let source: Arc<dyn haft_core::ToolSource> = Arc::new(billing(&audit));
    let tools = Toolset::new().with_source(source);
    assert_pipeline(&tools, &audit, "trait object").await;
    let source: Arc<dyn haft_core::ToolSource> = Arc::new(billing(&audit));
    assert_pipeline(&source.filtered(|_| true), &audit, "adapted trait object").await;
}

#[tokio::test]
async fn a_pipeline_set_on_an_adapted_toolset_replaces_its_own() {
    let (first, second) = (Audit::default(), Audit::default());
    let tools =
        billing(&first).filtered(|_| true).with_pipeline(Pipeline::new().with_recorder(second.clone()));
    tools.call("pay", json!({"x": "1"})).await;
    assert_eq!((first.take(), second.take()), (vec![], vec!["pay".to_owned()]));
}

/// Tools added after an adaptor are not adapted.
#[tokio::test]
async fn an_adaptor_changes_the_tools_added_before_it() {
    let tools = Toolset::new().with(double("a")).prefixed("x_").with(double("b"));
    let names = tools.tools(&ListContext::default()).await.unwrap();
    let mut names: Vec<_> = names.names().map(ToString::to_string).collect();
    names.sort();
    assert_eq!(names, ["b", "x_a"]);
}

/// A source that panics when it is listed.
struct Broken;

#[async_trait]
impl haft_core::ToolSource for Broken {
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
async fn a_panicking_adaptor_costs_its_own_tools() {
    let adapted = Toolset::named("adapted").with(double("a")).prepared(|_, _| panic!("prepared"));
    let tools = Toolset::new().with(double("b")).with_source(adapted).with_source(Broken);
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
