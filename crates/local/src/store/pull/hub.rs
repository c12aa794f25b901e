//! Downloads from the Hugging Face hub over HTTP.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::header::{CONTENT_RANGE, RANGE};
use reqwest::{Client, Response, StatusCode};

use super::tls;
use super::verify::verify_and_move;
use super::{FileLock, PullEvent, PullObserver, PullSourceError, with_extension};
use crate::store::{KnownModel, ModelStore};

pub(super) const SOURCE_NAME: &str = "the Hugging Face hub";

/// The timeout for establishing a connection to the hub. It is short, because the Python package
/// registry is available as a second source.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum time to wait for further data from the hub.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct Hub<'a> {
    pub(super) address: &'a str,
    pub(super) lock: &'a FileLock,
}

impl Hub<'_> {
    pub(super) async fn fetch(
        &self,
        store: &ModelStore,
        model: &KnownModel,
        observer: PullObserver<'_>,
    ) -> Result<PathBuf, PullSourceError> {
        let final_path = store.path(model);
        let partial = with_extension(&final_path, "partial");
        let received = partial.metadata().map_or(0, |file| file.len());
        if received < model.size {
            let response = self.request(model, received).await?;
            receive(response, &partial, received, model, observer).await?;
        }
        observer(PullEvent::Verifying);
        verify_and_move(partial, final_path, model, self.lock).await
    }

    /// Sends the HTTP request for the file of `model`, beginning at byte `received`.
    async fn request(&self, model: &KnownModel, received: u64) -> Result<Response, PullSourceError> {
        let address = self.address.trim_end_matches('/');
        let url = format!("{address}/{}/resolve/main/{}", model.hub.repository, model.hub.path);
        let tls = tls::config_for(&url)
            .map_err(|error| PullSourceError::Unreachable { reason: error.to_string() })?;
        let client = Client::builder().tls_backend_preconfigured(tls).connect_timeout(CONNECT_TIMEOUT);
        let client = client.read_timeout(IDLE_TIMEOUT).build().map_err(connection_error)?;
        let mut request = client.get(url);
        if received > 0 {
            request = request.header(RANGE, format!("bytes={received}-"));
        }
        request.send().await.map_err(connection_error)
    }
}

/// Appends the body of `response` to the file `partial`, which already contains `received` bytes.
/// If `response` contains the whole file, `partial` is overwritten.
async fn receive(
    mut response: Response,
    partial: &Path,
    received: u64,
    model: &KnownModel,
    observer: PullObserver<'_>,
) -> Result<(), PullSourceError> {
    let start = match response.status() {
        StatusCode::PARTIAL_CONTENT => received,
        // A server that does not support range requests sends the whole file.
        StatusCode::OK => 0,
        status => return Err(PullSourceError::HttpStatus { status: status.as_u16() }),
    };
    if let Some(size) = total_size(&response, start).filter(|size| *size != model.size) {
        // The file on the hub has a different size, so the partial download cannot be completed.
        let _ = fs::remove_file(partial);
        return Err(PullSourceError::WrongFile { reason: format!("{size} bytes instead of {}", model.size) });
    }
    let mut file =
        File::options().create(true).append(start > 0).write(true).truncate(start == 0).open(partial)?;
    let mut bytes = start;
    observer(PullEvent::Received { bytes, total: model.size });
    while let Some(chunk) = response.chunk().await.map_err(connection_error)? {
        bytes += chunk.len() as u64;
        if bytes > model.size {
            drop(file);
            fs::remove_file(partial)?;
            return Err(PullSourceError::WrongFile { reason: format!("more than {} bytes", model.size) });
        }
        file.write_all(&chunk)?;
        observer(PullEvent::Received { bytes, total: model.size });
    }
    match bytes == model.size {
        true => Ok(file.sync_all()?),
        false => Err(PullSourceError::Unreachable {
            reason: format!("closed after {bytes} of {} bytes", model.size),
        }),
    }
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
