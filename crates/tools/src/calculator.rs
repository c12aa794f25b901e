//! The calculator.
//!
//! `nanoexpr` evaluates: it computes with fractions as long as they fit, and with 18 decimal digits after that, says
//! where an expression is wrong, and is bounded in time, memory and stack by construction, as an expression that a
//! model wrote asks for. (`fend-core` has any number of digits and overflows the stack on `sqrt(sqrt(…` twenty deep;
//! `exmex` says 0.1 + 0.2 = 0.30000000000000004 and 1/0 = inf; `evalexpr` is AGPL.)

mod error;

use haft_core::{Json, tool};
use nanoexpr::{Evaluator, Fraction, Math};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use error::CalculatorError;

/// The longest expression, in bytes.
const MAX_LENGTH: usize = 10_000;

/// What an expression may name.
const NAMES: [&str; 31] = [
    "pi", "e", "tau", "sqrt", "cbrt", "abs", "sign", "exp", "ln", "log2", "log10", "log", "sin", "cos",
    "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "floor", "ceil", "round", "trunc",
    "hypot", "min", "max", "clamp", "fact",
];

type Number = nanoexpr::Exact<18, 9999>;

/// What an expression comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Calculation {
    /// The number in decimal notation, as text, so that no digit is lost.
    pub result: String,
    /// Whether that is the exact value, or rounded to 18 digits.
    pub exact: bool,
}

/// Works out an arithmetic expression, such as `(17 + 25) * 1.5`, `2^10` or `sqrt(2)`.
///
/// # Errors
///
/// Fails with the [`CalculatorError`] that says what is wrong with the expression, and where.
// An example in numbers would be copied: small models call with it, whatever they are asked.
#[tool(
    description = "Works out an arithmetic expression with + - * / % ^ ! and functions such as sqrt, and tells the result.",
    idempotent
)]
pub fn calculator(
    /// The expression, in numbers. `%` is the remainder of a division, and angles are in radians.
    expression: String,
) -> Result<Json<Calculation>, CalculatorError> {
    if expression.len() > MAX_LENGTH {
        return Err(CalculatorError::TooLong);
    }
    let expression = with_plain_signs(&expression);
    let value = Evaluator::<_>::new(&Math).evaluate::<Number>(&expression);
    value.map(|value| Json(Calculation::of(value))).map_err(|error| CalculatorError::of(&expression, error))
}

/// Models write the signs of print, too.
fn with_plain_signs(expression: &str) -> String {
    let plain = |sign| match sign {
        '×' | '·' => '*',
        '÷' => '/',
        '−' | '–' => '-',
        other => other,
    };
    expression.chars().map(plain).collect()
}

impl Calculation {
    fn of(value: Number) -> Self {
        match value.as_fraction() {
            // A whole number of up to 64 bits has more digits than a decimal.
            Some(whole) if whole.is_integer() => Self { result: whole.to_string(), exact: true },
            fraction => {
                let decimal = value.to_decimal();
                let result = decimal.to_string();
                let exact = fraction.is_some_and(|fraction| result.parse::<Fraction>() == Ok(fraction));
                Self { result, exact }
            }
        }
    }
}

#[cfg(test)]
mod tests;
