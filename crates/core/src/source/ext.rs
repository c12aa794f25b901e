use super::{ListContext, Prepared, ToolSource};
use crate::ToolDefinition;

/// What can be done with any source of tools.
pub trait ToolSourceExt: ToolSource {
    /// Changes or hides tools, whenever they are listed: `prepare` is given each definition, for whom it is listed, and gives
    /// what is to be shown, or `None` for a tool that is not.
    ///
    /// A tool that is hidden is unknown to who calls it. One with another name is called by that, and knows its own.
    /// While the source and what `prepare` gives stay the same, so does the snapshot.
    ///
    /// # Examples
    ///
    /// Nobody is offered what is deprecated:
    ///
    /// ```
    /// use haft_core::{Toolset, ToolSourceExt, tool};
    ///
    /// #[tool(deprecated, replaced_by = "now")]
    /// fn time() -> &'static str {
    ///     "late"
    /// }
    ///
    /// #[tool]
    /// fn now() -> &'static str {
    ///     "later"
    /// }
    ///
    /// # futures::executor::block_on(async {
    /// let all = Toolset::new().with(Time).with(Now);
    /// let tools = Toolset::new().with_source(all.prepared(|it, _cx| it.deprecated().is_none().then_some(it)));
    /// assert_eq!(tools.names().await, ["now"]);
    /// # });
    /// ```
    fn prepared<F>(self, prepare: F) -> Prepared<Self, F>
    where
        Self: Sized,
        F: Fn(ToolDefinition, &ListContext) -> Option<ToolDefinition> + Send + Sync,
    {
        Prepared::new(self, prepare)
    }
}

impl<S: ToolSource + ?Sized> ToolSourceExt for S {}
