use std::{fmt, sync::Arc};

use haft_core::Timestamp;

/// The clock that time-dependent tools read. Default: the system clock.
///
/// Pass a different clock as [`HostState`](haft_core::tool::HostState), for example a fixed time in
/// a test.
///
/// # Examples
///
/// ```
/// use haft_core::{Timestamp, tool::HostState, ToolContext};
/// use haft_tools::{BuiltinConfig, Clock, builtin};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let cx = ToolContext::default().with_state(Clock::fixed(Timestamp::from_unix_millis(0)));
/// let tools = builtin(&BuiltinConfig::default());
/// let result = tools.call_with("get_current_datetime", json!({ "format": "date" }), &cx).await;
/// assert_eq!(result.to_json()["result"]["datetime"], "1970-01-01");
/// # }
/// ```
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// Creates a clock that calls `now` for the current time.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Creates a clock that always returns `time`.
    pub fn fixed(time: Timestamp) -> Self {
        Self::new(move || time)
    }

    /// Returns the current time of this clock.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

/// The default is the system clock.
impl Default for Clock {
    fn default() -> Self {
        Self::new(Timestamp::now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}
