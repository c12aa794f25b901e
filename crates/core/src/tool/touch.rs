use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use serde_json::Value;

/// A function that maps the arguments of a call to the resources that the call uses.
///
/// Two calls in the same reply conflict if they touch the same resource and at least one of them
/// writes it. Conflicting calls run one after the other, in the order of the reply. All other calls
/// run in parallel. While a call is suspended, for example until its approval, later calls that
/// conflict with it are [postponed](crate::call::PendingKind::Postponed).
///
/// The function receives the same arguments as the tool: repaired, and possibly changed by the
/// person who approved the call. It is called only for replies with more than one call, on the task
/// that starts the calls. It must be fast and must not block.
///
/// If the function panics, or if the arguments do not match the schema, the call runs alone, as
/// with [`ToolPolicy::sequential`](super::ToolPolicy::sequential).
///
/// Two `TouchFn` values are equal if they are clones of each other.
///
/// # Examples
///
/// Two edits of one file run in order. Edits of different files run in parallel:
///
/// ```
/// use haft_core::{Tool, export::serde_json::Value, tool, tool::{ToolPolicy, Touch, TouchFn}};
///
/// let touches = TouchFn::new(|arguments: &Value| {
///     let path = arguments["path"].as_str().unwrap_or_default();
///     // `./notes.md` and `notes.md` are the same file.
///     vec![Touch::write(format!("file:{}", path.trim_start_matches("./")))]
/// });
/// let policy = ToolPolicy { touches: Some(touches), ..ToolPolicy::default() };
///
/// // The same with the attribute:
/// fn edited_file(arguments: &Value) -> Vec<Touch> {
///     let path = arguments["path"].as_str().unwrap_or_default();
///     vec![Touch::write(format!("file:{}", path.trim_start_matches("./")))]
/// }
///
/// /// Replaces the text of a file.
/// #[tool(touches = edited_file)]
/// async fn edit(path: String, text: String) { /* … */ }
///
/// assert!(Edit.definition().policy().touches.is_some());
/// ```
#[derive(Clone)]
pub struct TouchFn(Arc<Touches>);

type Touches = dyn Fn(&Value) -> Vec<Touch> + Send + Sync;

impl TouchFn {
    /// Creates a `TouchFn` from `touches`. The function receives the arguments of a call and
    /// returns the resources that the call uses.
    pub fn new(touches: impl Fn(&Value) -> Vec<Touch> + Send + Sync + 'static) -> Self {
        Self(Arc::new(touches))
    }

    /// Returns the resources that a call with `arguments` uses, or `None` if the function
    /// passed to [`new`](Self::new) panics.
    pub fn touches(&self, arguments: &Value) -> Option<Vec<Touch>> {
        catch_unwind(AssertUnwindSafe(|| self.0(arguments))).ok()
    }
}

impl fmt::Debug for TouchFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TouchFn").finish_non_exhaustive()
    }
}

impl PartialEq for TouchFn {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for TouchFn {}

/// A resource that a call reads or writes.
///
/// Resource names are compared byte by byte, across all tools. `./a` and `a` are different
/// resources, even if they name the same file, so use canonical names. A prefix such as `file:`
/// distinguishes kinds of resources.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Touch {
    /// The canonical name of the resource, for example `file:notes.md`.
    pub resource: String,
    /// `true` if the call may change the resource.
    pub is_write: bool,
}

impl Touch {
    /// Creates a read access to `resource`. It conflicts with writes to the same resource.
    pub fn read(resource: impl Into<String>) -> Self {
        Self { resource: resource.into(), is_write: false }
    }

    /// Creates a write access to `resource`. It conflicts with reads of and writes to the same
    /// resource.
    pub fn write(resource: impl Into<String>) -> Self {
        Self { resource: resource.into(), is_write: true }
    }
}
