use std::{any::Any, time::Duration};

use super::{Adaptor, ListContext, ToolSource, Toolset};
use crate::{
    call::{ToolError, ToolOutput},
    tool::{InvalidToolName, ToolDefinition},
};

/// The adaptor methods of [`Toolset`] for any tool source. Each method wraps the source in a
/// toolset.
///
/// # Examples
///
/// ```
/// use haft_core::{Toolset, tool, toolset::ToolSourceExt};
/// use haft_middleware::ToolRegistry;
///
/// /// Returns its input.
/// #[tool]
/// fn echo(text: String) -> String {
///     text
/// }
///
/// # futures::executor::block_on(async {
/// let plugins = ToolRegistry::new("plugins");
/// plugins.register(Echo)?;
/// let tools = Toolset::new().with_source(plugins.prefixed("plugin_"));
/// assert_eq!(tools.names().await, ["plugin_echo"]);
/// # Ok::<(), haft_core::toolset::ToolsetError>(()) })?;
/// # Ok::<(), haft_core::toolset::ToolsetError>(())
/// ```
pub trait ToolSourceExt: ToolSource + Sized + 'static {
    /// Wraps the source in a toolset. A toolset is returned unchanged.
    fn into_toolset(self) -> Toolset {
        match (&self as &dyn Any).downcast_ref::<Toolset>() {
            Some(toolset) => toolset.clone(),
            None => Toolset::named(self.label()).with_source(self),
        }
    }

    /// See [`Toolset::adapted`].
    fn adapted(self, adaptor: impl Adaptor + 'static) -> Toolset {
        self.into_toolset().adapted(adaptor)
    }

    /// See [`Toolset::prepared`].
    fn prepared<F>(self, prepare: F) -> Toolset
    where
        F: Fn(ToolDefinition, &ListContext) -> Option<ToolDefinition> + Send + Sync + 'static,
    {
        self.into_toolset().prepared(prepare)
    }

    /// See [`Toolset::prefixed`].
    fn prefixed(self, prefix: impl Into<String>) -> Toolset {
        self.into_toolset().prefixed(prefix)
    }

    /// See [`Toolset::renamed`].
    ///
    /// # Errors
    ///
    /// Fails if a new name is not a valid tool name.
    fn renamed<O: Into<String>, N: AsRef<str>>(
        self,
        names: impl IntoIterator<Item = (O, N)>,
    ) -> Result<Toolset, InvalidToolName> {
        self.into_toolset().renamed(names)
    }

    /// See [`Toolset::filtered`].
    fn filtered<F>(self, keep: F) -> Toolset
    where
        F: Fn(&ToolDefinition) -> bool + Send + Sync + 'static,
    {
        self.into_toolset().filtered(keep)
    }

    /// See [`Toolset::mapped`].
    fn mapped<F>(self, map: F) -> Toolset
    where
        F: Fn(&ToolDefinition, ToolOutput) -> Result<ToolOutput, ToolError> + Send + Sync + 'static,
    {
        self.into_toolset().mapped(map)
    }

    /// See [`Toolset::cached`].
    fn cached(self, time_to_live: Duration) -> Toolset {
        self.into_toolset().cached(time_to_live)
    }

    /// See [`Toolset::approval_required`].
    fn approval_required<F>(self, select: F) -> Toolset
    where
        F: Fn(&ToolDefinition) -> bool + Send + Sync + 'static,
    {
        self.into_toolset().approval_required(select)
    }

    /// See [`Toolset::external`].
    fn external<F>(self, select: F) -> Toolset
    where
        F: Fn(&ToolDefinition) -> bool + Send + Sync + 'static,
    {
        self.into_toolset().external(select)
    }

    /// See [`Toolset::combined`].
    fn combined(self, other: impl ToolSource + 'static) -> Toolset {
        self.into_toolset().combined(other)
    }
}

impl<S: ToolSource + Sized + 'static> ToolSourceExt for S {}
