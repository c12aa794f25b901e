use std::{
    convert::Infallible,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http_body::Frame;
use http_body_util::{BodyExt as _, Collected, Full, StreamBody};
use tokio::time::{Instant, sleep};

use super::{BodyError, LimitedBody};

const MAX_TIME: Duration = Duration::from_secs(30);

async fn read<B: http_body::Body>(body: B, max_bytes: usize) -> Result<Bytes, BodyError> {
    let failure = Arc::new(OnceLock::new());
    let limited = LimitedBody::new(body, max_bytes, MAX_TIME, Arc::clone(&failure));
    let read = limited.collect().await.map(Collected::to_bytes);
    assert_eq!(failure.get().copied(), read.as_ref().err().copied());
    read
}

/// Returns a body of unknown length that sends each chunk after a `pause`.
fn chunks(count: usize, pause: Duration) -> impl http_body::Body<Data = Bytes> {
    let chunks = stream::iter(0..count).then(move |_| async move {
        sleep(pause).await;
        Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"12345")))
    });
    StreamBody::new(chunks)
}

#[tokio::test(start_paused = true)]
async fn body_has_a_maximum_length() {
    assert_eq!(read(Full::new(Bytes::from_static(b"1234567890")), 10).await.unwrap(), "1234567890");
    assert_eq!(read(Full::new(Bytes::from_static(b"12345678901")), 10).await, Err(BodyError::TooLong));
    assert_eq!(read(chunks(2, Duration::ZERO), 10).await.unwrap(), "1234512345");
    assert_eq!(read(chunks(3, Duration::ZERO), 10).await, Err(BodyError::TooLong));
}

/// The time is for the whole body, not for each chunk.
#[tokio::test(start_paused = true)]
async fn body_must_arrive_in_time() {
    assert!(read(chunks(4, MAX_TIME / 5), 100).await.is_ok());
    let started = Instant::now();
    assert_eq!(read(chunks(10, MAX_TIME / 5), 100).await, Err(BodyError::TimedOut));
    assert_eq!(started.elapsed(), MAX_TIME);
}
