//! What the code that `#[tool]` writes needs. Not for anybody else, and not stable.

mod blocking;
mod function;
mod methods;
mod narrowed;
mod object;
mod parameter;
mod state;

pub use blocking::blocking;
pub use function::{Called, Function, call, definition, definition_by_hand};
pub use methods::Methods;
pub use object::Object;
pub use parameter::{Argument, Hidden, Parameter, Parameters, Shown, argument, undescribed};
pub use state::{HostState, state};
