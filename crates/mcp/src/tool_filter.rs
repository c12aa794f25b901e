use haft_core::text::matches_wildcard;

/// A selection of tools by their names: the tools of an MCP server by their original names, or the
/// tools of a [gateway](crate::gateway) by their new names.
///
/// A tool is selected if it matches one of [`allowed`](Self::allowed) and none of
/// [`denied`](Self::denied). In a pattern, `*` stands for any number of characters. The comparison
/// is case-sensitive.
///
/// The filter hides tools from models and callers. It is no security boundary against the server,
/// which can rename its tools.
///
/// # Examples
///
/// ```
/// use haft_mcp::ToolFilter;
///
/// let filter = ToolFilter::allow(["read_*", "list_files"]).and_deny(["read_secret"]);
/// assert!(filter.selects("read_text"));
/// assert!(!filter.selects("read_secret"));
/// assert!(!filter.selects("write_file"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolFilter {
    /// The patterns of the selected tools. `None` selects all tools.
    pub allowed: Option<Vec<String>>,
    /// The patterns of the tools that are not selected.
    pub denied: Vec<String>,
}

impl ToolFilter {
    /// Creates a filter that selects the tools that match one of `patterns`.
    pub fn allow<P: Into<String>>(patterns: impl IntoIterator<Item = P>) -> Self {
        Self { allowed: Some(patterns.into_iter().map(Into::into).collect()), denied: Vec::new() }
    }

    /// Creates a filter that selects the tools that match none of `patterns`.
    pub fn deny<P: Into<String>>(patterns: impl IntoIterator<Item = P>) -> Self {
        Self::default().and_deny(patterns)
    }

    /// Removes the tools that match one of `patterns` from the selection.
    #[must_use]
    pub fn and_deny<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.denied.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Returns `true` if the tool with the name `name` is selected.
    pub fn selects(&self, name: &str) -> bool {
        let matches_any =
            |patterns: &[String]| patterns.iter().any(|pattern| matches_wildcard(pattern, name));
        self.allowed.as_deref().is_none_or(matches_any) && !matches_any(&self.denied)
    }
}

#[cfg(test)]
mod tests {
    use super::ToolFilter;

    #[test]
    fn denied_tools_are_never_selected() {
        let filter = ToolFilter::deny(["delete_*"]);
        assert!(filter.selects("read") && !filter.selects("delete_all"));
        assert!(!ToolFilter::allow(["*"]).and_deny(["read"]).selects("read"));
        assert!(!ToolFilter::allow(Vec::<String>::new()).selects("read"));
    }
}
