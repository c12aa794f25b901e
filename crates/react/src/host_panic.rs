//! Panics in code of the host program: dialects, classifiers and the profile of a model. A driver
//! catches them, so that a run ends with a typed error.

use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
};

use futures::FutureExt as _;
use haft_core::{ChatModel, agent::AgentErrorKind, model::ModelProfile, text::panic_text};

/// The panic of a method that the host program implements. The panic message is only in the log, at
/// the level `debug`, because it may contain sensitive data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{method}` panicked")]
pub struct HostPanic {
    /// The method, such as `Dialect::parse_reply`.
    pub method: &'static str,
}

impl HostPanic {
    /// Creates the error for a panic of `method` with the payload `payload`, and logs it.
    pub fn new(method: &'static str, payload: &(dyn Any + Send)) -> Self {
        tracing::error!(method, "code of the host program panicked");
        tracing::debug!(method, panic = panic_text(payload), "panic message of the host program");
        Self { method }
    }

    /// Converts the panic to the error that ends the run. `hook` is the kind of the host code, such
    /// as `dialect`.
    pub fn into_error(self, hook: &'static str) -> AgentErrorKind {
        AgentErrorKind::HookFailed { hook, source: self.into() }
    }
}

/// Calls `code`, which runs `method` of the host program, and catches its panic.
///
/// # Errors
///
/// Fails with a [`HostPanic`] if `code` panics.
pub(crate) fn catch_panic<T>(method: &'static str, code: impl FnOnce() -> T) -> Result<T, HostPanic> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|panic| HostPanic::new(method, &*panic))
}

/// Calls `code`, which runs `method` of a dialect. A panic becomes the error that ends the run.
///
/// # Errors
///
/// Fails with [`AgentErrorKind::HookFailed`] if `code` panics.
pub(crate) fn catch_dialect_panic<T>(
    method: &'static str,
    code: impl FnOnce() -> T,
) -> Result<T, AgentErrorKind> {
    catch_panic(method, code).map_err(|panic| panic.into_error("dialect"))
}

/// Awaits `code`, which runs `method` of the host program, and catches its panic.
///
/// # Errors
///
/// Fails with a [`HostPanic`] if `code` panics.
pub(crate) async fn catch_async_panic<T>(
    method: &'static str,
    code: impl Future<Output = T>,
) -> Result<T, HostPanic> {
    AssertUnwindSafe(code).catch_unwind().await.map_err(|panic| HostPanic::new(method, &*panic))
}

/// Returns the profile of `model`.
///
/// # Errors
///
/// Fails with a [`HostPanic`] if the code of the model panics.
pub(crate) fn profile_of(model: &dyn ChatModel) -> Result<&ModelProfile, HostPanic> {
    catch_panic("ChatModel::profile", || model.profile())
}

/// Returns the name of `model` for a trace. `None` if the code of the model panics.
pub(crate) fn model_name(model: &dyn ChatModel) -> Option<&str> {
    profile_of(model).ok().map(|profile| profile.name.as_str())
}
