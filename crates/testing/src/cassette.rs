//! Conversations with a real model, recorded once and replayed in tests.

mod difference;
mod exchange;
mod failure;
mod layout;
mod mode;
mod model;
mod profile;
mod redaction;
mod request;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde_json::{Map, Value};

pub use mode::{CassetteMode, UnknownMode};
pub use model::{CassetteMismatch, CassetteModel};

use exchange::Exchange;
use profile::RecordedProfile;

use haft_core::call::BoxError;

/// What a program asked a model, and what the model said: as text that a person can read and review.
///
/// A [`CassetteModel`] records one and replays it. As text it is JSON, laid out for the eye: each request says what is new in it,
/// and each event of a reply is a line. What the program's requests hold that means nothing to a model is left out: when a message was
/// made, how long a call took, what the host noted. Ids of calls are numbered as they come. No key is in it, since a
/// request at this level has none; what else must not be written down is for [`CassetteModel::redacting`].
///
/// Where a result is too long for the model, what is told of it holds a handle, which is another one in each process: a conversation with such a
/// result is recorded and replayed with [`MemoryResultStore::with_numbered_handles`](haft_core::pipeline::MemoryResultStore::with_numbered_handles).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cassette {
    profile: Option<RecordedProfile>,
    exchanges: Vec<Exchange>,
}

/// A cassette cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CassetteError {
    /// It is not the text of a cassette.
    #[error("this is no cassette: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// A newer version of haft wrote it.
    #[error(
        "cassette format {version} is newer than {}, which is the newest that is known here: read it with the version of haft that wrote it, or record it anew",
        Cassette::VERSION
    )]
    Newer {
        /// Its version.
        version: u32,
    },
    /// An exchange refers to one that is not before it.
    #[error("exchange {exchange} goes on from exchange {follows}, which is not before it")]
    OutOfOrder {
        /// Which, from 1.
        exchange: usize,
        /// What it refers to.
        follows: usize,
    },
    /// There is none to replay.
    #[error("nothing is recorded yet: record it with {}=record", CassetteMode::VARIABLE)]
    Missing,
    /// The model that was to be recorded cannot be made.
    #[error("the model cannot be made")]
    Model(#[source] BoxError),
}

/// The text of a cassette.
#[derive(Deserialize)]
struct Form {
    haft_cassette: u32,
    #[serde(default)]
    model: Option<Value>,
    #[serde(default)]
    exchanges: Vec<Value>,
}

impl Cassette {
    /// The version of the form that this build writes.
    pub const VERSION: u32 = 1;

    /// Makes an empty cassette.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many requests were recorded.
    pub fn len(&self) -> usize {
        self.exchanges.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.exchanges.is_empty()
    }
}

/// Reads the text of a cassette.
impl FromStr for Cassette {
    type Err = CassetteError;

    fn from_str(text: &str) -> Result<Self, CassetteError> {
        let Form { haft_cassette: version, model, exchanges } = serde_json::from_str(text)?;
        // Another version may have another shape: nothing else is read before the version is known.
        if version > Self::VERSION {
            return Err(CassetteError::Newer { version });
        }
        let mut read: Vec<Exchange> = Vec::new();
        for (number, form) in (1..).zip(exchanges) {
            let mut exchange: Exchange = serde_json::from_value(form)?;
            if let Some(follows) = exchange.follows.take() {
                let earlier = follows.checked_sub(1).and_then(|at| read.get(at));
                let earlier = earlier.ok_or(CassetteError::OutOfOrder { exchange: number, follows })?;
                exchange.request = request::after(&earlier.request, exchange.request);
            }
            read.push(exchange);
        }
        let profile = model.map(serde_json::from_value).transpose()?;
        Ok(Self { profile, exchanges: read })
    }
}

/// Writes the text of a cassette.
impl fmt::Display for Cassette {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut written = Vec::new();
        for (at, exchange) in self.exchanges.iter().enumerate() {
            let mut exchange = exchange.clone();
            let before = self.exchanges.get(..at).unwrap_or_default();
            if let Some((number, new)) = request::news(before.iter().map(|it| &it.request), &exchange.request)
            {
                (exchange.follows, exchange.request) = (Some(number), new);
            }
            written.push(serde_json::to_value(exchange).map_err(|_| fmt::Error)?);
        }
        let form = Map::from_iter([
            ("haft_cassette".to_owned(), Value::from(Self::VERSION)),
            ("model".to_owned(), serde_json::to_value(&self.profile).map_err(|_| fmt::Error)?),
            ("exchanges".to_owned(), Value::Array(written)),
        ]);
        layout::write(&Value::Object(form), f)
    }
}
