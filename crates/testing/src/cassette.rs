//! Recorded conversations with a real model, for replay in tests.

mod difference;
mod error;
mod exchange;
mod layout;
mod mode;
mod model;
mod profile;
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
use profile::RecordedProfile;

use haft_core::call::BoxError;

/// The recorded requests to a model, and its replies.
///
/// A [`CassetteModel`] records and replays it. The text form is JSON, formatted for review: each
/// request contains only what is new since an earlier one, and each event of a reply is one line.
///
/// Data without meaning for a model is not recorded: timestamps, durations and metadata. Call ids
/// are replaced by numbers in their order. API keys are not part of a request at this level. Other
/// secrets must be removed with [`CassetteModel::redacting`].
///
/// The end of a truncated result contains a random handle, different in each process. To record and
/// replay a conversation with truncated results, number the handles with
/// [`MemoryResultStore::with_numbered_handles`].
///
/// [`MemoryResultStore::with_numbered_handles`]:
///     haft_core::pipeline::MemoryResultStore::with_numbered_handles
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cassette {
    profile: Option<RecordedProfile>,
    exchanges: Vec<Exchange>,
}

/// The error of loading or opening a cassette.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CassetteError {
    /// The text is not a valid cassette.
    #[error("not a cassette: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// A newer version of haft wrote the cassette.
    #[error(
        "cassette format {version} is newer than {}, the newest supported format: use the version of haft that wrote it, or record it again",
        Cassette::VERSION
    )]
    Newer {
        /// The format version of the cassette.
        version: u32,
    },
    /// An exchange refers to itself or to a later exchange.
    #[error("exchange {exchange} follows exchange {follows}, which is not an earlier one")]
    OutOfOrder {
        /// Number of the exchange, from 1.
        exchange: usize,
        /// Number of the exchange it refers to.
        follows: usize,
    },
    /// There is no cassette to replay.
    #[error("there is no recording: create it with {}=record", CassetteMode::VARIABLE)]
    Missing,
    /// The model to record could not be created.
    #[error("cannot create the model")]
    Model(#[source] BoxError),
}

/// The JSON form of a cassette.
#[derive(Deserialize)]
struct CassetteFile {
    haft_cassette: u32,
    #[serde(default)]
    model: Option<Value>,
    #[serde(default)]
    exchanges: Vec<Value>,
}

impl Cassette {
    /// The format version of this build.
    pub const VERSION: u32 = 1;

    /// Creates an empty cassette.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of recorded requests.
    pub fn len(&self) -> usize {
        self.exchanges.len()
    }

    /// Returns `true` if nothing is recorded.
    pub fn is_empty(&self) -> bool {
        self.exchanges.is_empty()
    }
}

/// Parses the text of a cassette.
impl FromStr for Cassette {
    type Err = CassetteError;

    fn from_str(text: &str) -> Result<Self, CassetteError> {
        let CassetteFile { haft_cassette: version, model, exchanges } = serde_json::from_str(text)?;
        // Newer versions may change the structure, so check the version before the exchanges.
        if version > Self::VERSION {
            return Err(CassetteError::Newer { version });
        }
        let mut read: Vec<Exchange> = Vec::new();
        for (number, form) in (1..).zip(exchanges) {
            let mut exchange: Exchange = serde_json::from_value(form)?;
            if let Some(follows) = exchange.follows.take() {
                let earlier = follows.checked_sub(1).and_then(|at| read.get(at));
                let earlier = earlier.ok_or(CassetteError::OutOfOrder { exchange: number, follows })?;
                exchange.request = request_delta::apply(&earlier.request, exchange.request);
            }
            read.push(exchange);
        }
        let profile = model.map(serde_json::from_value).transpose()?;
        Ok(Self { profile, exchanges: read })
    }
}

/// Formats the text of a cassette.
impl fmt::Display for Cassette {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut written = Vec::new();
        for (at, exchange) in self.exchanges.iter().enumerate() {
            let mut exchange = exchange.clone();
            let before = self.exchanges.get(..at).unwrap_or_default();
            if let Some((number, new)) =
                request_delta::delta(before.iter().map(|it| &it.request), &exchange.request)
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
        layout::write(&Value::Object(file), f)
    }
}
