//! The `calculator` tool.
//!
//! Expressions are evaluated by `nanoexpr`, because it is safe for input from a model:
//!
//! - Its time, memory and stack are bounded.
//! - It computes with exact fractions, and with 18 decimal digits if a result is irrational or its
//!   fraction overflows.
//! - Its errors contain the position of the problem.
//!
//! Alternatives that were rejected: `fend-core` overflows the stack on 20 nested `sqrt`, `exmex`
//! computes 0.1 + 0.2 = 0.30000000000000004 and 1/0 = inf, and `evalexpr` is AGPL.

mod error;
mod integer;
mod names;
mod notation;

use haft_core::{Json, tool};
use nanoexpr::{Evaluator, Fraction};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use error::CalculatorError;
use integer::Integer;
use names::CalculatorContext;

/// The maximum length of an expression, in characters. The limit bounds the time to evaluate
/// expressions such as a sum of many large factorials.
const MAX_EXPRESSION_CHARS: usize = 1_000;
/// The maximum number of arguments of a function.
const MAX_ARGUMENTS: usize = 64;

type Number = nanoexpr::Exact<18, 9999>;

/// The result of an expression.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Calculation {
    /// The number as text, so that no digit is lost. Rounded numbers may have an exponent.
    pub result: String,
    /// `true` if the value is exact, `false` if it is rounded to 18 digits.
    pub exact: bool,
}

/// Evaluates an arithmetic expression, such as `(17 + 25) * 1.5`, `2^10` or `sqrt(2)`.
///
/// # Errors
///
/// Returns a [`CalculatorError`] if the expression is invalid or too long, or if a value in it is
/// not a real number or is too large.
// The description contains no example with numbers, because small models copy the example instead
// of the expression in the question.
#[tool(
    description = "Works out an arithmetic expression with + - * / % ^ ! and functions such as sqrt, and tells the result.",
    idempotent
)]
pub fn calculator(
    /// The expression, in numbers. `%` is the remainder of a division, and angles are in radians.
    expression: String,
) -> Result<Json<Calculation>, CalculatorError> {
    if expression.chars().nth(MAX_EXPRESSION_CHARS).is_some() {
        return Err(CalculatorError::TooLong);
    }
    let plain = notation::to_ascii(&expression);
    if notation::has_percentage(&plain) {
        return Err(CalculatorError::Percentage);
    }
    if let Ok(Integer(integer)) = Evaluator::<_>::new(&()).evaluate(&plain) {
        return Ok(Json(Calculation { result: integer.to_string(), exact: true }));
    }
    let value = Evaluator::<_, MAX_ARGUMENTS>::new(&CalculatorContext).evaluate::<Number>(&plain);
    value.map(|value| Json(Calculation::from_number(value))).map_err(|error| {
        let start = notation::char_position(&expression, error.span.start);
        CalculatorError::from_evaluator(&plain, error, start)
    })
}

impl Calculation {
    fn from_number(value: Number) -> Self {
        match value.as_fraction() {
            // An integer is printed from its fraction. It can have 19 digits, but the decimal has
            // only 18.
            Some(fraction) if fraction.is_integer() => Self { result: fraction.to_string(), exact: true },
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
