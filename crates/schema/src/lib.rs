#![doc = include_str!("../README.md")]

mod arguments;
mod canonical;
mod cost;
mod derive;
mod deserialize;
mod embed;
mod error;
mod error_plan;
mod exact_json;
mod explain;
mod json_text;
mod json_type;
pub mod memo;
mod metered_validator;
pub mod object;
mod preflight;
mod property_description;
pub mod reference;
mod repair;
mod schema;
mod secret_members;
#[cfg(test)]
mod tests;
mod type_aliases;
mod union_guards;
mod validator;
mod wording;
#[doc = include_str!("../docs/threat-model.md")]
pub mod threat_model {}
mod provider;
mod violation;

pub use self::canonical::canonical_json;
pub use self::deserialize::{TypeMismatch, deserialize, exact_integer};
pub use self::embed::EmbeddedSchema;
pub use self::error::{SchemaError, SchemaFault};
pub use self::exact_json::{
    first_rounded_number, json_text, parse_json, parse_json_object, parse_leading_json, parse_number,
};
pub use self::json_text::{JsonText, JsonTextError};
pub use self::json_type::json_type;
pub use self::preflight::{MAX_VALUE_DEPTH, SchemaLimits, exceeds_depth};
pub use self::provider::{ProviderSchema, SchemaChange, SchemaChangeKind, SchemaTarget};
pub use self::repair::{Repair, RepairKind, RepairPolicy, repair};
pub use self::schema::{Property, Schema};
pub use self::secret_members::SecretMembers;
pub use self::violation::{Violation, Violations};

#[doc(no_inline)]
pub use schemars;
