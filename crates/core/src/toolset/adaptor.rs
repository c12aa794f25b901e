//! The [`Adaptor`] trait and its application to toolsets.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{ListContext, SourceError, Toolset, merge::Listing};
use crate::{
    pipeline::ToolList,
    small_lru::SmallLru,
    tool::{Tool, ToolDefinition},
};

/// A change that [`Toolset::adapted`] applies to every tool of a toolset. Implemented for closures
/// with the signature of [`adapt`](Self::adapt).
///
/// # Examples
///
/// An adaptor that makes every tool sequential:
///
/// ```
/// use std::sync::Arc;
/// use haft_core::{Tool, ToolExt, Toolset, tool, toolset::Adaptor};
///
/// struct Sequential;
///
/// impl Adaptor for Sequential {
///     fn adapt(&self, tool: &Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
///         let mut policy = tool.definition().policy().clone();
///         policy.sequential = true;
///         Some(Arc::new(Arc::clone(tool).with_definition(|it| it.with_policy(policy))))
///     }
/// }
///
/// #[tool]
/// fn save(file: String) -> String {
///     file
/// }
///
/// # futures::executor::block_on(async {
/// let tools = Toolset::new().with_tool(Save).adapted(Sequential);
/// assert!(tools.get("save").await.unwrap().definition().policy().sequential);
///
/// // A closure that hides the tools without a description.
/// let described = tools.adapted(|tool: &Arc<dyn Tool>| {
///     (!tool.definition().description().is_empty()).then(|| Arc::clone(tool))
/// });
/// assert!(described.names().await.is_empty());
/// # });
/// ```
pub trait Adaptor: Send + Sync {
    /// Checks the tools before they are adapted. `all` is a snapshot of the tools. The default
    /// implementation accepts every snapshot.
    ///
    /// # Errors
    ///
    /// Fails with a reason if the tools cannot be adapted. The adapted toolset then lists no tools,
    /// and has a diagnostic with this reason.
    fn check(&self, _all: &ToolList) -> Result<(), String> {
        Ok(())
    }

    /// Returns a replacement for `tool`, or `None` to hide the tool. The replacements are cached
    /// until the tools change.
    fn adapt(&self, tool: &Arc<dyn Tool>) -> Option<Arc<dyn Tool>>;
}

/// Uses the closure as [`adapt`](Adaptor::adapt). `check` accepts every snapshot.
impl<F: Fn(&Arc<dyn Tool>) -> Option<Arc<dyn Tool>> + Send + Sync> Adaptor for F {
    fn adapt(&self, tool: &Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        self(tool)
    }
}

pub(super) type PrepareFn = dyn Fn(ToolDefinition, &ListContext) -> Option<ToolDefinition> + Send + Sync;

/// A transformation of the snapshots of a toolset. An unchanged toolset returns the same
/// transformed snapshot again.
pub(super) enum Adaptation {
    /// An [`Adaptor`] that replaces or hides each tool.
    PerTool { adaptor: Box<dyn Adaptor>, lists: Mutex<SmallLru<u64, ToolList>> },
    /// A function that is called for each tool at each listing. It returns the definition for the
    /// snapshot, or `None` to hide the tool.
    Prepared(Box<PrepareFn>),
    /// A cache that keeps the snapshot of the tools for `time_to_live`.
    Cached { time_to_live: Duration, list: Mutex<Option<(Instant, ToolList)>> },
}

impl Adaptation {
    pub(super) fn each(adaptor: impl Adaptor + 'static) -> Self {
        Self::PerTool { adaptor: Box::new(adaptor), lists: Mutex::default() }
    }

    pub(super) fn cached(time_to_live: Duration) -> Self {
        Self::Cached { time_to_live, list: Mutex::default() }
    }

    /// Returns the replacement for the static tool `tool`. `None` if the adaptor hides the tool.
    /// [`Prepared`](Self::Prepared) is not applied, because it needs the context of a listing.
    pub(super) fn adapt_static(&self, tool: Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        match self {
            Self::PerTool { adaptor, .. } => adaptor.adapt(&tool),
            Self::Prepared(_) | Self::Cached { .. } => Some(tool),
        }
    }

    /// Lists the tools of `inner` and returns the transformed snapshot.
    pub(super) async fn list(&self, inner: &Toolset, cx: &ListContext) -> Listing {
        match self {
            Self::PerTool { adaptor, lists } => {
                let all = inner.list_all(cx).await;
                adaptor.check(&all).map_err(|reason| SourceError::new(inner.label(), reason))?;
                let adapt = |_: &u64| all.filter_map(|tool| adaptor.adapt(tool));
                Ok(lock(lists).get_or_insert_with(all.snapshot_id(), adapt).clone())
            }
            Self::Prepared(prepare) => {
                let all = inner.list_all(cx).await;
                let definitions = all.tools().iter().map(|tool| prepare(tool.definition().clone(), cx));
                Ok(all.redefined(definitions.collect()))
            }
            Self::Cached { time_to_live, list } => {
                let cached =
                    lock(list).as_ref().filter(|(since, _)| since.elapsed() < *time_to_live).cloned();
                if let Some((_, cached)) = cached {
                    return Ok(cached);
                }
                let started = Instant::now();
                let fresh = inner.list_all(cx).await;
                // A snapshot with a failed source is not cached, so that the next listing tries the
                // source again.
                if fresh.failed_sources().next().is_some() {
                    return Ok(fresh);
                }
                let mut cached = lock(list);
                // If several listings run concurrently, the snapshot of the listing that started
                // last is cached.
                if cached.as_ref().is_none_or(|(since, _)| *since <= started) {
                    *cached = Some((started, fresh.clone()));
                }
                Ok(fresh)
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
