//! Mistakes are collected, so that a user sees all of them at once.

use std::fmt::Display;

use quote::ToTokens;
use syn::{Error, Result};

/// The mistakes found so far.
#[derive(Default)]
pub(crate) struct Errors {
    all: Option<Error>,
    count: usize,
}

impl Errors {
    /// Adds a mistake at the place of some tokens.
    pub(crate) fn at(&mut self, place: impl ToTokens, message: impl Display) {
        self.push(Error::new_spanned(place, message));
    }

    /// Adds a mistake.
    pub(crate) fn push(&mut self, error: Error) {
        self.count += 1;
        match &mut self.all {
            Some(errors) => errors.combine(error),
            none => *none = Some(error),
        }
    }

    /// Takes the value, or adds the mistake.
    pub(crate) fn ok<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// All mistakes as one, if there are any.
    pub(crate) fn finish(self) -> Result<()> {
        self.all.map_or(Ok(()), Err)
    }
}
