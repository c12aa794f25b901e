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
    /// Returns the session `key` as JSON Lines: the session, then each entry of its log, with all
    /// data of its messages.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::SessionNotFound`] if there is no session.
    pub async fn export<S: SessionStore + ?Sized>(store: &S, key: &SessionKey) -> Result<String, StoreError> {
        let session = store.session(key).await?;
        let mut text = line(&Line::Session { format: FORMAT, session })?;
        for entry in all_entries(store, key, u64::MAX).await? {
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
        let mut title = None;
        let mut entries = Vec::new();
        for (number, text) in (1..).zip(lines.lines()) {
            let invalid = |problem: String| ImportError::InvalidLine { line: number, problem };
            match serde_json::from_str(text).map_err(|error| invalid(error.to_string()))? {
                Line::Session { format, session } if number == 1 && format == FORMAT => title = session.title,
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
    let mut session = store.session(key).await?;
    let entries = all_entries(store, key, u64::MAX).await?;
    session.entries = entries.last().map_or(session.entries, |entry| entry.position);
    Ok(Conversation { session, transcript: transcript(&entries) })
}

pub(crate) async fn fork<S: SessionStore + ?Sized>(
    store: &S,
    key: &SessionKey,
    until: u64,
    to: &SessionKey,
) -> Result<Session, StoreError> {
    let title = store.session(key).await?.title;
    let entries = all_entries(store, key, until).await?;
    let entries = entries.into_iter().map(|entry| entry.body).collect();
    store.create_with(to, title.as_deref(), entries).await
}

/// Returns the entries up to the position `until`.
async fn all_entries<S: SessionStore + ?Sized>(
    store: &S,
    key: &SessionKey,
    until: u64,
) -> Result<Vec<Entry>, StoreError> {
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let after = entries.last().map_or(0, |entry| entry.position);
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
