use haft_core::Toolset;
use serde::{Deserialize, Serialize};

use crate::{Calculator, GetCurrentDatetime};

/// Which built-in tools are offered. All of them, unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BuiltinConfig {
    /// Whether `get_current_datetime` is offered.
    pub datetime: bool,
    /// Whether `calculator` is offered.
    pub calculator: bool,
}

impl Default for BuiltinConfig {
    fn default() -> Self {
        Self { datetime: true, calculator: true }
    }
}

/// Gathers the built-in tools that are enabled.
///
/// # Examples
///
/// ```
/// use haft_tools::{BuiltinConfig, builtin};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let tools = builtin(&BuiltinConfig { datetime: false, ..BuiltinConfig::default() });
/// assert_eq!(tools.names().await, ["calculator"]);
/// # }
/// ```
pub fn builtin(config: &BuiltinConfig) -> Toolset {
    let mut tools = Toolset::new();
    if config.datetime {
        tools = tools.with(GetCurrentDatetime);
    }
    if config.calculator {
        tools = tools.with(Calculator);
    }
    tools
}
