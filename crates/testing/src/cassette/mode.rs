use std::str::FromStr;

/// The use of the real model: never, always, or for new requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CassetteMode {
    /// Replays only. Unrecorded requests fail. For CI.
    #[default]
    Replay,
    /// Records every request again.
    Record,
    /// Replays recorded requests, records new ones, and removes unused exchanges.
    Auto,
}

/// A text that is not a mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown cassette mode {0:?}: expected `replay`, `record` or `auto`")]
pub struct UnknownMode(pub String);

impl CassetteMode {
    /// Name of the environment variable with the mode.
    pub const VARIABLE: &'static str = "HAFT_CASSETTES";

    /// Reads the mode from the environment variable `HAFT_CASSETTES`. The default is
    /// [`Replay`](Self::Replay).
    ///
    /// # Errors
    ///
    /// Returns an error for any value other than `replay`, `record` and `auto`, in any case.
    pub fn from_env() -> Result<Self, UnknownMode> {
        match std::env::var(Self::VARIABLE) {
            Ok(word) if !word.is_empty() => word.parse(),
            _ => Ok(Self::default()),
        }
    }
}

impl FromStr for CassetteMode {
    type Err = UnknownMode;

    fn from_str(word: &str) -> Result<Self, UnknownMode> {
        match word.to_ascii_lowercase().as_str() {
            "replay" => Ok(Self::Replay),
            "record" => Ok(Self::Record),
            "auto" => Ok(Self::Auto),
            _ => Err(UnknownMode(word.to_owned())),
        }
    }
}
