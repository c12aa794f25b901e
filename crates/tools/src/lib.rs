#![doc = include_str!("../README.md")]

mod builtin;
mod calculator;
mod clock;
mod datetime;

pub use builtin::{BuiltinConfig, builtin};
pub use calculator::{Calculation, Calculator, CalculatorError, calculator};
pub use clock::Clock;
pub use datetime::{
    CurrentDatetime, DatetimeError, DatetimeFormat, GetCurrentDatetime, UnknownTimezone, get_current_datetime,
};
