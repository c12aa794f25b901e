//! A collection of compile errors, so that the compiler reports all of them at once.

use std::fmt::Display;

use quote::ToTokens;
use syn::{Error, Result};

/// The compile errors found so far.
#[derive(Default)]
pub(crate) struct Errors {
    all: Option<Error>,
    count: usize,
}

impl Errors {
    /// Adds an error that points to the span of `place`.
    pub(crate) fn add_at(&mut self, place: impl ToTokens, message: impl Display) {
        self.push(Error::new_spanned(place, message));
    }

    /// Adds `error`, which already has a span.
    pub(crate) fn push(&mut self, error: Error) {
        self.count += 1;
        match &mut self.all {
            Some(errors) => errors.combine(error),
            none => *none = Some(error),
        }
    }

    /// Returns the value of `result`, or adds the error in `result` and returns `None`.
    pub(crate) fn ok_or_record<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    /// Returns the number of errors added so far.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns `Ok` if there are no errors. Fails with a single error that combines all errors.
    pub(crate) fn finish(self) -> Result<()> {
        self.all.map_or(Ok(()), Err)
    }
}
