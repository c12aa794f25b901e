//! Calls to the `tower` services of layered tools and models, and the errors of these calls.

use std::{
    error::Error,
    future::poll_fn,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use haft_core::call::BoxError;
use tokio::time::{Instant, error::Elapsed};
use tower_service::Service;

/// A trait alias for the errors that a `tower` layer around a tool or a model can return: errors
/// that convert to a [`BoxError`], such as types with [`std::error::Error`], `String`, or
/// [`BoxError`] itself, the error of most layers of `tower`.
///
/// Implemented for all types that satisfy the bound of this trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a layer",
    label = "the service of this layer fails with `{Self}`",
    note = "implement `std::error::Error` for `{Self}`, or convert it in a last layer, for example with `map_err(|error: {Self}| …)` to a `ToolError` or a `String`"
)]
pub trait IntoLayerError: Into<BoxError> {}

#[diagnostic::do_not_recommend]
impl<E: Into<BoxError>> IntoLayerError for E {}

/// A `tower` service that is cloned for each request. The mutex makes this type `Sync` even if the
/// service is not `Sync`.
pub(crate) struct ServiceTemplate<S>(Mutex<S>);

/// An error returned by a layered service. `E` is the error type of the tool or model.
pub(crate) enum LayerError<E> {
    /// An error of type `E`, returned by the tool or model, or by a layer.
    Expected(E),
    /// The timeout error of `tower` or tokio. Contains the time since the start of the call or, if
    /// the service was not ready yet, since the start of the wait for readiness.
    TimedOut(Duration),
    /// An error of another type, returned by a layer.
    Other(BoxError),
}

impl<S> ServiceTemplate<S> {
    pub(crate) fn new(service: S) -> Self {
        Self(Mutex::new(service))
    }

    /// Clones the service, waits until the clone is ready, and calls it with `request`.
    pub(crate) fn call<R, E>(
        &self,
        request: R,
    ) -> impl Future<Output = Result<S::Response, LayerError<E>>> + use<S, R, E>
    where
        S: Service<R, Error: IntoLayerError> + Clone,
        E: Error + 'static,
    {
        let mut service = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        async move {
            let mut started = Instant::now();
            // Readiness belongs to a single clone, so `poll_ready` and `call` must use the same
            // clone.
            poll_fn(|task| service.poll_ready(task))
                .await
                .map_err(|error| LayerError::new(error.into(), started))?;
            started = Instant::now();
            service.call(request).await.map_err(|error| LayerError::new(error.into(), started))
        }
    }
}

impl<E: Error + 'static> LayerError<E> {
    fn new(error: BoxError, started: Instant) -> Self {
        match error.downcast::<E>() {
            Ok(error) => Self::Expected(*error),
            Err(error) if is_timeout(&*error) => Self::TimedOut(started.elapsed()),
            Err(error) => Self::Other(error),
        }
    }
}

/// Returns `true` if `error` is the timeout error of tokio or, with the feature `tower`, of
/// `tower`.
fn is_timeout(error: &(dyn Error + 'static)) -> bool {
    #[cfg(feature = "tower")]
    if error.is::<tower::timeout::error::Elapsed>() {
        return true;
    }
    error.is::<Elapsed>()
}
