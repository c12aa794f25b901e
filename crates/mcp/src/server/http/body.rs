use std::{pin::pin, time::Duration};

use bytes::{Buf as _, Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::time::timeout;

/// The reason for the rejection of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BodyError {
    /// The body is longer than permitted.
    TooLong,
    /// The body did not arrive in time.
    TimedOut,
    /// The connection failed.
    Failed,
}

/// Reads `body`, which has at most `max_bytes` and arrives within `max_time`.
pub(super) async fn read_body<B: Body>(
    body: B,
    max_bytes: usize,
    max_time: Duration,
) -> Result<Bytes, BodyError> {
    let is_too_long = |length: u64| usize::try_from(length).map_or(true, |length| length > max_bytes);
    if is_too_long(body.size_hint().lower()) {
        return Err(BodyError::TooLong);
    }
    let reading = async {
        let mut body = pin!(body);
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            // Frames without data are trailers.
            let Ok(mut data) = frame.map_err(|_| BodyError::Failed)?.into_data() else { continue };
            if data.remaining() > max_bytes - bytes.len() {
                return Err(BodyError::TooLong);
            }
            while data.has_remaining() {
                let chunk = data.chunk();
                bytes.extend_from_slice(chunk);
                let length = chunk.len();
                data.advance(length);
            }
        }
        // A client may send a byte order mark (RFC 8259, section 8.1).
        if bytes.starts_with(b"\xef\xbb\xbf") {
            bytes.advance(3);
        }
        Ok(bytes.freeze())
    };
    timeout(max_time, reading).await.unwrap_or(Err(BodyError::TimedOut))
}
