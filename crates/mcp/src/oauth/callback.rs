use std::{io, time::Duration};

use haft_core::text::{truncate_with_ellipsis, without_hidden_chars};
use reqwest::Url;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// The path of the redirect.
const PATH: &str = "/callback";
/// The maximum length of the first line of a request, in bytes.
const MAX_REQUEST_BYTES: usize = 16 << 10;
/// The maximum time for reading a request.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum length of the error of an authorization server, in bytes.
const MAX_ERROR_BYTES: usize = 300;
/// The page that the browser shows after the redirect.
const PAGE: &str = "<!doctype html><title>haft</title><p>You can close this page and return to haft.</p>\n";

/// A listener on the loopback interface that receives the redirect of an authorization (RFC 8252,
/// section 7.3).
pub(super) struct CallbackListener {
    listener: TcpListener,
    redirect_uri: String,
}

impl CallbackListener {
    pub(super) async fn bind() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let redirect_uri = format!("http://{}{PATH}", listener.local_addr()?);
        Ok(Self { listener, redirect_uri })
    }

    pub(super) fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// Waits for the redirect with `state`. Returns its URL with the parameters of the response.
    /// Other requests, such as for an icon or of another program, get status 404.
    pub(super) async fn redirect(&self, state: &str) -> io::Result<Url> {
        loop {
            let (mut stream, _) = self.listener.accept().await?;
            // A browser may open connections that it does not use.
            let Ok(Ok(target)) = timeout(READ_TIMEOUT, read_target(&mut stream)).await else { continue };
            let url = Url::parse(&self.redirect_uri).ok().and_then(|base| base.join(&target).ok());
            let is_redirect =
                |url: &Url| url.path() == PATH && parameter(url, "state").is_some_and(|found| found == state);
            match url.filter(is_redirect) {
                Some(url) => {
                    let _ = respond(&mut stream, "200 OK", PAGE).await;
                    return Ok(url);
                }
                None => drop(respond(&mut stream, "404 Not Found", "").await),
            }
        }
    }
}

/// Reads the target of a GET request: `/callback?code=…`.
async fn read_target(stream: &mut TcpStream) -> io::Result<String> {
    let mut request = Vec::new();
    let mut chunk = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MAX_REQUEST_BYTES {
        match stream.read(&mut chunk).await? {
            0 => break,
            read => request.extend_from_slice(chunk.get(..read).unwrap_or_default()),
        }
    }
    let text = String::from_utf8_lossy(&request);
    let mut words = text.lines().next().unwrap_or_default().split(' ');
    match (words.next(), words.next()) {
        (Some("GET"), Some(target)) if target.starts_with('/') => Ok(target.to_owned()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

async fn respond(stream: &mut TcpStream, status: &str, page: &str) -> io::Result<()> {
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nConnection: close\r\n");
    let text = format!("{head}Content-Length: {}\r\n\r\n{page}", page.len());
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}

/// Returns the query parameter `name` of `url`.
pub(super) fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// Returns the error in the redirect `url` (RFC 6749, section 4.1.2.1).
pub(super) fn error(url: &Url) -> Option<String> {
    let error = parameter(url, "error")?;
    let text = match parameter(url, "error_description") {
        Some(description) => format!("{error}: {description}"),
        None => error,
    };
    Some(truncate_with_ellipsis(&without_hidden_chars(&text), MAX_ERROR_BYTES).into_owned())
}
