//! The [`Adaptor`] trait, and adaptations of a toolset.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{ListContext, SourceError, Toolset, merge::Listing, recent_cache::RecentCache};
use crate::{
    pipeline::ToolList,
    tool::{Tool, ToolDefinition, WithDefinition},
};

/// A change of the tools of a [`Toolset`], applied by [`Toolset::adapted`].
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
/// let tools = Toolset::new().with(Save).adapted(Sequential);
/// assert!(tools.get("save").await.unwrap().definition().policy().sequential);
/// # });
/// ```
pub trait Adaptor: Send + Sync {
    /// Checks a snapshot before its tools are adapted.
    ///
    /// # Errors
    ///
    /// Fails if no tool of the snapshot can be adapted. The reason is reported as a diagnostic.
    fn check(&self, _all: &ToolList) -> Result<(), String> {
        Ok(())
    }

    /// Returns a replacement for `tool`, or `None` to hide it. Called once per tool and snapshot.
    fn adapt(&self, tool: &Arc<dyn Tool>) -> Option<Arc<dyn Tool>>;
}

pub(super) type Prepare = dyn Fn(ToolDefinition, &ListContext) -> Option<ToolDefinition> + Send + Sync;

/// A change of all tools of a toolset.
///
/// Recent snapshots are cached: an unchanged input gives the same output.
pub(super) enum Adaptation {
    /// Replaces or hides each tool.
    Each { adaptor: Box<dyn Adaptor>, lists: Mutex<RecentCache<u64, ToolList>> },
    /// Changes or hides definitions at each listing.
    Prepared { prepare: Box<Prepare>, lists: Mutex<RecentCache<PreparedKey, ToolList>> },
    /// Caches the snapshot for a time.
    Cached { time_to_live: Duration, list: Mutex<Option<(Instant, ToolList)>> },
}

/// The id of a snapshot, and its definitions after the preparation.
type PreparedKey = (u64, Vec<Option<ToolDefinition>>);

impl Adaptation {
    pub(super) fn each(adaptor: impl Adaptor + 'static) -> Self {
        Self::Each { adaptor: Box::new(adaptor), lists: Mutex::default() }
    }

    pub(super) fn prepared(prepare: Box<Prepare>) -> Self {
        Self::Prepared { prepare, lists: Mutex::default() }
    }

    pub(super) fn cached(time_to_live: Duration) -> Self {
        Self::Cached { time_to_live, list: Mutex::default() }
    }

    /// Adapts a tool added as a value. A preparation depends on the listing and is not applied.
    pub(super) fn adapt_own(&self, tool: Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        match self {
            Self::Each { adaptor, .. } => adaptor.adapt(&tool),
            Self::Prepared { .. } | Self::Cached { .. } => Some(tool),
        }
    }

    /// Lists the tools of `inner` after this adaptation.
    pub(super) async fn list(&self, inner: &Toolset, cx: &ListContext) -> Listing {
        match self {
            Self::Each { adaptor, lists } => {
                let all = inner.all(cx).await;
                adaptor.check(&all).map_err(|reason| SourceError::new(inner.name(), reason))?;
                let adapt = |_: &u64| all.filter_map(|tool| adaptor.adapt(tool));
                Ok(lock(lists).get_or_insert_with(all.id(), adapt).clone())
            }
            Self::Prepared { prepare, lists } => {
                let all = inner.all(cx).await;
                Ok(prepared(&all, prepare, lists, cx))
            }
            Self::Cached { time_to_live, list } => {
                let cached =
                    lock(list).as_ref().filter(|(since, _)| since.elapsed() < *time_to_live).cloned();
                if let Some((_, cached)) = cached {
                    return Ok(cached);
                }
                let started = Instant::now();
                let fresh = inner.all(cx).await;
                // A failure is not cached.
                if fresh.failed_sources().next().is_some() {
                    return Ok(fresh);
                }
                let mut cached = lock(list);
                // Among concurrent listings, the listing with the latest start is cached.
                if cached.as_ref().is_none_or(|(since, _)| *since <= started) {
                    *cached = Some((started, fresh.clone()));
                }
                Ok(fresh)
            }
        }
    }
}

fn prepared(
    all: &ToolList,
    prepare: &Prepare,
    lists: &Mutex<RecentCache<PreparedKey, ToolList>>,
    cx: &ListContext,
) -> ToolList {
    let definitions: Vec<_> = all.tools().iter().map(|tool| prepare(tool.definition().clone(), cx)).collect();
    let is_unchanged = |(tool, prepared): (&Arc<dyn Tool>, &Option<ToolDefinition>)| {
        prepared.as_ref() == Some(tool.definition())
    };
    if all.tools().iter().zip(&definitions).all(is_unchanged) {
        return all.clone();
    }
    let redefine = |(_, definitions): &PreparedKey| {
        let mut definitions = definitions.iter();
        all.filter_map(|tool| {
            let definition = definitions.next()?.as_ref()?;
            Some(if tool.definition() == definition {
                Arc::clone(tool)
            } else {
                Arc::new(WithDefinition::new(Arc::clone(tool), definition.clone()))
            })
        })
    };
    lock(lists).get_or_insert_with((all.id(), definitions), redefine).clone()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
