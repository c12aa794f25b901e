use std::sync::Arc;

use super::Tool;

/// A type with tools in an `impl` block. The attribute `#[tools]` implements this trait.
#[doc(hidden)]
pub trait ToolMethods {
    /// Returns the tools of the `impl` block. Each tool holds a clone of `shared`.
    fn tools(shared: Arc<Self>) -> Vec<Arc<dyn Tool>>;
}

/// A conversion to several tools, for [`Toolset::with_tools`](crate::toolset::Toolset::with_tools).
///
/// Implemented for:
///
/// - a type with [`#[tools]`](macro@crate::tools) on its `impl` block, and an `Arc` of this type
/// - arrays and vectors of a tool type
/// - tuples of up to eight tools
///
/// # Examples
///
/// A type whose tools depend on its value:
///
/// ```
/// use std::sync::Arc;
///
/// use haft_core::{Tool, Toolset, tool, tool::IntoTools};
///
/// #[tool]
/// fn read_notes() -> &'static str {
///     "buy milk"
/// }
///
/// #[tool(destructive)]
/// fn delete_notes() {}
///
/// struct Notes {
///     is_read_only: bool,
/// }
///
/// impl IntoTools for Notes {
///     fn into_tools(self) -> Vec<Arc<dyn Tool>> {
///         if self.is_read_only { [ReadNotes].into_tools() } else { (ReadNotes, DeleteNotes).into_tools() }
///     }
/// }
///
/// # fn main() {
/// let tools = Toolset::new().with_tools(Notes { is_read_only: true });
/// assert_eq!(tools.static_tools().count(), 1);
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no tools",
    label = "not a value with tools",
    note = "put `#[haft_core::tools]` on an `impl` block, and `#[tool]` on its tool functions",
    note = "add a single tool by `with_tool`, a source by `with_source`"
)]
pub trait IntoTools {
    /// Converts the value to tools, in order. All tools of an `impl` block hold the same `Arc` of
    /// the value.
    fn into_tools(self) -> Vec<Arc<dyn Tool>>;
}

#[diagnostic::do_not_recommend]
impl<T: ToolMethods> IntoTools for Arc<T> {
    fn into_tools(self) -> Vec<Arc<dyn Tool>> {
        T::tools(self)
    }
}

impl<T: Tool + 'static, const N: usize> IntoTools for [T; N] {
    fn into_tools(self) -> Vec<Arc<dyn Tool>> {
        self.map(|tool| Arc::new(tool) as Arc<dyn Tool>).into()
    }
}

impl<T: Tool + 'static> IntoTools for Vec<T> {
    fn into_tools(self) -> Vec<Arc<dyn Tool>> {
        self.into_iter().map(|tool| Arc::new(tool) as Arc<dyn Tool>).collect()
    }
}

macro_rules! tools_of {
    ($($($tool:ident)+;)+) => {$(
        #[diagnostic::do_not_recommend]
        impl<$($tool: Tool + 'static),+> IntoTools for ($($tool,)+) {
            #[allow(non_snake_case, reason = "each value is named after its type parameter")]
            fn into_tools(self) -> Vec<Arc<dyn Tool>> {
                let ($($tool,)+) = self;
                vec![$(Arc::new($tool)),+]
            }
        }
    )+};
}
tools_of! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
}
