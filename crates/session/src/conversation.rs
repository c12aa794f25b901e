//! Conversations read from the log, and their exchange format.

use std::sync::Arc;

use haft_core::{Message, Transcript};
use serde::{Deserialize, Serialize};

use crate::{Entry, EntryBody, Session, SessionKey, SessionStore, StoreError};

/// The number of entries that are read at once.
const PAGE: u32 = 500;

/// The version of the exported format.
const FORMAT: u32 = 1;

/// A session and its conversation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Conversation {
    /// The session.
    pub session: Session,
    /// The messages, without those that a rewind has skipped.
    pub transcript: Transcript,
    /// The positions of the messages.
    positions: Vec<u64>,
}

/// An error of [`Conversation::import`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A line is not what [`Conversation::export`] writes.
    #[error("line {line}: {problem}")]
    InvalidLine {
        /// The number of the line, counted from 1.
        line: usize,
        /// The problem.
        problem: String,
    },
    /// The store failed. Nothing was imported.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A line of an exported conversation.
#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line {
    Session {
        format: u32,
        #[serde(flatten)]
        session: Session,
    },
    Entry(Entry),
}

impl Conversation {
    /// Reads what was written since this conversation was read. The cost does not depend on its
    /// length, unless there was a rewind.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::SessionNotFound`] if the session was deleted.
    pub async fn refresh<S: SessionStore + ?Sized>(
        &mut self,
        store: &S,
        key: &SessionKey,
    ) -> Result<(), StoreError> {
        let session = store.session(key).await?;
        // A session with this id that was created again.
        if session.created_at != self.session.created_at || session.entries < self.session.entries {
            *self = read(store, key).await?;
            return Ok(());
        }
        let entries = match session.entries > self.session.entries {
            true => entries_after(store, key, self.session.entries, u64::MAX).await?,
            false => Vec::new(),
        };
        self.session = session;
        self.push(&entries);
        Ok(())
    }

    /// Appends `entries` to the conversation.
    fn push(&mut self, entries: &[Entry]) {
        for entry in entries {
            match &entry.body {
                EntryBody::Message(message) => {
                    self.positions.push(entry.position);
                    self.transcript.extend([Arc::clone(message)]);
                }
                EntryBody::RewindTo(position) => {
                    let kept = self.positions.partition_point(|at| at <= position);
                    self.positions.truncate(kept);
                    let messages = self.transcript.messages().iter().take(kept).cloned().collect::<Vec<_>>();
                    self.transcript = Transcript::new();
                    self.transcript.extend(messages);
                }
            }
            self.session.entries = self.session.entries.max(entry.position);
        }
    }

    /// Returns the session `key` as JSON Lines: the session, then each entry of its log, with all
    /// data of its messages.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::SessionNotFound`] if there is no session.
    pub async fn export<S: SessionStore + ?Sized>(store: &S, key: &SessionKey) -> Result<String, StoreError> {
        let session = store.session(key).await?;
        let until = session.entries;
        let mut text = line(&Line::Session { format: FORMAT, session })?;
        for entry in entries_after(store, key, 0, until).await? {
            text += &line(&Line::Entry(entry))?;
        }
        Ok(text)
    }

    /// Creates the session `key` from the JSON Lines of [`export`](Self::export).
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::SessionExists`] if there is a session `key`, and with
    /// [`ImportError::InvalidLine`] if a line has another form.
    pub async fn import<S: SessionStore + ?Sized>(
        store: &S,
        key: &SessionKey,
        lines: &str,
    ) -> Result<Session, ImportError> {
        let (mut title, mut expected) = (None, 0);
        let mut entries = Vec::new();
        for (number, text) in (1..).zip(lines.lines()) {
            let invalid = |problem: String| ImportError::InvalidLine { line: number, problem };
            match serde_json::from_str(text).map_err(|error| invalid(error.to_string()))? {
                Line::Session { format, session } if number == 1 && format == FORMAT => {
                    (title, expected) = (session.title, session.entries);
                }
                Line::Session { format, .. } if format != FORMAT => {
                    return Err(invalid(format!("format {format} is not known here, only {FORMAT}")));
                }
                Line::Entry(entry) if number > 1 => entries.push(entry.body),
                _ => {
                    return Err(invalid(
                        "the first line is the session, the others are its entries".to_owned(),
                    ));
                }
            }
        }
        if lines.trim().is_empty() {
            return Err(ImportError::InvalidLine { line: 1, problem: "there is no session".to_owned() });
        }
        let found = entries.len() as u64;
        if found != expected {
            let problem = format!("the session has {expected} entries, and the text has {found}");
            return Err(ImportError::InvalidLine { line: entries.len() + 2, problem });
        }
        Ok(store.create_with(key, title.as_deref(), entries).await?)
    }
}

fn line(line: &Line) -> Result<String, StoreError> {
    let text = serde_json::to_string(line);
    Ok(text.map_err(|error| StoreError::Unreadable { what: "entry", source: error.into() })? + "\n")
}

pub(crate) async fn read<S: SessionStore + ?Sized>(
    store: &S,
    key: &SessionKey,
) -> Result<Conversation, StoreError> {
    let session = store.session(key).await?;
    let entries = entries_after(store, key, 0, u64::MAX).await?;
    let mut conversation = Conversation { session, transcript: Transcript::new(), positions: Vec::new() };
    conversation.push(&entries);
    Ok(conversation)
}

pub(crate) async fn fork<S: SessionStore + ?Sized>(
    store: &S,
    key: &SessionKey,
    until: u64,
    to: &SessionKey,
) -> Result<Session, StoreError> {
    let title = store.session(key).await?.title;
    let entries = entries_after(store, key, 0, until).await?;
    let entries = entries.into_iter().map(|entry| entry.body).collect();
    store.create_with(to, title.as_deref(), entries).await
}

/// Returns the entries after the position `after`, up to the position `until`.
async fn entries_after<S: SessionStore + ?Sized>(
    store: &S,
    key: &SessionKey,
    after: u64,
    until: u64,
) -> Result<Vec<Entry>, StoreError> {
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let after = entries.last().map_or(after, |entry| entry.position);
        let page = store.entries(key, after, PAGE).await?;
        let is_last = page.len() < PAGE as usize || page.last().is_some_and(|entry| entry.position >= until);
        entries.extend(page.into_iter().take_while(|entry| entry.position <= until));
        if is_last {
            return Ok(entries);
        }
    }
}

/// Returns the messages of `entries`, without those that a rewind skips.
pub(crate) fn transcript(entries: &[Entry]) -> Transcript {
    let mut messages: Vec<(u64, &Arc<Message>)> = Vec::new();
    for entry in entries {
        match &entry.body {
            EntryBody::Message(message) => messages.push((entry.position, message)),
            EntryBody::RewindTo(position) => messages.retain(|(at, _)| at <= position),
        }
    }
    let mut transcript = Transcript::new();
    transcript.extend(messages.into_iter().map(|(_, message)| Arc::clone(message)));
    transcript
}
