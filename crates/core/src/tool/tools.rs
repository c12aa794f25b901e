use std::sync::Arc;

use super::Tool;
use crate::__private::Methods;

/// A value whose methods are tools, by [`#[tools]`](macro@crate::tools) on its `impl` block; or an `Arc` of one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no tools",
    label = "not a value with tools",
    note = "put `#[haft_core::tools]` on an `impl` block, and `#[tool]` on those of its functions that are tools",
    note = "one tool is added by `with`, a source by `with_source`"
)]
pub trait Tools {
    /// The tools of the block, in order. All of them share the value.
    fn into_tools(self) -> Vec<Arc<dyn Tool>>;
}

#[diagnostic::do_not_recommend]
impl<T: Methods> Tools for Arc<T> {
    fn into_tools(self) -> Vec<Arc<dyn Tool>> {
        T::tools(self)
    }
}
