use haft_core::Toolset;
use serde::{Deserialize, Serialize};

use crate::{Calculator, GetCurrentDatetime};

/// The selection of built-in tools for [`builtin`](builtin()). By default, all tools are included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BuiltinConfig {
    /// `true` if `get_current_datetime` is included. Default: `true`.
    pub datetime: bool,
    /// `true` if `calculator` is included. Default: `true`.
    pub calculator: bool,
}

impl Default for BuiltinConfig {
    fn default() -> Self {
        Self { datetime: true, calculator: true }
    }
}

/// Returns a toolset with the enabled built-in tools.
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
        tools = tools.with_tool(GetCurrentDatetime);
    }
    if config.calculator {
        tools = tools.with_tool(Calculator);
    }
    tools
}
