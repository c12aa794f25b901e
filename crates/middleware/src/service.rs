//! Calls of layered `tower` services, shared by the tool layers and the model layers.

use std::{
    error::Error,
    future::poll_fn,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use haft_core::call::BoxError;
use tokio::time::{Instant, error::Elapsed};
use tower_service::Service;

/// A service of which each request uses a clone. The mutex makes it `Sync`; layers need not be.
pub(crate) struct ServiceTemplate<S>(Mutex<S>);

/// An error of a layered service. `E` is the error type of the innermost service.
pub(crate) enum LayerError<E> {
    /// An error of type `E`, from the innermost service or from a layer.
    Typed(E),
    /// A timeout of `tower` or tokio, after this time.
    TimedOut(Duration),
    /// Any other error of a layer.
    Other(BoxError),
}

impl<S> ServiceTemplate<S> {
    pub(crate) fn new(service: S) -> Self {
        Self(Mutex::new(service))
    }

    /// Clones the service, waits until the clone is ready, and calls it.
    pub(crate) fn call<R, E>(
        &self,
        request: R,
    ) -> impl Future<Output = Result<S::Response, LayerError<E>>> + use<S, R, E>
    where
        S: Service<R, Error: Into<BoxError>> + Clone,
        E: Error + 'static,
    {
        let mut service = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        async move {
            let mut started = Instant::now();
            // Readiness belongs to one clone: the clone that was polled must be the one called.
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
            Ok(error) => Self::Typed(*error),
            Err(error) if is_timeout(&*error) => Self::TimedOut(started.elapsed()),
            Err(error) => Self::Other(error),
        }
    }
}

/// Returns `true` for the timeout error of tokio and, with the feature `tower`, of `tower`.
fn is_timeout(error: &(dyn Error + 'static)) -> bool {
    #[cfg(feature = "tower")]
    if error.is::<tower::timeout::error::Elapsed>() {
        return true;
    }
    error.is::<Elapsed>()
}
