use std::{future::IntoFuture, sync::Arc, time::Duration};

use futures::{
    FutureExt as _,
    future::{BoxFuture, join_all},
};

use super::{DEFAULT_TIMEOUT, Report, Rule, with_timeout};
use haft_core::{
    ToolName, ToolSource,
    toolset::{ListContext, ToolList},
};

const LABEL_CONSTANT: Rule =
    Rule { text: "the label names the source", remedy: "return a constant text, such as `mcp:files`" };
const LISTS_IN_TIME: Rule = Rule {
    text: "the source lists its tools in time",
    remedy: "connect before listing, and put a deadline on each wait; check a source that is able to list",
};
const SNAPSHOT_REUSED: Rule = Rule {
    text: "an unchanged source returns the same snapshot",
    remedy: "store the `ToolList` and return clones until something changes: an agent lists before each request",
};
const LISTINGS_INDEPENDENT: Rule = Rule {
    text: "concurrent and dropped listings do not affect others",
    remedy: "let later callers wait for the listing in progress; leave no lock and no half-read answer behind when the future is dropped",
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
/// - concurrent listings, after a dropped listing, return the tools
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
        let first = match self.list().await {
            Ok(list) => list,
            Err(problem) => {
                report.add_finding(LISTS_IN_TIME, problem);
                return report;
            }
        };
        report.require(LABEL_CONSTANT, self.source.label() == label, || {
            format!("it changed to {:?}", self.source.label())
        });
        drop(self.source.tools(&self.context).now_or_never());
        for listing in join_all((0..8).map(|_| self.list())).await {
            match listing {
                Ok(list) if list.snapshot_id() == first.snapshot_id() => continue,
                Ok(list) => report.add_finding(
                    SNAPSHOT_REUSED,
                    format!("a later listing returns another snapshot of {}", names(&list)),
                ),
                Err(problem) => report.add_finding(LISTINGS_INDEPENDENT, problem),
            }
            // One finding about later listings is enough.
            break;
        }
        report
    }

    /// Lists the tools of the source. Describes an error or a timeout as text.
    async fn list(&self) -> Result<ToolList, String> {
        match with_timeout(self.timeout, self.source.tools(&self.context)).await {
            Some(list) => list.map_err(|error| error.to_string()),
            None => Err(format!("no list in {:?}", self.timeout)),
        }
    }
}

impl IntoFuture for SourceCheck {
    type Output = Report;
    type IntoFuture = BoxFuture<'static, Report>;

    fn into_future(self) -> Self::IntoFuture {
        self.run().boxed()
    }
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
