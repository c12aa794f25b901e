//! The calculator.
//!
//! `nanoexpr` evaluates: it computes with fractions as long as they fit, and with 18 decimal digits after that, says
//! where an expression is wrong, and is bounded in time, memory and stack by construction, as an expression that a
//! model wrote asks for. (`fend-core` has any number of digits and overflows the stack on `sqrt(sqrt(…` twenty deep;
//! `exmex` says 0.1 + 0.2 = 0.30000000000000004 and 1/0 = inf; `evalexpr` is AGPL.)

mod error;
mod names;
mod notation;
mod whole;

use haft_core::{Json, tool};
use nanoexpr::{Evaluator, Fraction};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use error::CalculatorError;
use names::Names;
use whole::Whole;

/// The longest expression, in characters. Large factorials one after another take the longest, and end in time.
const MAX_LENGTH: usize = 1_000;
/// The most arguments that a function takes.
const MAX_ARGUMENTS: usize = 64;

type Number = nanoexpr::Exact<18, 9999>;

/// What an expression comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Calculation {
    /// The number as text, so that no digit is lost. One that is rounded and very large or small has an exponent.
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
    if expression.chars().nth(MAX_LENGTH).is_some() {
        return Err(CalculatorError::TooLong);
    }
    let plain = notation::plain(&expression);
    if notation::has_percentage(&plain) {
        return Err(CalculatorError::Percentage);
    }
    if let Ok(Whole(whole)) = Evaluator::<_>::new(&()).evaluate(&plain) {
        return Ok(Json(Calculation { result: whole.to_string(), exact: true }));
    }
    let value = Evaluator::<_, MAX_ARGUMENTS>::new(&Names).evaluate::<Number>(&plain);
    value.map(|value| Json(Calculation::of(value))).map_err(|error| {
        let start = notation::position(&expression, error.span.start);
        CalculatorError::of(&plain, error, start)
    })
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
