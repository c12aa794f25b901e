//! The variables and functions that expressions can use.

use nanoexpr::{Context, ErrorKind, Math};

use super::Number;

/// The names of all variables and functions, as listed in error messages.
pub(super) const KNOWN_NAMES: [&str; 35] = [
    "pi", "e", "tau", "sqrt", "cbrt", "abs", "sign", "exp", "ln", "log2", "log10", "log", "sin", "cos",
    "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "floor",
    "ceil", "round", "trunc", "pow", "hypot", "min", "max", "clamp", "fact",
];

/// The evaluation context of an expression. Besides the [`KNOWN_NAMES`], it supports `factorial`
/// and `power`, because models often use these names.
pub(super) struct CalculatorContext;

impl Context<Number> for CalculatorContext {
    fn variable(&self, name: &str) -> Option<Number> {
        Math.variable(name)
    }

    fn call(&self, name: &str, arguments: &[Number]) -> Option<Result<Number, ErrorKind>> {
        let name = match name {
            "factorial" => "fact",
            "power" => "pow",
            other => other,
        };
        match (name, Math.call(name, arguments)) {
            // These functions are defined for all numbers, but `nanoexpr` rejects arguments of
            // 10^343 and beyond.
            ("sin" | "cos" | "tan", Some(Err(ErrorKind::Domain))) => Some(Err(ErrorKind::Overflow)),
            (_, result) => result,
        }
    }
}
