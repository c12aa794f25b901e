#![doc = include_str!("../README.md")]

mod arguments;
mod canonical;
mod check;
mod compatibility;
mod derive;
mod describe;
mod described;
mod effort;
mod embed;
mod error;
mod explain;
mod foreign;
mod guarded;
mod listing;
pub mod memo;
mod metered;
mod preflight;
pub mod reference;
mod repair;
mod schema;
mod secret_members;
#[cfg(test)]
mod tests;
#[doc = include_str!("../docs/threat-model.md")]
pub mod threat_model {}
mod provider;
mod violation;

pub use self::canonical::canonical;
pub use self::compatibility::Incompatibility;
pub use self::embed::EmbeddedSchema;
pub use self::error::{SchemaError, SchemaFault};
pub use self::preflight::{SchemaLimits, VALUE_DEPTH, exceeds_depth};
pub use self::provider::{ProviderSchema, SchemaChange, SchemaChangeKind, SchemaTarget};
pub use self::repair::{Repair, RepairKind, RepairPolicy, repair};
pub use self::schema::{Property, Schema};
pub use self::secret_members::SecretMembers;
pub use self::violation::{Violation, Violations};

#[doc(no_inline)]
pub use schemars;
