//! The parts of a toolset.

use std::{any::Any, fmt, panic::AssertUnwindSafe, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};

use super::{
    ListContext, ToolSource, Toolset,
    adaptor::Adaptation,
    background_source::{BackgroundSource, panic_error},
    merge::{PartListing, usable_names, with_unique_name},
};
use crate::tool::Tool;

/// A part of a [`Toolset`].
#[derive(Clone)]
pub(super) enum Part {
    Tool(Arc<dyn Tool>),
    Source(Arc<BackgroundSource>),
    Set(Toolset),
    /// A source or an inner toolset, and the prefix that makes its tool names unique.
    Named(String, Box<Part>),
    /// The toolset before an adaptor was applied, and the adaptation of its tools. The inner and
    /// the outer toolset have the same label.
    Adapted(Toolset, Arc<Adaptation>),
}

impl Part {
    pub(super) fn from_source(source: impl ToolSource + 'static) -> Self {
        match (&source as &dyn Any).downcast_ref::<Toolset>() {
            Some(toolset) => Self::Set(toolset.clone()),
            None => Self::Source(Arc::new(BackgroundSource::new(Arc::new(source)))),
        }
    }

    /// Adds the static tools of this part to `tools`, those of the earlier parts.
    pub(super) fn collect_static_tools(&self, tools: &mut Vec<Arc<dyn Tool>>) {
        match self {
            Self::Tool(tool) => tools.push(Arc::clone(tool)),
            Self::Source(_) => {}
            Self::Set(inner) => tools.extend(inner.static_tools()),
            Self::Named(prefix, part) => {
                let names = usable_names(tools.iter());
                let mut named = Vec::new();
                part.collect_static_tools(&mut named);
                tools.extend(named.iter().map(|tool| with_unique_name(tool, &names, prefix)));
            }
            Self::Adapted(inner, adaptation) => {
                tools.extend(inner.static_tools().filter_map(|tool| adaptation.adapt_static(tool)));
            }
        }
    }

    pub(super) fn find_zero_timeout(&self) -> Option<&str> {
        match self {
            Self::Set(inner) | Self::Adapted(inner, _) => inner.find_zero_timeout(),
            Self::Named(_, part) => part.find_zero_timeout(),
            Self::Tool(_) | Self::Source(_) => None,
        }
    }

    /// Returns a future that lists the tools of a source or inner toolset. `None` for a single
    /// tool, which needs no listing.
    pub(super) fn list<'a>(&'a self, cx: &'a ListContext) -> Option<BoxFuture<'a, PartListing<'a>>> {
        Some(match self {
            Self::Tool(_) => return None,
            Self::Source(source) => {
                source.list(cx).map(|listing| PartListing::new(source.label(), listing)).boxed()
            }
            Self::Named(prefix, part) => {
                let with_prefix = |listing| PartListing { conflict_prefix: Some(prefix), ..listing };
                part.list(cx)?.map(with_prefix).boxed()
            }
            Self::Set(inner) => {
                inner.list_all(cx).map(|list| PartListing::new(inner.label(), Ok(list))).boxed()
            }
            Self::Adapted(inner, adaptation) => {
                let listing = AssertUnwindSafe(adaptation.list(inner, cx)).catch_unwind();
                let listing = listing.map(|listing| {
                    let listing = listing.unwrap_or_else(|_panic| Err(panic_error(inner.label())));
                    PartListing::new(inner.label(), listing)
                });
                listing.boxed()
            }
        })
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool(tool) => f.debug_tuple("Tool").field(tool.definition().name()).finish(),
            Self::Source(source) => f.debug_tuple("Source").field(&source.label()).finish(),
            Self::Named(prefix, part) => f.debug_tuple("Named").field(prefix).field(part).finish(),
            Self::Set(inner) => inner.fmt(f),
            Self::Adapted(inner, _) => f.debug_tuple("Adapted").field(inner).finish(),
        }
    }
}
