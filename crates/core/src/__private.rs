//! Support for code that `#[tool]` and `#[tools]` generate. Not part of the stable API.

#![expect(missing_debug_implementations, reason = "used by generated code only")]

mod blocking;
mod function;
mod narrowed;
mod object;
mod parameter;
mod state;

pub use serde_json::{Value, json};

pub use crate::{
    call::ToolError,
    tool::{
        Access, Annotations, Deprecation, IntoToolOutput, Methods, Policy, StateType, Tool, ToolContext,
        ToolDefinition, Tools,
    },
};
pub use blocking::blocking;
pub use function::{Called, Function, call, definition, definition_by_hand};
pub use object::Object;
pub use parameter::{Argument, Hidden, Parameter, Parameters, Shown, argument, undescribed};
pub use state::{HostState, state};
