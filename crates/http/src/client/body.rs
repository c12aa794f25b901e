use haft_core::text::compression;
use reqwest::{Response, header::CONTENT_ENCODING};

/// The byte order mark in UTF-8, which some programs write in front of JSON.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The error of [`read_body`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadBodyError {
    /// The connection was lost.
    #[error(transparent)]
    Lost(#[from] reqwest::Error),
    /// The body has more bytes than this maximum.
    #[error("the response exceeds {0} bytes")]
    TooLong(usize),
    /// The body has this compression, although the request excludes it.
    #[error("the response is compressed with {0}, which the request excludes")]
    Compressed(String),
}

/// Returns the compression of the body of `response`, such as `gzip`. `None` if it has none.
pub fn content_coding(response: &Response) -> Option<&str> {
    compression(response.headers().get(CONTENT_ENCODING)?.to_str().ok()?)
}

/// Reads the body of `response`, which has at most `max_bytes`, without a byte order mark.
///
/// # Errors
///
/// Fails if the connection is lost, if the body is longer, or if it is compressed. A body whose
/// announced length is too long is not read.
pub async fn read_body(response: &mut Response, max_bytes: usize) -> Result<Vec<u8>, ReadBodyError> {
    if let Some(coding) = content_coding(response) {
        return Err(ReadBodyError::Compressed(coding.to_owned()));
    }
    let too_long = |length: u64| usize::try_from(length).map_or(true, |length| length > max_bytes);
    if response.content_length().is_some_and(too_long) {
        return Err(ReadBodyError::TooLong(max_bytes));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() > max_bytes {
            return Err(ReadBodyError::TooLong(max_bytes));
        }
    }
    if body.starts_with(BYTE_ORDER_MARK) {
        body.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(body)
}
