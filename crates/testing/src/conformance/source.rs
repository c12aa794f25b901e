use std::{future::IntoFuture, sync::Arc, time::Duration};

use futures::{
    FutureExt as _,
    future::{BoxFuture, join_all},
};

use super::{DEFAULT_TIMEOUT, Report, Rule, with_timeout};
use haft_core::{
    ToolDefinition, ToolName, ToolSource,
    toolset::{ListContext, ToolList},
};

const LABEL_CONSTANT: Rule = Rule {
    text: "the label names the source",
    remedy: "return a constant text, such as `mcp:files`, and use it in errors",
};
const LISTS_IN_TIME: Rule = Rule {
    text: "the source lists its tools in time",
    remedy: "connect before listing, and put a deadline on each wait; check a source that is able to list",
};
const SNAPSHOT_REUSED: Rule = Rule {
    text: "an unchanged source returns the same snapshot",
    remedy: "store the `ToolList` and return clones until something changes: an agent lists before each request",
};
const TOOLS_UNCHANGED: Rule = Rule {
    text: "listing does not change the tools",
    remedy: "return the same tools with the same definitions until something changes",
};
const CONCURRENT_LISTINGS: Rule = Rule {
    text: "concurrent listings all return the tools",
    remedy: "let later callers wait for the listing in progress",
};
const DROP_HARMLESS: Rule = Rule {
    text: "a dropped listing does not affect the next one",
    remedy: "leave no lock and no half-read answer behind when the future is dropped",
};
const TOOLS_FOUND_BY_NAME: Rule = Rule {
    text: "each tool is found by the name in its definition, which is constant",
    remedy: "create the definition once and store it in the tool",
};

/// A conformance check of a tool source, created by [`source`]. It runs when it is awaited.
#[must_use = "a check does nothing unless awaited"]
pub struct SourceCheck {
    source: Arc<dyn ToolSource>,
    context: ListContext,
    timeout: Duration,
}

/// Creates a check of `source` against these rules of the [`ToolSource`] contract:
///
/// - the label is not empty and does not change
/// - tools are listed within the timeout
/// - an unchanged source returns the same snapshot for each listing
/// - concurrent listings return the same tools, and so does a listing after a dropped listing
/// - each tool is found by the name in its definition
///
/// The source must not change its tools during the check. The tools are listed but not called. Use
/// [`tool`](super::tool) to check a tool.
pub fn source(source: impl ToolSource + 'static) -> SourceCheck {
    SourceCheck { source: Arc::new(source), context: ListContext::default(), timeout: DEFAULT_TIMEOUT }
}

impl SourceCheck {
    /// Sets the context that is passed to [`ToolSource::tools`]. The default context has no run and
    /// no host state.
    pub fn context(mut self, context: ListContext) -> Self {
        self.context = context;
        self
    }

    /// Sets the timeout of each listing. Default: 5 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    async fn run(self) -> Report {
        let label = self.source.label().to_owned();
        let mut report = Report::new(format!("tool source {label:?}"));
        report.require(LABEL_CONSTANT, !label.trim().is_empty(), || "it is empty".to_owned());
        let Some(first) = self.list(&mut report, LISTS_IN_TIME).await else { return report };
        report.require(LABEL_CONSTANT, self.source.label() == label, || {
            format!("it changed to {:?}", self.source.label())
        });
        for tool in first.tools() {
            let definition = tool.definition();
            let found = first.get(definition.name().as_str()).map(|tool| tool.definition().clone());
            report.require(TOOLS_FOUND_BY_NAME, found.as_ref() == Some(definition), || {
                format!("\"{}\" is not found", definition.name())
            });
        }
        // One finding about snapshots is enough.
        let mut is_reused = false;
        if let Some(again) = self.list(&mut report, LISTS_IN_TIME).await {
            if definitions(&again) != definitions(&first) {
                report.add_finding(
                    TOOLS_UNCHANGED,
                    format!("it has {} instead of {}", names(&again), names(&first)),
                );
            } else {
                is_reused = require_snapshot(&mut report, "the second listing", &again, &first);
            }
        }
        let many =
            join_all((0..8).map(|_| with_timeout(self.timeout, self.source.tools(&self.context)))).await;
        let equal: Vec<_> = many
            .iter()
            .filter_map(|it| it.as_ref()?.as_ref().ok())
            .filter(|list| definitions(list) == definitions(&first))
            .collect();
        let got = equal.len();
        report.require(CONCURRENT_LISTINGS, got == many.len(), || format!("{got} of {} do", many.len()));
        let other = equal.iter().find(|list| list.snapshot_id() != first.snapshot_id());
        if let Some(other) = other.filter(|_| is_reused) {
            is_reused = require_snapshot(&mut report, "a concurrent listing", other, &first);
        }
        drop(self.source.tools(&self.context).now_or_never());
        if let Some(after) = self.list(&mut report, DROP_HARMLESS).await {
            if definitions(&after) != definitions(&first) {
                report.add_finding(DROP_HARMLESS, format!("the next one returns {}", names(&after)));
            } else if is_reused {
                require_snapshot(&mut report, "the listing after a dropped one", &after, &first);
            }
        }
        report
    }

    /// Lists the tools of the source. Reports an error or a timeout as a violation of `rule` and
    /// returns `None`.
    async fn list(&self, report: &mut Report, rule: Rule) -> Option<ToolList> {
        match with_timeout(self.timeout, self.source.tools(&self.context)).await {
            Some(Ok(list)) => return Some(list),
            Some(Err(error)) => {
                report.require(LABEL_CONSTANT, error.label == self.source.label(), || {
                    format!("an error has the label {:?}", error.label)
                });
                report.add_finding(rule, error.to_string());
            }
            None => report.add_finding(rule, format!("no list in {:?}", self.timeout)),
        }
        None
    }
}

impl IntoFuture for SourceCheck {
    type Output = Report;
    type IntoFuture = BoxFuture<'static, Report>;

    fn into_future(self) -> Self::IntoFuture {
        self.run().boxed()
    }
}

/// Returns `true` if `list` and `first` are the same snapshot. If they differ, reports a violation
/// and returns `false`.
fn require_snapshot(report: &mut Report, listing: &str, list: &ToolList, first: &ToolList) -> bool {
    let is_same = list.snapshot_id() == first.snapshot_id();
    report.require(SNAPSHOT_REUSED, is_same, || format!("{listing} is another snapshot of {}", names(list)));
    is_same
}

fn definitions(list: &ToolList) -> Vec<&ToolDefinition> {
    list.tools().iter().map(|tool| tool.definition()).collect()
}

fn names(list: &ToolList) -> String {
    let names: Vec<_> = list.names().map(ToolName::as_str).collect();
    format!("[{}]", names.join(", "))
}

impl std::fmt::Debug for SourceCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceCheck").finish_non_exhaustive()
    }
}
