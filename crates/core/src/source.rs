//! Where tools come from.

mod adapted;
mod approval_required;
mod cached;
mod combined;
mod ext;
mod external;
mod filtered;
mod layered;
mod list;
mod mapped;
mod prefixed;
mod prepared;
mod registry;
mod renamed;

use async_trait::async_trait;

use crate::{BoxError, State};

pub use adapted::{Adapted, Adaptor};
pub use approval_required::ApprovalRequired;
pub use cached::Cached;
pub use combined::Combined;
pub use ext::ToolSourceExt;
pub use external::External;
pub use filtered::Filtered;
pub use layered::Layered;
pub use list::{Diagnostic, ToolList};
pub use mapped::Mapped;
pub use prefixed::Prefixed;
pub use prepared::Prepared;
pub use registry::ToolRegistry;
pub use renamed::Renamed;

/// Something that offers tools: a server, a registry, a list.
///
/// A source returns tools; it never dispatches by name. It owns the connection: when it is dropped the
/// connection ends, whoever still holds its tools, and they fail with a typed error.
#[async_trait]
pub trait ToolSource: Send + Sync {
    /// Names the source in errors and logs, such as `mcp:files`.
    fn label(&self) -> &str;

    /// A snapshot of the tools on offer now.
    ///
    /// Asked before each model request: when nothing changed, the same snapshot must come back (the same
    /// [`ToolList::id`]), and cost nothing.
    ///
    /// # Errors
    ///
    /// Fails when the source has no tools to offer and can say why. Other sources are not affected.
    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError>;
}

#[async_trait]
impl<S: ToolSource + ?Sized> ToolSource for std::sync::Arc<S> {
    fn label(&self) -> &str {
        S::label(self)
    }

    async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
        S::tools(self, cx).await
    }
}

/// For whom tools are listed. Most sources ignore it.
#[derive(Clone, Debug, Default)]
pub struct ListContext {
    /// The step of the run, from 0.
    pub step: u32,
    /// The run; empty outside a run.
    pub run_id: String,
    /// Values of the host program.
    pub state: State,
}

/// Why a source has no tools to offer.
#[derive(Debug, thiserror::Error)]
#[error("tool source {label}: {reason}")]
pub struct SourceError {
    /// The source's label.
    pub label: String,
    /// What went wrong, and what to do.
    pub reason: String,
    /// The error below.
    #[source]
    pub source: Option<BoxError>,
}

impl SourceError {
    /// Makes an error without a cause below it.
    pub fn new(label: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { label: label.into(), reason: reason.into(), source: None }
    }
}
