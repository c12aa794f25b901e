use std::io;

use reqwest::Url;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// The path of the redirect.
const PATH: &str = "/callback";
/// The maximum length of the first line of a request, in bytes.
const MAX_REQUEST_BYTES: usize = 16 << 10;
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

    /// Waits for the redirect. Returns its URL with the parameters of the response. Other requests,
    /// such as for an icon, get status 404.
    pub(super) async fn redirect(&self) -> io::Result<Url> {
        loop {
            let (mut stream, _) = self.listener.accept().await?;
            // A browser may open connections that it does not use, so a failure is no error.
            let Ok(target) = read_target(&mut stream).await else { continue };
            let url = Url::parse(&self.redirect_uri).ok().and_then(|base| base.join(&target).ok());
            match url.filter(|url| url.path() == PATH && url.query().is_some()) {
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

/// Returns the error in the redirect `url` (RFC 6749, section 4.1.2.1).
pub(super) fn error(url: &Url) -> Option<String> {
    let parameter =
        |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    let error = parameter("error")?;
    Some(match parameter("error_description") {
        Some(description) => format!("{error}: {description}"),
        None => error,
    })
}
