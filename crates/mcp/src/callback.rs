//! Functions in options, for example the handler of elicitations.

use std::{fmt, ops::Deref, sync::Arc};

/// A shared function of the type `F`. Two callbacks are equal if they are the same function object.
pub(crate) struct Callback<F: ?Sized>(Arc<F>);

impl<F: ?Sized> Callback<F> {
    pub(crate) fn new(function: Arc<F>) -> Self {
        Self(function)
    }
}

impl<F: ?Sized> Clone for Callback<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<F: ?Sized> Deref for Callback<F> {
    type Target = F;

    fn deref(&self) -> &F {
        &self.0
    }
}

impl<F: ?Sized> PartialEq for Callback<F> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<F: ?Sized> Eq for Callback<F> {}

impl<F: ?Sized> fmt::Debug for Callback<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callback")
    }
}
