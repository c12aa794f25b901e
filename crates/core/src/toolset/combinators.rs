//! Methods of [`Toolset`] that adapt or combine toolsets.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    Adaptor, ListContext, ToolSource, Toolset, adaptor::Adaptation, mapped::Mapped, merge::with_prefix,
    part::Part, renamed::Renamed,
};
use crate::{
    call::{Pending, PendingKind, ToolError, ToolOutput, ToolResponse},
    pipeline::ToolExt as _,
    tool::{DynamicTool, InvalidToolName, Tool, ToolDefinition, ToolName},
};

impl Toolset {
    /// Applies `adaptor` to all tools added so far. The returned toolset has the same pipeline and
    /// label as this toolset.
    #[must_use]
    pub fn adapted(self, adaptor: impl Adaptor + 'static) -> Self {
        self.with_adaptation(Adaptation::each(adaptor))
    }

    /// Changes the definitions of tools, or hides tools, at each listing.
    ///
    /// `prepare` receives each definition and the context of the listing. It returns the definition
    /// for the snapshot, or `None` to hide the tool. A call to a hidden tool fails like a call to
    /// an unknown tool. If neither the toolset nor the definitions returned by `prepare` have
    /// changed, the snapshot is the same as in the previous listing.
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
        self.with_adaptation(Adaptation::Prepared(Box::new(prepare)))
    }

    /// Puts `prefix` in front of the name of each tool. Models and callers use the new name, while
    /// the definition of the wrapped tool is unchanged.
    ///
    /// [`ToolName::sanitize`] converts an invalid new name to a valid name. Distinct names stay
    /// distinct, unless the hashes in two converted names collide.
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
        let prefix = prefix.into();
        self.adapted(move |tool: &Arc<dyn Tool>| Some(with_prefix(tool, &prefix)))
    }

    /// Renames tools. `names` contains pairs of the old and the new name of a tool.
    ///
    /// If `names` contains several pairs for a tool, the last pair applies. The pairs also apply to
    /// tools that a source adds later.
    ///
    /// # Errors
    ///
    /// Fails if a new name is not a valid [`ToolName`]. A conflict is detected only when the tools
    /// are listed: if two tools would have the same name, the toolset lists no tools, and a
    /// diagnostic reports the conflict.
    pub fn renamed<O: Into<String>, N: AsRef<str>>(
        self,
        names: impl IntoIterator<Item = (O, N)>,
    ) -> Result<Self, InvalidToolName> {
        let names = names.into_iter().map(|(old, new)| Ok((old.into(), ToolName::new(new)?)));
        Ok(self.adapted(Renamed(names.collect::<Result<BTreeMap<_, _>, _>>()?)))
    }

    /// Hides the tools for which `keep` returns `false`.
    ///
    /// The decisions of `keep` are cached until the tools change. For a filter that changes between
    /// the steps of a run, use [`prepared`](Self::prepared).
    #[must_use]
    pub fn filtered<F>(self, keep: F) -> Self
    where
        F: Fn(&ToolDefinition) -> bool + Send + Sync + 'static,
    {
        self.adapted(move |tool: &Arc<dyn Tool>| keep(tool.definition()).then(|| Arc::clone(tool)))
    }

    /// Transforms the outputs of all tools, for example to redact or to shorten them.
    ///
    /// `map` receives the definition of the tool and its output. The returned output must match the
    /// output schema of the tool. If `map` returns an error, the call fails with this error. `map`
    /// is not called for pending and failed calls.
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
    /// cache, as in `tools.cached(…).prepared(…)`.
    #[must_use]
    pub fn cached(self, time_to_live: Duration) -> Self {
        self.with_adaptation(Adaptation::cached(time_to_live))
    }

    /// Requires an approval for each call to the tools for which `select` returns `true`. Sets
    /// [`requires_approval`](crate::tool::ToolPolicy::requires_approval) in their policies.
    #[must_use]
    pub fn approval_required<F>(self, select: F) -> Self
    where
        F: Fn(&ToolDefinition) -> bool + Send + Sync + 'static,
    {
        self.adapted_if(select, |tool| Arc::new(Arc::clone(tool).with_approval()))
    }

    /// Turns the tools for which `select` returns `true` into external tools. The host program
    /// executes an external tool: each call is suspended until the host program provides its
    /// output.
    #[must_use]
    pub fn external<F>(self, select: F) -> Self
    where
        F: Fn(&ToolDefinition) -> bool + Send + Sync + 'static,
    {
        self.adapted_if(select, |tool| {
            Arc::new(DynamicTool::new(tool.definition().clone(), |_arguments, _cx| async {
                ToolResponse::Pending(Pending::new(PendingKind::External))
            }))
        })
    }

    /// Returns a toolset with the tools of this toolset and the tools of `other`.
    ///
    /// If both have a tool with the same name, the tool of this toolset is used. If this toolset or
    /// `other` fails or is slow, the remaining tools are still listed.
    #[must_use]
    pub fn combined(self, other: impl ToolSource + 'static) -> Self {
        let label = self.label.as_ref().map(|label| format!("{label}+{}", other.label()).into());
        Self { label, ..Self::default() }.with_source(self).with_source(other)
    }

    /// Replaces the tools for which `select` returns `true` with the return values of `adapt`.
    fn adapted_if(
        self,
        select: impl Fn(&ToolDefinition) -> bool + Send + Sync + 'static,
        adapt: impl Fn(&Arc<dyn Tool>) -> Arc<dyn Tool> + Send + Sync + 'static,
    ) -> Self {
        self.adapted(move |tool: &Arc<dyn Tool>| {
            Some(if select(tool.definition()) { adapt(tool) } else { Arc::clone(tool) })
        })
    }

    /// Wraps this toolset in an outer toolset that applies `adaptation`. The outer toolset has the
    /// pipeline and the label of this toolset. The inner toolset does not apply its pipeline, so
    /// the caller can still replace the pipeline of the outer toolset.
    fn with_adaptation(self, adaptation: Adaptation) -> Self {
        let outer = Self { parts: Arc::default(), ..self.clone() };
        let inner = Self { has_own_pipeline: false, ..self.without_caches() };
        outer.with_part(Part::Adapted(inner, Arc::new(adaptation)))
    }
}
