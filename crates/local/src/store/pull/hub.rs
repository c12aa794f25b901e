//! The Hugging Face hub, over HTTP.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::header::{CONTENT_RANGE, RANGE};
use reqwest::{Client, Response, StatusCode};

use super::tls;
use super::verify::put_in_place;
use super::{PullEvent, SourceError, Watch, beside};
use crate::store::{KnownModel, ModelStore};

pub(super) const NAME: &str = "the Hugging Face hub";

/// Short, so that an unreachable hub does not delay the next source.
const CONNECT: Duration = Duration::from_secs(5);
/// The longest pause in the response.
const IDLE: Duration = Duration::from_secs(30);

pub(super) struct Hub<'a> {
    pub(super) address: &'a str,
}

impl Hub<'_> {
    pub(super) async fn fetch(
        &self,
        store: &ModelStore,
        model: &KnownModel,
        watch: Watch<'_>,
    ) -> Result<PathBuf, SourceError> {
        let place = store.path(model);
        let partial = beside(&place, "partial");
        let have = partial.metadata().map_or(0, |file| file.len());
        if have < model.size {
            let response = self.request(model, have).await?;
            receive(response, &partial, have, model, watch).await?;
        }
        watch(PullEvent::Verifying);
        put_in_place(partial, place, model).await
    }

    /// Requests the file from byte `have` on.
    async fn request(&self, model: &KnownModel, have: u64) -> Result<Response, SourceError> {
        let tls = tls::config().map_err(|error| SourceError::Unreachable { reason: error.to_string() })?;
        let client = Client::builder().tls_backend_preconfigured(tls).connect_timeout(CONNECT);
        let client = client.read_timeout(IDLE).build().map_err(unreachable)?;
        let address = self.address.trim_end_matches('/');
        let url = format!("{address}/{}/resolve/main/{}", model.hub.repository, model.hub.path);
        let mut request = client.get(url);
        if have > 0 {
            request = request.header(RANGE, format!("bytes={have}-"));
        }
        request.send().await.map_err(unreachable)
    }
}

/// Appends the response to the partial file.
async fn receive(
    mut response: Response,
    partial: &Path,
    have: u64,
    model: &KnownModel,
    watch: Watch<'_>,
) -> Result<(), SourceError> {
    let start = match response.status() {
        StatusCode::PARTIAL_CONTENT => have,
        // A server without range requests sends the whole file.
        StatusCode::OK => 0,
        status => return Err(SourceError::HttpStatus { status: status.as_u16() }),
    };
    if let Some(size) = announced(&response, start).filter(|size| *size != model.size) {
        // The partial data belongs to another file.
        let _ = fs::remove_file(partial);
        return Err(SourceError::WrongFile { reason: format!("{size} bytes in place of {}", model.size) });
    }
    let mut file =
        File::options().create(true).append(start > 0).write(true).truncate(start == 0).open(partial)?;
    let mut bytes = start;
    watch(PullEvent::Received { bytes, total: model.size });
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        bytes += chunk.len() as u64;
        if bytes > model.size {
            drop(file);
            fs::remove_file(partial)?;
            return Err(SourceError::WrongFile { reason: format!("more than {} bytes", model.size) });
        }
        file.write_all(&chunk)?;
        watch(PullEvent::Received { bytes, total: model.size });
    }
    match bytes == model.size {
        true => Ok(file.sync_all()?),
        false => {
            Err(SourceError::Unreachable { reason: format!("cut after {bytes} of {} bytes", model.size) })
        }
    }
}

/// The size of the whole file, if a header has it.
fn announced(response: &Response, start: u64) -> Option<u64> {
    let range = response.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
    match range.and_then(|range| range.rsplit('/').next()) {
        Some(total) => total.parse().ok(),
        None => response.content_length().map(|rest| start + rest),
    }
}

fn unreachable(error: reqwest::Error) -> SourceError {
    if error.is_timeout() && !error.is_connect() {
        return SourceError::TimedOut { after: IDLE };
    }
    // The outermost error names the address, the innermost the reason.
    let mut cause: &dyn std::error::Error = &error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    SourceError::Unreachable { reason: cause.to_string() }
}
