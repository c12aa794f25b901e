#![doc = include_str!("../README.md")]

#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod blobs;
pub mod conformance;
mod conversation;
mod error;
mod key;
pub mod log;
pub mod run;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod sql;
mod store;

pub use conversation::{Conversation, ImportError};
pub use error::StoreError;
pub use key::{InvalidId, SessionKey};
pub use log::{Append, Entry, EntryBody, Session};
pub use run::{Lease, NewRun, RequestKey, RunStatus, RunSummary, RunUpdate, StoredRun};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use sql::SqlStore;
pub use store::{Retention, SearchHit, SessionStore, StoredEvent, ToolStats};
