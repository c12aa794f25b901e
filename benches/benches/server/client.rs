//! A minimal HTTP client, which shows what happens to a request and its connection.

use std::io::{Error, ErrorKind, Result};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use crate::serve::QUESTION;

/// A connection that is kept open.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    address: String,
}

/// The head of a response.
pub(crate) struct Head {
    pub(crate) status: u16,
    length: usize,
    pub(crate) closes: bool,
}

impl Connection {
    pub(crate) async fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), address: address.to_owned() })
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Value> {
        self.complete("GET", path, "").await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &Value) -> Result<Value> {
        self.complete("POST", path, &body.to_string()).await
    }

    /// Returns the body of a response with the status 200.
    async fn complete(&mut self, method: &str, path: &str, body: &str) -> Result<Value> {
        let head = self.send(method, path, body).await?;
        let body = self.read_body(&head).await?;
        match head.status {
            200 => Ok(serde_json::from_slice(&body)?),
            status => Err(Error::other(format!("{status}: {}", String::from_utf8_lossy(&body)))),
        }
    }

    /// Sends a request, and reads the head of its response.
    pub(crate) async fn send(&mut self, method: &str, path: &str, body: &str) -> Result<Head> {
        let (address, length) = (&self.address, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(request.as_bytes()).await?;
        let status = self.read_line().await?;
        let status = status.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| Error::from(ErrorKind::InvalidData))?;
        let mut head = Head { status, length: 0, closes: false };
        loop {
            let line = self.read_line().await?.to_ascii_lowercase();
            match line.trim().split_once(':') {
                Some(("content-length", length)) => head.length = length.trim().parse().unwrap_or(0),
                Some(("connection", value)) => head.closes = value.trim() == "close",
                Some(_) => {}
                None => return Ok(head),
            }
        }
    }

    pub(crate) async fn read_body(&mut self, head: &Head) -> Result<Vec<u8>> {
        let mut body = vec![0; head.length];
        self.stream.read_exact(&mut body).await?;
        Ok(body)
    }

    /// Reads a line with its end.
    pub(crate) async fn read_line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line).await? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }
}

/// Returns the body of a chat. With a `session`, its conversation continues.
pub(crate) fn question(session: Option<&str>) -> Value {
    let messages = json!([{"role": "user", "content": QUESTION}]);
    match session {
        Some(session) => json!({"messages": messages, "session_id": session, "use_memory": true}),
        None => json!({"messages": messages}),
    }
}

/// Returns the body of a chat with a call of a tool.
pub(crate) fn question_with_tools(session: &str) -> Value {
    let mut body = question(Some(session));
    body["use_tools"] = true.into();
    body
}
