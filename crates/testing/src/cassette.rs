//! Recorded conversations with a real model, for replay in tests.

mod difference;
mod exchange;
mod mode;
mod model;
mod recorded_error;
mod redaction;
mod request_delta;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde_json::{Map, Value};

pub use mode::{CassetteMode, UnknownMode};
pub use model::{CassetteMismatch, CassetteModel};

use exchange::Exchange;

use haft_core::{call::BoxError, model::ModelProfile};

/// A recorded conversation with a model: the requests and their replies.
///
/// A [`CassetteModel`] records and replays cassettes. [`Display`](fmt::Display) and [`FromStr`]
/// convert a cassette to and from indented JSON. If a request continues an earlier request, only
/// the differences between them are stored.
///
/// Requests are recorded in their [canonical
/// form](haft_core::model::ChatRequest::to_canonical_json), without timestamps, durations, metadata
/// and provider data. Tool call ids in requests are replaced with numbers in the order of the
/// calls, for example `#1`. Requests contain no API key, because the model implementation adds it
/// later. Remove other secrets with [`CassetteModel::with_redaction`].
///
/// A truncated tool result can end with a random handle, which the model uses to read the full
/// text. The handle differs in each process, so a replayed request with this handle would not match
/// the recorded request. If tool results can be truncated, use
/// [`MemoryResultStore::with_numbered_handles`] in both the recording and the replay.
///
/// [`MemoryResultStore::with_numbered_handles`]:
///     haft_core::pipeline::MemoryResultStore::with_numbered_handles
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cassette {
    profile: Option<ModelProfile>,
    exchanges: Vec<Exchange>,
}

/// An error from parsing a [`Cassette`] or from [`CassetteModel::for_mode`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CassetteError {
    /// The text is not a valid cassette.
    #[error("not a cassette: {0}")]
    InvalidCassette(#[from] serde_json::Error),
    /// The cassette has a newer format than this version of haft supports.
    #[error(
        "cassette format {version} is newer than {}, the newest supported format: use the version of haft that wrote it, or record it again",
        Cassette::VERSION
    )]
    UnsupportedVersion {
        /// The format version of the cassette.
        version: u32,
    },
    /// The `follows` field of an exchange does not refer to an earlier exchange.
    #[error("exchange {exchange} follows exchange {follows}, which is not an earlier one")]
    InvalidFollows {
        /// The number (from 1) of the exchange with the invalid `follows` field.
        exchange: usize,
        /// The invalid value of the `follows` field.
        follows: usize,
    },
    /// The mode is [`CassetteMode::Replay`], but no recorded cassette was passed to
    /// [`CassetteModel::for_mode`].
    #[error("there is no recording: create it with {}=record", CassetteMode::ENV_VARIABLE)]
    MissingCassette,
    /// The function that creates the real model for [`CassetteModel::for_mode`] returned this
    /// error.
    #[error("cannot create the model")]
    CreateModel(#[source] BoxError),
}

/// The JSON object at the top level of a cassette file.
#[derive(Deserialize)]
struct CassetteFile {
    haft_cassette: u32,
    #[serde(default)]
    model: Option<Value>,
    #[serde(default)]
    exchanges: Vec<Value>,
}

impl Cassette {
    /// The version of the cassette format that this version of haft writes. Cassettes with a newer
    /// version are rejected.
    pub const VERSION: u32 = 1;

    /// Creates an empty cassette.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of recorded exchanges. An exchange is a request with its reply.
    pub fn len(&self) -> usize {
        self.exchanges.len()
    }

    /// Returns `true` if the cassette contains no exchanges.
    pub fn is_empty(&self) -> bool {
        self.exchanges.is_empty()
    }
}

/// Parses a cassette from its JSON text.
impl FromStr for Cassette {
    type Err = CassetteError;

    fn from_str(text: &str) -> Result<Self, CassetteError> {
        let CassetteFile { haft_cassette: version, model, exchanges } = serde_json::from_str(text)?;
        // Check the version before parsing the exchanges, because a newer version can have a
        // different format of exchanges.
        if version > Self::VERSION {
            return Err(CassetteError::UnsupportedVersion { version });
        }
        let mut read: Vec<Exchange> = Vec::new();
        for (number, form) in (1..).zip(exchanges) {
            let mut exchange: Exchange = serde_json::from_value(form)?;
            if let Some(follows) = exchange.follows.take() {
                let earlier = follows.checked_sub(1).and_then(|at| read.get(at));
                let earlier = earlier.ok_or(CassetteError::InvalidFollows { exchange: number, follows })?;
                exchange.request = request_delta::apply_delta(&earlier.request, exchange.request);
            }
            read.push(exchange);
        }
        let profile = model.map(serde_json::from_value).transpose()?;
        Ok(Self { profile, exchanges: read })
    }
}

/// Formats the cassette as JSON text that ends with a line break.
impl fmt::Display for Cassette {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut written = Vec::new();
        for (at, exchange) in self.exchanges.iter().enumerate() {
            let mut exchange = exchange.clone();
            let before = self.exchanges.get(..at).unwrap_or_default();
            if let Some((number, new)) =
                request_delta::find_delta(before.iter().map(|it| &it.request), &exchange.request)
            {
                (exchange.follows, exchange.request) = (Some(number), new);
            }
            written.push(serde_json::to_value(exchange).map_err(|_| fmt::Error)?);
        }
        let file = Map::from_iter([
            ("haft_cassette".to_owned(), Value::from(Self::VERSION)),
            ("model".to_owned(), serde_json::to_value(&self.profile).map_err(|_| fmt::Error)?),
            ("exchanges".to_owned(), Value::Array(written)),
        ]);
        let text = serde_json::to_string_pretty(&file).map_err(|_| fmt::Error)?;
        writeln!(f, "{text}")
    }
}
