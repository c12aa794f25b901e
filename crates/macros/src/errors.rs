//! A collection of errors. The user sees all of them at once.

use std::fmt::Display;

use quote::ToTokens;
use syn::{Error, Result};

/// The errors found so far.
#[derive(Default)]
pub(crate) struct Errors {
    all: Option<Error>,
    count: usize,
}

impl Errors {
    /// Adds an error with the span of `place`.
    pub(crate) fn at(&mut self, place: impl ToTokens, message: impl Display) {
        self.push(Error::new_spanned(place, message));
    }

    /// Adds an error.
    pub(crate) fn push(&mut self, error: Error) {
        self.count += 1;
        match &mut self.all {
            Some(errors) => errors.combine(error),
            none => *none = Some(error),
        }
    }

    /// Returns the value, or adds the error.
    pub(crate) fn ok<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    /// Returns the number of errors.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns all errors combined into one.
    pub(crate) fn finish(self) -> Result<()> {
        self.all.map_or(Ok(()), Err)
    }
}
