//! Methods of [`Toolset`] that adapt or combine toolsets.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    Adaptor, ListContext, Part, ToolSource, Toolset, adaptor::Adaptation,
    approval_required::ApprovalRequired, external::External, filtered::Filtered, mapped::Mapped,
    prefixed::Prefixed, renamed::Renamed,
};
use crate::{
    call::{ToolError, ToolOutput},
    tool::{InvalidToolName, ToolDefinition, ToolName},
};

impl Toolset {
    /// Applies `adaptor` to all tools added so far. The resulting toolset keeps the pipeline, the
    /// label and the checks of this toolset.
    #[must_use]
    pub fn adapted(self, adaptor: impl Adaptor + 'static) -> Self {
        self.with_adaptation(Adaptation::each(adaptor))
    }

    /// Changes the definitions of tools, or hides tools, at each listing.
    ///
    /// `prepare` receives each definition and the context of the listing. It returns the definition
    /// for the snapshot, or `None` to hide the tool. A call of a hidden tool fails like a call of
    /// an unknown tool. If neither the toolset nor the results of `prepare` change, the snapshot
    /// stays the same.
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
    /// let all = Toolset::new().with_tool(Time).with_tool(Now);
    /// let tools = all.prepared(|it, _cx| it.deprecation().is_none().then_some(it));
    /// assert_eq!(tools.names().await, ["now"]);
    /// # });
    /// ```
    #[must_use]
    pub fn prepared<F>(self, prepare: F) -> Self
    where
        F: Fn(ToolDefinition, &ListContext) -> Option<ToolDefinition> + Send + Sync + 'static,
    {
        self.with_adaptation(Adaptation::prepared(Box::new(prepare)))
    }

    /// Puts `prefix` in front of each tool name. Only the listed name changes: the implementation
    /// of the tool still sees its original definition.
    ///
    /// [`ToolName::sanitize`] converts an invalid new name to a valid name. Different names stay
    /// different, unless the hashes in two converted names collide.
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
    /// let (wiki, mail) = (Toolset::new().with_tool(Search), Toolset::new().with_tool(Search));
    /// let both = wiki.prefixed("wiki_").combined(mail.prefixed("mail_"));
    /// assert_eq!(both.names().await, ["wiki_search", "mail_search"]);
    /// # });
    /// ```
    #[must_use]
    pub fn prefixed(self, prefix: impl Into<String>) -> Self {
        self.adapted(Prefixed(prefix.into()))
    }

    /// Renames tools. `names` contains pairs of an old and a new name.
    ///
    /// If a tool has several pairs, the last pair applies. Pairs also apply to tools that a source
    /// adds later.
    ///
    /// # Errors
    ///
    /// Fails if a new name is not a valid [`ToolName`]. If a new name is already the name of
    /// another tool, each listing of the toolset fails.
    pub fn renamed<O: Into<String>, N: AsRef<str>>(
        self,
        names: impl IntoIterator<Item = (O, N)>,
    ) -> Result<Self, InvalidToolName> {
        let names = names.into_iter().map(|(old, new)| Ok((old.into(), ToolName::new(new)?)));
        Ok(self.adapted(Renamed(names.collect::<Result<BTreeMap<_, _>, _>>()?)))
    }

    /// Hides the tools for which `keep` returns `false`.
    ///
    /// `keep` is called once for each tool of a snapshot. For a filter that changes between the
    /// steps of a run, use [`prepared`](Self::prepared).
    #[must_use]
    pub fn filtered<F>(self, keep: F) -> Self
    where
        F: Fn(&ToolDefinition) -> bool + Send + Sync + 'static,
    {
        self.adapted(Filtered(keep))
    }

    /// Maps the outputs of all tools, for example to redact or to shorten them.
    ///
    /// `map` receives the definition of the tool and its output. The mapped output is checked
    /// against the output schema. Pending and failed calls are left unchanged.
    #[must_use]
    pub fn mapped<F>(self, map: F) -> Self
    where
        F: Fn(&ToolDefinition, ToolOutput) -> Result<ToolOutput, ToolError> + Send + Sync + 'static,
    {
        self.adapted(Mapped(Arc::new(map)))
    }

    /// Caches the snapshot of the tools for `time_to_live`. A snapshot with a failed source is not
    /// cached.
    ///
    /// All callers share the cached snapshot. Apply adaptors that depend on the caller after the
    /// cache: `tools.cached(…).prepared(…)`.
    #[must_use]
    pub fn cached(self, time_to_live: Duration) -> Self {
        self.with_adaptation(Adaptation::cached(time_to_live))
    }

    /// Requires an approval for each call of the tools for which `select` returns `true`. This sets
    /// [`requires_approval`](crate::tool::ToolPolicy::requires_approval) in their policy.
    #[must_use]
    pub fn approval_required<F>(self, select: F) -> Self
    where
        F: Fn(&ToolDefinition) -> bool + Send + Sync + 'static,
    {
        self.adapted(ApprovalRequired(select))
    }

    /// Makes the tools for which `select` returns `true` external: the host program executes them.
    /// Their calls are pending until the host program provides the output.
    #[must_use]
    pub fn external<F>(self, select: F) -> Self
    where
        F: Fn(&ToolDefinition) -> bool + Send + Sync + 'static,
    {
        self.adapted(External(select))
    }

    /// Combines the tools of this toolset with the tools of `other`.
    ///
    /// If both sources have a tool with the same name, the tool of this toolset is used. If one
    /// source fails or is slow, the tools of the other source are still listed.
    #[must_use]
    pub fn combined(self, other: impl ToolSource + 'static) -> Self {
        let label = self.label.as_ref().map(|label| format!("{label}+{}", other.label()).into());
        Self { label, ..Self::default() }.with_source(self).with_source(other)
    }

    /// Wraps this toolset in an outer toolset that applies `adaptation`. The pipeline and the label
    /// move to the outer toolset, where the caller can replace them.
    fn with_adaptation(self, adaptation: Adaptation) -> Self {
        let (label, pipeline, has_own_pipeline) =
            (self.label.clone(), self.pipeline.clone(), self.has_own_pipeline);
        let inner = Self { has_own_pipeline: false, ..self.without_caches() };
        let outer = Self { label, pipeline, has_own_pipeline, ..Self::default() };
        outer.with_part(Part::Adapted(inner, Arc::new(adaptation)))
    }
}
