//! Documents from a URL or a file.

use std::{fs::File, io::Read as _, path::Path, time::Duration};

use haft_core::text::ErrorChain;
use reqwest::{
    Client, Method, Request, Url,
    header::{ACCEPT, HeaderValue},
};
use tokio::time::timeout;

use crate::{
    OpenApiError,
    http::{self, HttpError},
    request::display_url,
};

/// Fetches the text of the document at `url`. Sends no credentials.
pub(crate) async fn fetch(
    client: &Client,
    url: &Url,
    max_bytes: usize,
    limit: Duration,
) -> Result<String, OpenApiError> {
    let fault = |reason: String| OpenApiError::Unreadable { location: display_url(url), reason };
    let mut request = Request::new(Method::GET, url.clone());
    let accept = HeaderValue::from_static("application/json, application/yaml, */*;q=0.5");
    request.headers_mut().insert(ACCEPT, accept);
    let response = match timeout(limit, http::send(client, request, max_bytes)).await {
        Err(_) => return Err(fault(format!("no response within {limit:?}"))),
        Ok(Err(HttpError::InvalidResponse(reason))) => return Err(fault(reason)),
        Ok(Err(error)) => return Err(fault(ErrorChain(&error).to_string())),
        Ok(Ok(response)) => response,
    };
    if !response.status.is_success() {
        return Err(fault(format!("HTTP {}", response.status)));
    }
    decode(response.body).map_err(fault)
}

/// Reads the text of the document at `path`.
pub(crate) fn read(path: &Path, max_bytes: usize) -> Result<String, OpenApiError> {
    let fault = |reason: String| OpenApiError::Unreadable { location: path.display().to_string(), reason };
    let mut file = File::open(path).map_err(|error| fault(error.to_string()))?;
    let limit = u64::try_from(max_bytes).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    (&mut file).take(limit).read_to_end(&mut bytes).map_err(|error| fault(error.to_string()))?;
    if bytes.len() > max_bytes {
        return Err(OpenApiError::TooLarge { limit: max_bytes });
    }
    decode(bytes).map_err(fault)
}

/// Decodes the text of a document.
fn decode(bytes: Vec<u8>) -> Result<String, String> {
    let encoding = match bytes.as_slice() {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "it is UTF-16: save it as UTF-8",
        _ => "it is not UTF-8",
    };
    String::from_utf8(bytes).map_err(|_| encoding.to_owned())
}
