use std::{future::IntoFuture, sync::Arc, time::Duration};

use futures::{
    FutureExt as _,
    future::{BoxFuture, join_all},
};

use super::{PATIENCE, Promise, Report, within};
use haft_core::{
    ToolDefinition, ToolName, ToolSource,
    toolset::{ListContext, ToolList},
};

const LABEL: Promise = Promise {
    what: "the label names the source",
    remedy: "return one text that stays, such as `mcp:files`, and put it into errors",
};
const LISTS: Promise = Promise {
    what: "the source lists its tools in time",
    remedy: "connect before it is listed, and put a deadline on what it waits for; check a source that can list",
};
const SAME: Promise = Promise {
    what: "when nothing changed, the same snapshot comes back",
    remedy: "keep the `ToolList` and return a clone of it until something changes: an agent asks before each request",
};
const ALIKE: Promise = Promise {
    what: "listing changes nothing",
    remedy: "tell the same tools, with the same definitions, until something changes",
};
const TOGETHER: Promise = Promise {
    what: "listings side by side all get the tools",
    remedy: "let those who come later wait for the listing that is under way",
};
const DROPPED: Promise = Promise {
    what: "a listing that is dropped costs the next one nothing",
    remedy: "do not leave a lock or a half-read answer behind when the future is dropped",
};
const FINDS: Promise = Promise {
    what: "each tool is found by the name in its definition, which stays",
    remedy: "make the definition once and keep it in the tool",
};

/// Checks a source: see [`source`].
#[must_use = "a check does nothing until it is awaited"]
pub struct SourceCheck {
    source: Arc<dyn ToolSource>,
    context: ListContext,
    patience: Duration,
}

/// Checks what [`ToolSource`] promises: a label; tools in time; the same snapshot while nothing changes, whoever asks, side by side or
/// after somebody gave up. Its tools are not called: for that, see [`tool`](super::tool).
///
/// The source must not change meanwhile.
pub fn source(source: impl ToolSource + 'static) -> SourceCheck {
    SourceCheck { source: Arc::new(source), context: ListContext::default(), patience: PATIENCE }
}

impl SourceCheck {
    /// Lists the tools for this context.
    pub fn context(mut self, context: ListContext) -> Self {
        self.context = context;
        self
    }

    /// Sets how long each listing may take. Default: five seconds.
    pub fn within(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    async fn run(self) -> Report {
        let label = self.source.label().to_owned();
        let mut report = Report::new(format!("tool source {label:?}"));
        report.hold(LABEL, !label.trim().is_empty(), || "it is empty".to_owned());
        let Some(first) = self.list(&mut report, LISTS).await else { return report };
        report.hold(LABEL, self.source.label() == label, || format!("it is {:?} later", self.source.label()));
        for tool in first.tools() {
            let definition = tool.definition();
            let found = first.get(definition.name().as_str()).map(|tool| tool.definition().clone());
            report.hold(FINDS, found.as_ref() == Some(definition), || {
                format!("\"{}\" is not", definition.name())
            });
        }
        if let Some(again) = self.list(&mut report, LISTS).await {
            if definitions(&again) != definitions(&first) {
                report
                    .add(ALIKE, format!("listed again, it has {} and not {}", names(&again), names(&first)));
            } else {
                report.hold(SAME, again.id() == first.id(), || {
                    format!("listed twice, {} is another one", names(&again))
                });
            }
        }
        let many = join_all((0..8).map(|_| within(self.patience, self.source.tools(&self.context)))).await;
        let got =
            many.iter().filter(|it| matches!(it, Some(Ok(list)) if definitions(list) == definitions(&first)));
        let got = got.count();
        report.hold(TOGETHER, got == many.len(), || format!("{got} of {} do", many.len()));
        drop(self.source.tools(&self.context).now_or_never());
        if let Some(after) = self.list(&mut report, DROPPED).await {
            report.hold(DROPPED, definitions(&after) == definitions(&first), || {
                format!("then it has {}", names(&after))
            });
        }
        report
    }

    /// The tools, unless that fails, which is reported.
    async fn list(&self, report: &mut Report, promise: Promise) -> Option<ToolList> {
        match within(self.patience, self.source.tools(&self.context)).await {
            Some(Ok(list)) => return Some(list),
            Some(Err(error)) => {
                report.hold(LABEL, error.label == self.source.label(), || {
                    format!("an error names {:?}", error.label)
                });
                report.add(promise, error.to_string());
            }
            None => report.add(promise, format!("it does not answer in {:?}", self.patience)),
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
