use nanoexpr::ErrorKind;

use super::{MAX_ARGUMENTS, MAX_LENGTH, names::NAMES};

/// Why an expression has no result. The text tells a model what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CalculatorError {
    /// It is not an expression.
    #[error(
        "{problem} at character {position}: write numbers, + - * / % ^ !, parentheses and functions such as sqrt(2)"
    )]
    Syntax {
        /// What is wrong.
        problem: &'static str,
        /// Where, in characters from 1.
        position: usize,
    },
    /// It has a name that means nothing here.
    #[error("unknown name `{name}`: known are {}", NAMES.join(", "))]
    UnknownName {
        /// The name.
        name: String,
    },
    /// A `%` stands where it would have to mean a hundredth.
    #[error("`%` is the remainder of a division: write 15/100 for 15 percent")]
    Percentage,
    /// A function has too many arguments, or too few.
    #[error("wrong number of arguments in `{part}`")]
    ArgumentCount {
        /// The call.
        part: String,
    },
    /// A function has more arguments than any can have.
    #[error("too many arguments: a function takes at most {MAX_ARGUMENTS}; work it out in parts")]
    TooManyArguments,
    /// Something is divided by zero.
    #[error("division by zero in `{part}`")]
    DivisionByZero {
        /// The division.
        part: String,
    },
    /// There is no real number that would be the result.
    #[error("`{part}` has no real value")]
    NoRealValue {
        /// The operation.
        part: String,
    },
    /// A number or a result has more than 9999 digits before the point.
    #[error("`{part}` is too large: numbers end at 10^9999")]
    TooLarge {
        /// The number or the operation.
        part: String,
    },
    /// The expression is too long, or too deeply nested.
    #[error(
        "the expression is too long: at most {MAX_LENGTH} characters, nested at most 32 deep; work it out in parts"
    )]
    TooLong,
}

impl CalculatorError {
    /// Says what an error of the evaluator means for `expression`. What was written begins to be wrong at `position`.
    pub(super) fn of(expression: &str, error: nanoexpr::Error, position: usize) -> Self {
        let part = expression.get(error.span.start..error.span.end).unwrap_or(expression).to_owned();
        match error.kind {
            ErrorKind::UnknownVariable | ErrorKind::UnknownFunction => {
                Self::UnknownName { name: part.split('(').next().unwrap_or_default().trim().to_owned() }
            }
            ErrorKind::ArgumentCount => Self::ArgumentCount { part },
            ErrorKind::TooManyArguments => Self::TooManyArguments,
            ErrorKind::DivisionByZero => Self::DivisionByZero { part },
            ErrorKind::Domain => Self::NoRealValue { part },
            // The number is well formed, or there would be another error.
            ErrorKind::Overflow | ErrorKind::InvalidNumber => Self::TooLarge { part },
            ErrorKind::TooDeep | ErrorKind::TooLong => Self::TooLong,
            kind => Self::Syntax { problem: kind.description(), position },
        }
    }
}
