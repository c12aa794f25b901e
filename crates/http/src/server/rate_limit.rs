use std::{
    num::{NonZeroU32, NonZeroUsize},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use governor::{
    Quota, RateLimiter,
    clock::Clock,
    middleware::NoOpMiddleware,
    state::{InMemoryState, NotKeyed},
};
use lru::LruCache;
use tokio::time::Instant;

use super::client::ClientKey;

/// The maximum number of clients whose requests are counted. The counter of the client with the
/// oldest request is dropped first.
const MAX_CLIENTS: NonZeroUsize = NonZeroUsize::new(16_384).unwrap();

type Limiter = RateLimiter<NotKeyed, InMemoryState, TokioClock, NoOpMiddleware<Duration>>;

/// A limit for the requests of each client (GCRA).
pub(super) struct RequestLimit {
    quota: Quota,
    clock: TokioClock,
    clients: Mutex<LruCache<ClientKey, Limiter>>,
}

impl RequestLimit {
    pub(super) fn per_minute(requests: NonZeroU32) -> Self {
        let clients = Mutex::new(LruCache::new(MAX_CLIENTS));
        Self { quota: Quota::per_minute(requests), clock: TokioClock(Instant::now()), clients }
    }

    /// Counts a request of `client`.
    ///
    /// # Errors
    ///
    /// Returns the time after which the next request is permitted.
    pub(super) fn count(&self, client: &ClientKey) -> Result<(), Duration> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let new_limiter = || Limiter::direct_with_clock(self.quota, self.clock);
        let limiter = clients.get_or_insert_ref(client, new_limiter);
        limiter.check().map_err(|not_until| not_until.wait_time_from(self.clock.now()))
    }
}

/// The time since its creation, which tests can pause.
#[derive(Clone, Copy)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroU32, time::Duration};

    use tokio::time::advance;

    use super::{super::client::ClientKey, RequestLimit};

    #[tokio::test(start_paused = true)]
    async fn requests_are_limited_per_client_and_minute() {
        let limit = RequestLimit::per_minute(NonZeroU32::new(3).unwrap());
        let ann = ClientKey::Principal("ann".to_owned());
        for _ in 0..3 {
            assert_eq!(limit.count(&ann), Ok(()));
        }
        assert_eq!(limit.count(&ann), Err(Duration::from_secs(20)));
        assert_eq!(limit.count(&ClientKey::Unknown), Ok(()));
        advance(Duration::from_secs(20)).await;
        assert_eq!(limit.count(&ann), Ok(()));
        assert!(limit.count(&ann).is_err());
        advance(Duration::from_secs(60)).await;
        for _ in 0..3 {
            assert_eq!(limit.count(&ann), Ok(()));
        }
    }
}
