//! [`OperationFilter`]: the selection of the operations of a document.

use haft_core::text::matches_wildcard;
use reqwest::Method;

use crate::operation::OperationHead;

/// A selection of the operations of a document.
///
/// An operation is selected if it matches all criteria that are set. The default selects all
/// operations.
///
/// # Examples
///
/// ```
/// use haft_openapi::OperationFilter;
///
/// let filter = OperationFilter::default().read_only().include(["repos/*"]).exclude(["*secret*"]);
/// # let _ = filter;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationFilter {
    /// The patterns of the selected operation ids. `*` stands for any number of characters. An
    /// operation without `operationId` has the id `METHOD PATH`, such as `get /users/{id}`. `None`
    /// selects all ids.
    pub included: Option<Vec<String>>,
    /// The patterns of the operation ids that are not selected. Default: none.
    pub excluded: Vec<String>,
    /// The tags, one of which a selected operation has. Empty selects all tags. Default: empty.
    pub tags: Vec<String>,
    /// The HTTP methods of the selected operations, ignoring case. Empty selects all methods.
    /// Default: empty.
    pub methods: Vec<String>,
    /// The prefixes, one of which the path of a selected operation has. A prefix ends at a segment:
    /// `/pets` selects `/pets/{id}`, but not `/petsitters`. Empty selects all paths. Default:
    /// empty.
    pub path_prefixes: Vec<String>,
    /// `true` if only safe methods are selected: `GET` and `HEAD`. Default: `false`.
    pub is_read_only: bool,
}

impl OperationFilter {
    /// Selects operations with an id that matches one of `patterns`, in addition to those of
    /// earlier calls.
    #[must_use]
    pub fn include<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        let included = self.included.get_or_insert_default();
        included.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Removes operations with an id that matches one of `patterns` from the selection.
    #[must_use]
    pub fn exclude<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.excluded.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Selects operations with one of `tags`.
    #[must_use]
    pub fn with_tags<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
        self.tags.extend(tags.into_iter().map(Into::into));
        self
    }

    /// Selects operations with one of the HTTP `methods`.
    #[must_use]
    pub fn with_methods<M: Into<String>>(mut self, methods: impl IntoIterator<Item = M>) -> Self {
        self.methods.extend(methods.into_iter().map(Into::into));
        self
    }

    /// Selects operations whose path is one of `prefixes` or below it, in addition to those of
    /// earlier calls.
    #[must_use]
    pub fn with_path_prefixes<P: Into<String>>(mut self, prefixes: impl IntoIterator<Item = P>) -> Self {
        self.path_prefixes.extend(prefixes.into_iter().map(Into::into));
        self
    }

    /// Selects safe methods only: `GET` and `HEAD`.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }

    /// Returns `true` if the operation `head` is selected.
    pub(crate) fn selects(&self, head: &OperationHead<'_>) -> bool {
        let matches_any = |patterns: &[String]| patterns.iter().any(|it| matches_wildcard(it, &head.id));
        let method = head.method.as_str();
        self.included.as_deref().is_none_or(matches_any)
            && !matches_any(&self.excluded)
            && (self.tags.is_empty() || head.tags().any(|tag| self.tags.iter().any(|it| it == tag)))
            && (self.methods.is_empty() || self.methods.iter().any(|it| it.eq_ignore_ascii_case(method)))
            && (self.path_prefixes.is_empty()
                || self.path_prefixes.iter().any(|it| is_path_prefix(it, head.path)))
            && (!self.is_read_only || matches!(head.method, Method::GET | Method::HEAD))
    }
}

/// Returns `true` if `path` is `prefix` or below it.
fn is_path_prefix(prefix: &str, path: &str) -> bool {
    let prefix = prefix.trim_end_matches('/');
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests;
