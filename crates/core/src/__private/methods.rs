use std::sync::Arc;

use crate::Tool;

/// A type with a block of tools.
pub trait Methods {
    /// The tools of a value.
    fn tools(shared: Arc<Self>) -> Vec<Arc<dyn Tool>>;
}
