use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tower_layer::Layer;

use super::{
    Adapted, ApprovalRequired, Cached, Combined, External, Filtered, Layered, ListContext, Mapped, Prefixed,
    Prepared, Renamed, ToolSource,
};
use crate::{CallService, InvalidToolName, ToolDefinition, ToolError, ToolName, ToolOutput, ToolService};

/// What can be done with any source of tools, also with a [`Toolset`](crate::Toolset). While the source's snapshot stays the
/// same, so does that of the adaptor.
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

    /// Puts a text before the name of each tool. The tool is called by that, and knows its own name.
    ///
    /// What comes out is a [`ToolName`] again, by the way of [`ToolName::from_foreign`]: valid, and different for different tools.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{Toolset, ToolSourceExt, tool};
    ///
    /// #[tool]
    /// fn search(words: String) -> String {
    ///     words
    /// }
    ///
    /// # futures::executor::block_on(async {
    /// let (wiki, mail) = (Toolset::new().with(Search), Toolset::new().with(Search));
    /// let both = Toolset::new().with_source(wiki.prefixed("wiki_")).with_source(mail.prefixed("mail_"));
    /// assert_eq!(both.names().await, ["wiki_search", "mail_search"]);
    /// # });
    /// ```
    fn prefixed(self, prefix: impl Into<String>) -> Adapted<Self, Prefixed>
    where
        Self: Sized,
    {
        Adapted::new(self, Prefixed(prefix.into()))
    }

    /// Gives tools other names: pairs of the old and the new one, of which the last for a tool counts. A tool that is not listed is
    /// renamed when it is.
    ///
    /// # Errors
    ///
    /// Fails for what is no [`ToolName`]. While another tool has a new name, the source fails, and says so.
    fn renamed<O: Into<String>, N: AsRef<str>>(
        self,
        names: impl IntoIterator<Item = (O, N)>,
    ) -> Result<Adapted<Self, Renamed>, InvalidToolName>
    where
        Self: Sized,
    {
        let names = names.into_iter().map(|(old, new)| Ok((old.into(), ToolName::new(new)?)));
        Ok(Adapted::new(self, Renamed(names.collect::<Result<BTreeMap<_, _>, _>>()?)))
    }

    /// Shows only the tools that `keep` says. Another one is unknown to who calls it. `keep` is asked once for each snapshot of the
    /// source; what changes from step to step is for [`prepared`](Self::prepared).
    fn filtered<F>(self, keep: F) -> Adapted<Self, Filtered<F>>
    where
        Self: Sized,
        F: Fn(&ToolDefinition) -> bool + Send + Sync,
    {
        Adapted::new(self, Filtered(keep))
    }

    /// Changes what tools return, before it is held against their output schema: to redact, to shorten, to fail. `map` is given
    /// the tool's own definition. A call that waits or fails is left as it is.
    fn mapped<F>(self, map: F) -> Adapted<Self, Mapped<F>>
    where
        Self: Sized,
        F: Fn(&ToolDefinition, ToolOutput) -> Result<ToolOutput, ToolError> + Send + Sync + 'static,
    {
        Adapted::new(self, Mapped(Arc::new(map)))
    }

    /// Puts a layer of `tower` around each tool, as [`ToolExt::layer`](crate::ToolExt::layer) does: for what is to happen before
    /// or after each call, and for limits.
    ///
    /// Each tool has its own, so that a concurrency limit counts the calls of one tool; one for all of them is
    /// `GlobalConcurrencyLimitLayer`. Where the list changes, a tool that was in it before, by its name with an equal definition, keeps its
    /// own, also where a server or an adaptor makes it anew; the same goes for what different callers are listed. A layer sends on the request
    /// that it was given.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{CallRequest, ToolError, Toolset, ToolSourceExt, json, tool};
    /// use tower::ServiceBuilder;
    ///
    /// #[tool]
    /// fn delete(file: String) -> String {
    ///     format!("{file} is gone")
    /// }
    ///
    /// # futures::executor::block_on(async {
    /// let guard = ServiceBuilder::new().filter(|request: CallRequest| match &request.arguments["file"] {
    ///     file if file == "budget.ods" => Err(ToolError::Denied("nobody deletes that".to_owned())),
    ///     _ => Ok(request),
    /// });
    /// let tools = Toolset::new().with_source(Toolset::new().with(Delete).layered(guard));
    /// assert_eq!(tools.call("delete", json!({"file": "old.log"})).await.model_text(), "old.log is gone");
    /// let denied = tools.call("delete", json!({"file": "budget.ods"})).await;
    /// assert_eq!(denied.model_text(), "denied: nobody deletes that");
    /// # });
    /// ```
    fn layered<L>(self, layer: L) -> Adapted<Self, Layered<L>>
    where
        Self: Sized,
        L: Layer<ToolService, Service: CallService> + Send + Sync,
    {
        Adapted::new(self, Layered::new(layer))
    }

    /// Lists what the source listed last, until that is older than this. A failure is not kept.
    ///
    /// There is one list for all callers: what depends on who asks goes around it, `source.cached(…).prepared(…)`, not into it.
    fn cached(self, time_to_live: Duration) -> Cached<Self>
    where
        Self: Sized,
    {
        Cached::new(self, time_to_live)
    }

    /// Lets the tools that `which` says wait for a person's permission: it sets their [policy](crate::Policy), which the
    /// pipeline's gate goes by. `which` is asked once for each snapshot of the source.
    fn approval_required<F>(self, which: F) -> Adapted<Self, ApprovalRequired<F>>
    where
        Self: Sized,
        F: Fn(&ToolDefinition) -> bool + Send + Sync,
    {
        Adapted::new(self, ApprovalRequired(which))
    }

    /// Leaves the tools that `which` says to the host program: a call of one waits for its result. `which` is asked once for each
    /// snapshot of the source.
    fn external<F>(self, which: F) -> Adapted<Self, External<F>>
    where
        Self: Sized,
        F: Fn(&ToolDefinition) -> bool + Send + Sync,
    {
        Adapted::new(self, External(which))
    }

    /// Puts another source behind this one. Where both have a tool of one name, that of the first is offered; where one
    /// fails or keeps one waiting, the other's tools are there.
    fn combined(self, other: impl ToolSource + 'static) -> Combined
    where
        Self: Sized + 'static,
    {
        Combined::new(self, other)
    }
}

impl<S: ToolSource + ?Sized> ToolSourceExt for S {}
