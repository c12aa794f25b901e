use std::{any::Any, time::Duration};

use super::{Adaptor, ListContext, ToolSource, Toolset};
use crate::{
    call::{ToolError, ToolOutput},
    tool::{InvalidToolName, ToolDefinition},
};

/// An extension trait with the adaptor methods of [`Toolset`] for any tool source. Each method
/// first converts the source to a toolset.
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
            None => Toolset::new().with_label(self.label()).with_source(self),
        }
    }

    /// Applies `adaptor` to all tools of the source. See [`Toolset::adapted`].
    fn adapted(self, adaptor: impl Adaptor + 'static) -> Toolset {
        self.into_toolset().adapted(adaptor)
    }

    /// Changes the definitions of tools, or hides tools, at each listing. See
    /// [`Toolset::prepared`].
    fn prepared<F>(self, prepare: F) -> Toolset
    where
        F: Fn(ToolDefinition, &ListContext) -> Option<ToolDefinition> + Send + Sync + 'static,
    {
        self.into_toolset().prepared(prepare)
    }

    /// Puts `prefix` in front of the name of each tool. See [`Toolset::prefixed`].
    fn prefixed(self, prefix: impl Into<String>) -> Toolset {
        self.into_toolset().prefixed(prefix)
    }

    /// Renames tools. `names` contains pairs of the old and the new name of a tool. See
    /// [`Toolset::renamed`].
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

    /// Hides the tools for which `keep` returns `false`. See [`Toolset::filtered`].
    fn filtered<F>(self, keep: F) -> Toolset
    where
        F: Fn(&ToolDefinition) -> bool + Send + Sync + 'static,
    {
        self.into_toolset().filtered(keep)
    }

    /// Transforms the outputs of all tools with `map`. See [`Toolset::mapped`].
    fn mapped<F>(self, map: F) -> Toolset
    where
        F: Fn(&ToolDefinition, ToolOutput) -> Result<ToolOutput, ToolError> + Send + Sync + 'static,
    {
        self.into_toolset().mapped(map)
    }

    /// Caches the snapshot of the tools for `time_to_live`. See [`Toolset::cached`].
    fn cached(self, time_to_live: Duration) -> Toolset {
        self.into_toolset().cached(time_to_live)
    }

    /// Requires an approval for each call to a tool for which `select` returns `true`. See
    /// [`Toolset::approval_required`].
    fn approval_required<F>(self, select: F) -> Toolset
    where
        F: Fn(&ToolDefinition) -> bool + Send + Sync + 'static,
    {
        self.into_toolset().approval_required(select)
    }

    /// Turns the tools for which `select` returns `true` into external tools, which the host
    /// program executes. See [`Toolset::external`].
    fn external<F>(self, select: F) -> Toolset
    where
        F: Fn(&ToolDefinition) -> bool + Send + Sync + 'static,
    {
        self.into_toolset().external(select)
    }

    /// Returns a toolset with the tools of this source and the tools of `other`. See
    /// [`Toolset::combined`].
    fn combined(self, other: impl ToolSource + 'static) -> Toolset {
        self.into_toolset().combined(other)
    }
}

impl<S: ToolSource + Sized + 'static> ToolSourceExt for S {}
