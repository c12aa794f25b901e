use nanoexpr::ErrorKind;

use super::{MAX_LENGTH, NAMES};

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
    /// A function has too many arguments, or too few.
    #[error("wrong number of arguments in `{part}`")]
    ArgumentCount {
        /// The call.
        part: String,
    },
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
    /// The result has more than 9999 digits before the point.
    #[error("`{part}` is too large: results end at 10^9999")]
    TooLarge {
        /// The operation.
        part: String,
    },
    /// The expression is too long, or too deeply nested.
    #[error(
        "the expression is too long: at most {MAX_LENGTH} bytes, nested at most 32 deep; work it out in parts"
    )]
    TooLong,
}

impl CalculatorError {
    /// Says what an error of the evaluator means for `expression`.
    pub(super) fn of(expression: &str, error: nanoexpr::Error) -> Self {
        let part = expression.get(error.span.start..error.span.end).unwrap_or(expression).to_owned();
        match error.kind {
            ErrorKind::UnknownVariable | ErrorKind::UnknownFunction => {
                Self::UnknownName { name: part.split('(').next().unwrap_or_default().trim().to_owned() }
            }
            ErrorKind::ArgumentCount | ErrorKind::TooManyArguments => Self::ArgumentCount { part },
            ErrorKind::DivisionByZero => Self::DivisionByZero { part },
            ErrorKind::Domain => Self::NoRealValue { part },
            ErrorKind::Overflow => Self::TooLarge { part },
            ErrorKind::TooDeep | ErrorKind::TooLong => Self::TooLong,
            kind => Self::Syntax {
                problem: kind.description(),
                position: expression.get(..error.span.start).unwrap_or(expression).chars().count() + 1,
            },
        }
    }
}
