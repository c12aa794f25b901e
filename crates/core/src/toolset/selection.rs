//! Toolset methods that select tools by name.

use std::collections::BTreeSet;

use super::{ListContext, Toolset, ToolsetError};
use crate::pipeline::unknown_tool_message;

impl Toolset {
    /// Returns a toolset with only the tools named in `names`, in the order of this toolset.
    ///
    /// If a source later changes a selected tool, the returned toolset has the changed tool.
    ///
    /// # Errors
    ///
    /// Fails if `names` contains the name of a tool that does not exist. The error lists up to 30
    /// existing names.
    pub async fn subset<N: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Self, ToolsetError> {
        self.select(names, true).await
    }

    /// Returns a toolset without the tools named in `names`.
    ///
    /// # Errors
    ///
    /// Fails if `names` contains the name of a tool that does not exist. The error lists up to 30
    /// existing names.
    pub async fn without_tools<N: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Self, ToolsetError> {
        self.select(names, false).await
    }

    /// Returns a toolset that selects tools by name. If `keeps_named` is `true`, only the tools in
    /// `names` stay visible. If `keeps_named` is `false`, the tools in `names` are hidden.
    async fn select<N: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = N>,
        keeps_named: bool,
    ) -> Result<Self, ToolsetError> {
        let all = self.list_all(&ListContext::default()).await;
        let names: BTreeSet<_> = names
            .into_iter()
            .map(|name| match all.get(name.as_ref()) {
                Some(tool) => Ok(tool.definition().name().clone()),
                None => Err(ToolsetError::UnknownTool(unknown_tool_message(name.as_ref(), &all))),
            })
            .collect::<Result<_, _>>()?;
        Ok(self.clone().filtered(move |definition| names.contains(definition.name()) == keeps_named))
    }
}
