//! A fake Hugging Face hub on the loopback interface.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    sync::mpsc::{self, Receiver},
    thread,
};

/// An HTTP server that replies to one request. Without a response to send, the server keeps the
/// connection open until the client closes it.
pub(crate) struct Hub {
    pub(crate) address: String,
    requested: Receiver<()>,
}

impl Hub {
    pub(crate) fn start(response: Option<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (sender, requested) = mpsc::channel();
        thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(&stream).lines();
            lines.by_ref().find(|line| line.as_ref().is_ok_and(String::is_empty));
            let _ = sender.send(());
            match response {
                Some(response) => (&stream).write_all(response.as_bytes()).unwrap(),
                None => lines.for_each(drop),
            }
        });
        Self { address, requested }
    }

    /// Blocks until the server has received the HTTP request.
    pub(crate) fn wait_for_request(&self) {
        self.requested.recv().unwrap();
    }
}
