//! Adaptors: methods that turn a toolset into another one.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    Adaptor, ListContext, Part, ToolSource, Toolset, adaptor::Step, approval_required::ApprovalRequired,
    external::External, filtered::Filtered, mapped::Mapped, prefixed::Prefixed, renamed::Renamed,
};
use crate::{
    call::{ToolError, ToolOutput},
    tool::{InvalidToolName, ToolDefinition, ToolName},
};

impl Toolset {
    /// Applies an adaptor to the tools added so far. Pipeline, label and checks of the toolset are kept.
    #[must_use]
    pub fn adapted(self, adaptor: impl Adaptor + 'static) -> Self {
        self.with_step(Step::each(adaptor))
    }

    /// Changes or hides tools at each listing: `prepare` receives each definition and the listing's context, and
    /// returns the definition to show, or `None` to hide the tool.
    ///
    /// A hidden tool is unknown to its callers. A renamed tool is called by its new name and sees its own. While the
    /// toolset and the results of `prepare` stay the same, so does the snapshot.
    ///
    /// # Examples
    ///
    /// Hides deprecated tools:
    ///
    /// ```
    /// use haft_core::{Toolset, tool};
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
    /// let tools = all.prepared(|it, _cx| it.deprecated().is_none().then_some(it));
    /// assert_eq!(tools.names().await, ["now"]);
    /// # });
    /// ```
    #[must_use]
    pub fn prepared<F>(self, prepare: F) -> Self
    where
        F: Fn(ToolDefinition, &ListContext) -> Option<ToolDefinition> + Send + Sync + 'static,
    {
        self.with_step(Step::prepared(Box::new(prepare)))
    }

    /// Prepends a prefix to the name of each tool. A tool sees its own name when it is called.
    ///
    /// The new name is mapped by [`ToolName::from_foreign`], so it is valid and practically unique.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{Toolset, tool};
    ///
    /// #[tool]
    /// fn search(words: String) -> String {
    ///     words
    /// }
    ///
    /// # futures::executor::block_on(async {
    /// let (wiki, mail) = (Toolset::new().with(Search), Toolset::new().with(Search));
    /// let both = wiki.prefixed("wiki_").combined(mail.prefixed("mail_"));
    /// assert_eq!(both.names().await, ["wiki_search", "mail_search"]);
    /// # });
    /// ```
    #[must_use]
    pub fn prefixed(self, prefix: impl Into<String>) -> Self {
        self.adapted(Prefixed(prefix.into()))
    }

    /// Renames tools by pairs of the old and the new name. The last pair for a tool wins. A tool that is not listed
    /// yet is renamed as soon as it is.
    ///
    /// # Errors
    ///
    /// Fails if a new name is not a valid [`ToolName`]. Listing fails while another tool has a new name.
    pub fn renamed<O: Into<String>, N: AsRef<str>>(
        self,
        names: impl IntoIterator<Item = (O, N)>,
    ) -> Result<Self, InvalidToolName> {
        let names = names.into_iter().map(|(old, new)| Ok((old.into(), ToolName::new(new)?)));
        Ok(self.adapted(Renamed(names.collect::<Result<BTreeMap<_, _>, _>>()?)))
    }

    /// Keeps the tools for which `keep` returns `true`. Other tools are unknown to callers.
    ///
    /// `keep` is called once per snapshot; use [`prepared`](Self::prepared) for a choice that changes between steps.
    #[must_use]
    pub fn filtered<F>(self, keep: F) -> Self
    where
        F: Fn(&ToolDefinition) -> bool + Send + Sync + 'static,
    {
        self.adapted(Filtered(keep))
    }

    /// Changes the results of tools before they are checked against their output schema: to redact, to shorten, to
    /// fail. `map` receives the tool's definition. Pending and failed calls are left unchanged.
    #[must_use]
    pub fn mapped<F>(self, map: F) -> Self
    where
        F: Fn(&ToolDefinition, ToolOutput) -> Result<ToolOutput, ToolError> + Send + Sync + 'static,
    {
        self.adapted(Mapped(Arc::new(map)))
    }

    /// Keeps a snapshot for `time_to_live`. A snapshot with a failed source is not kept.
    ///
    /// The snapshot is shared by all callers: apply steps that depend on the caller after it, as in
    /// `tools.cached(…).prepared(…)`.
    #[must_use]
    pub fn cached(self, time_to_live: Duration) -> Self {
        self.with_step(Step::cached(time_to_live))
    }

    /// Requires an approval for calls of the tools for which `select` returns `true`, by setting their
    /// [policy](crate::tool::Policy).
    #[must_use]
    pub fn approval_required<F>(self, select: F) -> Self
    where
        F: Fn(&ToolDefinition) -> bool + Send + Sync + 'static,
    {
        self.adapted(ApprovalRequired(select))
    }

    /// Leaves the tools for which `select` returns `true` to the host program: their calls wait for a result from
    /// outside.
    #[must_use]
    pub fn external<F>(self, select: F) -> Self
    where
        F: Fn(&ToolDefinition) -> bool + Send + Sync + 'static,
    {
        self.adapted(External(select))
    }

    /// Adds another source behind this toolset. For a name in both, the tool of this toolset is offered. If one of
    /// the two fails or is slow, the tools of the other are still listed.
    #[must_use]
    pub fn combined(self, other: impl ToolSource + 'static) -> Self {
        let label = self.label.as_ref().map(|label| format!("{label}+{}", other.label()).into());
        Self { label, ..Self::default() }.with_source(self).with_source(other)
    }

    /// Wraps the toolset in a step. Pipeline and label move to the outside, so that they can be replaced there.
    fn with_step(self, step: Step) -> Self {
        let (label, pipeline, has_own_pipeline) =
            (self.label.clone(), self.pipeline.clone(), self.has_own_pipeline);
        let inner = Self { has_own_pipeline: false, ..self.without_memory() };
        let outer = Self { label, pipeline, has_own_pipeline, ..Self::default() };
        outer.with_part(Part::Adapted(inner, Arc::new(step)))
    }
}
