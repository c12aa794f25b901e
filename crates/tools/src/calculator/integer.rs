//! Exact integer arithmetic within 128 bits.

use std::cmp::Ordering;

use nanoexpr::{ErrorKind, Number};

/// A 128-bit integer. An operation fails if its result overflows or is not an integer. The
/// calculator then evaluates the expression again, with fractions.
#[derive(Clone, Copy, Default)]
pub(super) struct Integer(pub(super) i128);

type IntegerResult = Result<Integer, ErrorKind>;

impl Number for Integer {
    fn parse(literal: &str) -> Option<Self> {
        literal.parse().ok().map(Self)
    }

    fn add(self, rhs: Self) -> IntegerResult {
        self.0.add(rhs.0).map(Self)
    }

    fn subtract(self, rhs: Self) -> IntegerResult {
        self.0.subtract(rhs.0).map(Self)
    }

    fn multiply(self, rhs: Self) -> IntegerResult {
        self.0.multiply(rhs.0).map(Self)
    }

    fn divide(self, rhs: Self) -> IntegerResult {
        match self.0.remainder(rhs.0)? {
            0 => self.0.divide(rhs.0).map(Self),
            _ => Err(ErrorKind::Inexact),
        }
    }

    fn remainder(self, rhs: Self) -> IntegerResult {
        self.0.remainder(rhs.0).map(Self)
    }

    fn power(self, rhs: Self) -> IntegerResult {
        self.0.power(rhs.0).map(Self)
    }

    fn negate(self) -> IntegerResult {
        self.0.negate().map(Self)
    }

    fn compare(self, rhs: Self) -> Result<Ordering, ErrorKind> {
        self.0.compare(rhs.0)
    }
}
