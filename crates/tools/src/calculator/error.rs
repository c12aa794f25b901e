use nanoexpr::ErrorKind;

use super::{MAX_ARGUMENTS, MAX_EXPRESSION_CHARS, names::KNOWN_NAMES};

/// The error that [`calculator`](super::calculator()) returns.
///
/// The messages are written for a model. Each of them quotes the faulty part of the expression or
/// contains a remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CalculatorError {
    /// The text is not a valid expression.
    #[error(
        "{problem} at character {position}: write numbers, + - * / % ^ !, parentheses and functions such as sqrt(2)"
    )]
    Syntax {
        /// A description of the problem.
        problem: &'static str,
        /// The position of the problem, counted in characters from 1.
        position: usize,
    },
    /// The expression contains an unknown variable or function.
    #[error("unknown name `{name}`: known are {}", KNOWN_NAMES.join(", "))]
    UnknownName {
        /// The unknown name.
        name: String,
    },
    /// The expression uses `%` as a percent sign, not as the remainder operator.
    #[error("`%` is the remainder of a division: write 15/100 for 15 percent")]
    Percentage,
    /// A function is called with the wrong number of arguments.
    #[error("wrong number of arguments in `{part}`")]
    ArgumentCount {
        /// The incorrect function call, as written in the expression.
        part: String,
    },
    /// A function is called with more than 64 arguments.
    #[error("too many arguments: a function takes at most {MAX_ARGUMENTS}; work it out in parts")]
    TooManyArguments,
    /// The expression divides by zero.
    #[error("division by zero in `{part}`")]
    DivisionByZero {
        /// The division by zero, as written in the expression.
        part: String,
    },
    /// The result is not a real number, for example `sqrt(-4)`.
    #[error("`{part}` has no real value")]
    NoRealValue {
        /// The operation without a real value, as written in the expression.
        part: String,
    },
    /// A number or a result has more than 10,000 digits before the decimal point, or the argument
    /// of `sin`, `cos` or `tan` has more than 343.
    #[error("`{part}` is too large: numbers have at most 10,000 digits, and angles at most 343")]
    TooLarge {
        /// The number or operation that is too large, as written in the expression.
        part: String,
    },
    /// The expression has more than 1,000 characters, or more than 32 nesting levels.
    #[error(
        "the expression is too long: at most {MAX_EXPRESSION_CHARS} characters, nested at most 32 deep; work it out in parts"
    )]
    TooLong,
}

impl CalculatorError {
    /// Converts an error from `nanoexpr`.
    ///
    /// `expression` is the evaluated expression, with typographic symbols replaced by ASCII.
    /// `position` is the start of the problem in the expression that the model sent, counted in
    /// characters from 1.
    pub(super) fn from_evaluator(expression: &str, error: nanoexpr::Error, position: usize) -> Self {
        let part = expression.get(error.span.start..error.span.end).unwrap_or(expression).to_owned();
        match error.kind {
            ErrorKind::UnknownVariable | ErrorKind::UnknownFunction => {
                Self::UnknownName { name: part.split('(').next().unwrap_or_default().trim().to_owned() }
            }
            ErrorKind::ArgumentCount => Self::ArgumentCount { part },
            ErrorKind::TooManyArguments => Self::TooManyArguments,
            ErrorKind::DivisionByZero => Self::DivisionByZero { part },
            ErrorKind::Domain => Self::NoRealValue { part },
            // The syntax of the number is valid at this point, so `InvalidNumber` means that it is
            // out of range.
            ErrorKind::Overflow | ErrorKind::InvalidNumber => Self::TooLarge { part },
            ErrorKind::TooDeep | ErrorKind::TooLong => Self::TooLong,
            kind => Self::Syntax { problem: kind.description(), position },
        }
    }
}
