//! Downloads from the Hugging Face hub over HTTP.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haft_http::client;
use haft_http::tls::RootCertificates;
use reqwest::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_RANGE, HeaderMap, LOCATION, RANGE};
use reqwest::{Response, StatusCode, Url};
use tracing::warn;

use super::token::Token;
use super::verify::{ExpectedFile, verify_and_move};
use super::{Download, FileLock, PullEvent, PullObserver, PullSourceError, with_extension};
use crate::store::{HubFile, own_file};

pub(super) const SOURCE_NAME: &str = "the Hugging Face hub";

/// The timeout for establishing a connection to the hub. It is short, because the Python package
/// registry is available as a second source.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum time to wait for further data from the hub.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum number of redirects of a request.
const MAX_REDIRECTS: usize = 10;

pub(super) struct Hub<'a> {
    pub(super) address: &'a str,
    pub(super) token: Option<&'a Token>,
    pub(super) lock: &'a FileLock,
}

/// The response to a request for a file.
struct FileResponse {
    response: Response,
    /// The size and the SHA-256 that the hub sent with its first response.
    linked: ExpectedFile,
}

impl Hub<'_> {
    pub(super) async fn fetch(
        &self,
        download: &Download<'_>,
        observer: PullObserver<'_>,
    ) -> Result<PathBuf, PullSourceError> {
        let final_path = download.final_path.clone();
        let partial = with_extension(&final_path, "partial");
        let received = own_file::length(&partial);
        let mut expected = download.expected.clone();
        if expected.size.is_none_or(|size| received < size) || expected.sha256.is_none() {
            let mut file = self.request(download.hub, received).await?;
            expected.size = expected.size.or(file.linked.size);
            expected.sha256 = expected.sha256.or(file.linked.sha256.take());
            let mut received = received;
            // The bytes of another version of the file are of no use.
            if !remember_expected(&final_path, &expected, &download.expected)? && received > 0 {
                received = 0;
                file = self.request(download.hub, 0).await?;
            }
            receive(file.response, &partial, received, &expected, observer).await?;
        }
        if expected.sha256.is_none() {
            warn!(file = %download.name, "the hub sent no SHA-256: the file cannot be verified");
        }
        observer(PullEvent::Verifying);
        verify_and_move(partial, final_path, &expected, self.lock).await
    }

    /// Sends the HTTP request for `file`, beginning at byte `received`, and follows redirects. The
    /// token is sent to the origin of the hub only.
    async fn request(&self, file: &HubFile, received: u64) -> Result<FileResponse, PullSourceError> {
        let unreachable = |reason: String| PullSourceError::Unreachable { reason };
        let url = file.url(self.address);
        // The server may redirect from `http` to `https`.
        let is_plain = url.to_ascii_lowercase().starts_with("http://");
        let roots = if is_plain { RootCertificates::SystemIfPresent } else { RootCertificates::System };
        let client = client::builder(roots).map_err(|error| unreachable(error.to_string()))?;
        let client = client.connect_timeout(CONNECT_TIMEOUT).read_timeout(IDLE_TIMEOUT);
        let client = client.build().map_err(connection_error)?;
        let mut url =
            Url::parse(&url).map_err(|_| unreachable("the address of the hub is invalid".to_owned()))?;
        let hub = url.origin();
        let mut linked = ExpectedFile::default();
        for _ in 0..=MAX_REDIRECTS {
            let is_hub = url.origin() == hub;
            // The client excludes compression: sizes, ranges and checksums are those of the plain
            // file.
            let mut request = client.get(url.clone());
            if received > 0 {
                request = request.header(RANGE, format!("bytes={received}-"));
            }
            if let Some(value) = self.token.filter(|_| is_hub).and_then(Token::header) {
                request = request.header(AUTHORIZATION, value);
            }
            let response = request.send().await.map_err(connection_error)?;
            if is_hub {
                linked.size = linked.size.or_else(|| linked_size(response.headers()));
                linked.sha256 = linked.sha256.take().or_else(|| linked_sha256(response.headers()));
            }
            if !response.status().is_redirection() {
                if !response.status().is_success() && response.status() != StatusCode::RANGE_NOT_SATISFIABLE {
                    return Err(self.status_error(file, &response));
                }
                if let Some(coding) = compression_of(&response) {
                    let reason = format!("compressed with {coding:?}, which the request excludes");
                    return Err(PullSourceError::WrongFile { reason });
                }
                return Ok(FileResponse { response, linked });
            }
            let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            let next = location.and_then(|location| url.join(location).ok());
            let next = next.filter(|next| next.scheme() == "https" || next.scheme() == url.scheme());
            url = next.ok_or_else(|| unreachable("the server sent an invalid redirect".to_owned()))?;
        }
        Err(unreachable("the server sent too many redirects".to_owned()))
    }

    /// Returns the error for a response with the status of a failure.
    fn status_error(&self, file: &HubFile, response: &Response) -> PullSourceError {
        let code =
            response.headers().get("x-error-code").and_then(|code| code.to_str().ok()).unwrap_or_default();
        let (repository, has_token) = (file.repository.to_string(), self.token.is_some());
        match (response.status(), code) {
            (_, "GatedRepo") => {
                let page = format!("{}/{repository}", self.address.trim_end_matches('/'));
                PullSourceError::Gated { repository, page, has_token }
            }
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => {
                PullSourceError::AccessDenied { repository, has_token }
            }
            (_, "RepoNotFound" | "RevisionNotFound" | "EntryNotFound") => {
                PullSourceError::NotFound { file: file.to_string() }
            }
            (status, _) => PullSourceError::HttpStatus { status: status.as_u16() },
        }
    }
}

/// Returns the compression of the body of `response`, if any.
fn compression_of(response: &Response) -> Option<&str> {
    let coding = response.headers().get(CONTENT_ENCODING)?.to_str().ok()?;
    haft_core::text::compression(coding)
}

/// Stores what `expected` adds to the `catalogue` beside the partial download. Returns `false` if
/// the partial download belongs to another version of the file.
fn remember_expected(
    final_path: &Path,
    expected: &ExpectedFile,
    catalogue: &ExpectedFile,
) -> std::io::Result<bool> {
    if expected == catalogue {
        return Ok(true);
    }
    let text = format!("{expected:?}");
    let path = with_extension(final_path, "expected");
    if fs::read_to_string(&path).is_ok_and(|stored| stored == text) {
        return Ok(true);
    }
    own_file::write(&path, &text)?;
    Ok(false)
}

/// Appends the body of `response` to the file `partial`, which already contains `received` bytes.
/// If `response` contains the whole file, `partial` is overwritten.
async fn receive(
    mut response: Response,
    partial: &Path,
    received: u64,
    expected: &ExpectedFile,
    observer: PullObserver<'_>,
) -> Result<(), PullSourceError> {
    let start = match response.status() {
        StatusCode::PARTIAL_CONTENT => received,
        // The partial download is complete, but was not verified.
        StatusCode::RANGE_NOT_SATISFIABLE if received > 0 && expected.size == Some(received) => return Ok(()),
        StatusCode::RANGE_NOT_SATISFIABLE => {
            let _ = fs::remove_file(partial);
            return Err(PullSourceError::WrongFile { reason: format!("fewer than {received} bytes") });
        }
        // A server that does not support range requests sends the whole file.
        _ => 0,
    };
    let sent = total_size(&response, start);
    if let (Some(size), Some(sent)) = (expected.size, sent)
        && size != sent
    {
        // The file on the hub has a different size, so the partial download cannot be completed.
        let _ = fs::remove_file(partial);
        return Err(PullSourceError::WrongFile { reason: format!("{sent} bytes instead of {size}") });
    }
    let size = expected.size.or(sent);
    let mut file = if start > 0 { own_file::append(partial)? } else { own_file::create(partial)? };
    let mut bytes = start;
    observer(PullEvent::Received { bytes, total: size.unwrap_or(bytes) });
    while let Some(chunk) = response.chunk().await.map_err(connection_error)? {
        bytes += chunk.len() as u64;
        if let Some(size) = size.filter(|size| bytes > *size) {
            drop(file);
            fs::remove_file(partial)?;
            return Err(PullSourceError::WrongFile { reason: format!("more than {size} bytes") });
        }
        file.write_all(&chunk)?;
        observer(PullEvent::Received { bytes, total: size.unwrap_or(bytes) });
    }
    match size {
        Some(size) if bytes < size => {
            Err(PullSourceError::Unreachable { reason: format!("closed after {bytes} of {size} bytes") })
        }
        _ => Ok(file.sync_all()?),
    }
}

/// Returns the size of the file on the hub. The hub sends it with the redirect to its storage.
fn linked_size(headers: &HeaderMap) -> Option<u64> {
    headers.get("x-linked-size")?.to_str().ok()?.parse().ok()
}

/// Returns the SHA-256 of a file on the hub in lower-case hexadecimal digits. Files outside of the
/// large-file storage have another kind of ETag.
fn linked_sha256(headers: &HeaderMap) -> Option<String> {
    let tag = headers.get("x-linked-etag")?.to_str().ok()?;
    let tag = tag.trim_start_matches("W/").trim_matches('"').to_ascii_lowercase();
    (tag.len() == 64 && tag.bytes().all(|letter| letter.is_ascii_hexdigit())).then_some(tag)
}

/// Returns the size of the whole file in bytes, or `None` if the headers of `response` do not
/// contain it. `start` is the offset of the body in the file.
fn total_size(response: &Response, start: u64) -> Option<u64> {
    let range = response.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
    match range.and_then(|range| range.rsplit('/').next()) {
        Some(total) => total.parse().ok(),
        None => response.content_length().map(|rest| start + rest),
    }
}

fn connection_error(error: reqwest::Error) -> PullSourceError {
    if error.is_timeout() && !error.is_connect() {
        return PullSourceError::TimedOut { after: IDLE_TIMEOUT };
    }
    // The outermost error contains only the address. The root cause contains the reason.
    let mut cause: &dyn std::error::Error = &error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    PullSourceError::Unreachable { reason: cause.to_string() }
}
