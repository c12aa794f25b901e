//! A scripted model server on the loopback interface, with the faults of real servers.

mod anthropic;
mod chat_completions;
mod connection;
mod error_reply;
mod gemini;
mod interactions;
mod reply;
mod requirement;
mod responses;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use serde_json::Value;

pub use error_reply::{ErrorKind, ErrorPlace, Gateway};
pub use reply::{Fault, Reply};
pub use requirement::Requirement;

use connection::Request;

/// A scripted server of the Chat Completions API, the Responses API, Anthropic's Messages API, and
/// Gemini's `generateContent` and Interactions on the loopback interface. The path of a request
/// selects the API.
///
/// Each HTTP request receives the next [`Reply`] of the script, streamed if its body contains
/// `"stream": true` or its path ends with `:streamGenerateContent`. A [`Fault`] changes how a reply
/// is sent, an [`ErrorKind`] replaces it by an error, and a [`Requirement`] rejects requests as a
/// strict server does. All of them were reported of real servers, so a program that passes its tests
/// with them works with more than one server.
///
/// The server has its own threads and needs no runtime. Dropping it closes its port. An open
/// connection ends when the client closes it.
///
/// # Examples
///
/// ```
/// use std::io::{Read, Write};
/// use haft_testing::model_server::{Fault, ModelServer, Reply};
///
/// let server = ModelServer::start([
///     Reply::calls([("call_1", "add", r#"{"x": 17, "y": 25}"#)]).with_fault(Fault::NameInPieces),
///     Reply::text("42"),
/// ])?;
/// // A program would get `server.base_url()` as the base URL of its model.
/// let mut client = std::net::TcpStream::connect(server.base_url().split('/').nth(2).unwrap())?;
/// let body = r#"{"stream": true, "messages": []}"#;
/// write!(client, "POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len())?;
/// let mut response = String::new();
/// client.read_to_string(&mut response)?;
/// assert!(response.contains(r#""name":"a""#) && response.contains(r#""name":"dd""#));
/// assert_eq!(server.requests().len(), 1);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    requirements: Vec<Requirement>,
    state: Mutex<State>,
    request_received: Condvar,
}

#[derive(Default)]
struct State {
    replies: std::vec::IntoIter<Reply>,
    requests: Vec<Request>,
    is_closed: bool,
}

impl ModelServer {
    /// Starts a server that sends `replies` in order. After the last of them, each HTTP request
    /// receives status 500.
    ///
    /// # Errors
    ///
    /// Returns an error if no port is available.
    pub fn start(replies: impl IntoIterator<Item = Reply>) -> io::Result<Self> {
        Self::with_requirements([], replies)
    }

    /// Starts a server that sends `replies` in order, and rejects each HTTP request that violates
    /// one of `requirements` with status 400. A rejected request consumes no reply.
    ///
    /// # Errors
    ///
    /// Returns an error if no port is available.
    pub fn with_requirements(
        requirements: impl IntoIterator<Item = Requirement>,
        replies: impl IntoIterator<Item = Reply>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let replies: Vec<_> = replies.into_iter().collect();
        let state = State { replies: replies.into_iter(), ..State::default() };
        let shared = Arc::new(Shared {
            requirements: requirements.into_iter().collect(),
            state: Mutex::new(state),
            request_received: Condvar::new(),
        });
        let thread = thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept_connections(&listener, &shared)
        });
        Ok(Self { address, shared, thread: Some(thread) })
    }

    /// Returns the base URL of OpenAI's APIs, such as `http://127.0.0.1:40123/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the scheme, host and port of the server, such as `http://127.0.0.1:40123`: the base
    /// URL for clients of Anthropic and Gemini.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the JSON bodies of the HTTP requests received so far. A request without a JSON body
    /// has the body `null`.
    pub fn requests(&self) -> Vec<Value> {
        self.shared.lock().requests.iter().map(|request| request.body.clone()).collect()
    }

    /// Returns the request line and the headers of each HTTP request received so far. Letters are
    /// in lower case.
    pub fn request_heads(&self) -> Vec<String> {
        self.shared.lock().requests.iter().map(|request| request.head.clone()).collect()
    }

    /// Blocks until the server has received an HTTP request. Returns immediately if it has already
    /// received one.
    pub fn wait_for_request(&self) {
        let state = self.shared.lock();
        drop(self.shared.request_received.wait_while(state, |state| state.requests.is_empty()));
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        // The accept loop reads `is_closed` after it has accepted a connection.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for ModelServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records `request` and returns its reply.
    fn reply_to(&self, request: Request) -> Reply {
        let problem = self.requirements.iter().find_map(|rule| rule.check(&request.body).err());
        let mut state = self.lock();
        state.requests.push(request);
        self.request_received.notify_all();
        if let Some(problem) = problem {
            return Reply::status(400, error_reply::rejection(&problem).to_string());
        }
        state.replies.next().unwrap_or_else(|| Reply::status(500, "the script has no reply for this request"))
    }
}

fn accept_connections(listener: &TcpListener, shared: &Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept() {
        if shared.lock().is_closed {
            return;
        }
        let shared = Arc::clone(shared);
        // An I/O error on a connection ends only the thread of that connection.
        thread::spawn(move || answer_request(&stream, &shared));
    }
}

fn answer_request(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    let request = connection::read_request(stream)?;
    let reply = shared.reply_to(request.clone());
    connection::send(stream, &request, &reply)
}
