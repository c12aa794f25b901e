//! A hub of model files on the loopback.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    sync::mpsc::{self, Receiver},
    thread,
};

/// A hub that answers one request, or says nothing until the client goes away.
pub(crate) struct Hub {
    pub(crate) address: String,
    asked: Receiver<()>,
}

impl Hub {
    pub(crate) fn start(answer: Option<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (note, asked) = mpsc::channel();
        thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(&stream).lines();
            lines.by_ref().find(|line| line.as_ref().is_ok_and(String::is_empty));
            let _ = note.send(());
            match answer {
                Some(answer) => (&stream).write_all(answer.as_bytes()).unwrap(),
                None => lines.for_each(drop),
            }
        });
        Self { address, asked }
    }

    /// Waits until it was asked.
    pub(crate) fn wait_for_request(&self) {
        self.asked.recv().unwrap();
    }
}
