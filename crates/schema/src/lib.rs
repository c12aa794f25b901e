#![doc = include_str!("../README.md")]

mod arguments;
mod canonical;
mod check;
mod derive;
mod describe;
mod described;
mod effort;
mod error;
mod explain;
mod fit;
mod foreign;
mod guarded;
mod json_text;
mod listing;
pub mod memo;
mod metered;
mod moved;
mod preflight;
pub mod reference;
mod repair;
mod schema;
mod secret;
#[cfg(test)]
mod tests;
#[doc = include_str!("../docs/threat-model.md")]
pub mod threat_model {}
mod violation;
mod wire;

pub use self::canonical::canonical;
pub use self::error::{SchemaError, SchemaFault};
pub use self::fit::Misfit;
pub use self::json_text::{JsonText, NotJson};
pub use self::moved::Moved;
pub use self::preflight::{SchemaLimits, VALUE_DEPTH, is_deeper};
pub use self::repair::{Repair, RepairKind, RepairPolicy, repair};
pub use self::schema::{Property, Schema};
pub use self::secret::Secrets;
pub use self::violation::{Violation, Violations};
pub use self::wire::{Loss, LossKind, Wire, WireProfile};

#[doc(no_inline)]
pub use schemars;
