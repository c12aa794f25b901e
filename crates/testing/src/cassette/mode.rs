use std::ffi::OsString;
use std::str::FromStr;

/// The mode of a [`CassetteModel`](crate::CassetteModel): replay recorded requests, record all
/// requests, or record only new requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CassetteMode {
    /// Replays recorded requests. Unrecorded requests fail. Use this mode in CI.
    #[default]
    Replay,
    /// Sends every request to the real model and records a new cassette.
    Record,
    /// Replays recorded requests. Sends all other requests to the real model and records them.
    /// Exchanges that no request used are removed from the cassette.
    Auto,
}

/// The error from parsing the name of a [`CassetteMode`]. Contains the invalid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown cassette mode {0:?}: expected `replay`, `record` or `auto`")]
pub struct UnknownMode(pub String);

impl CassetteMode {
    /// The name of the environment variable that selects the mode.
    pub const ENV_VARIABLE: &'static str = "HAFT_CASSETTES";

    /// Reads the mode from the environment variable `HAFT_CASSETTES`. Letter case is ignored.
    /// Returns [`Replay`](Self::Replay) if the variable is unset or empty.
    ///
    /// # Errors
    ///
    /// Returns an error for any value other than `replay`, `record` and `auto`. In the error,
    /// invalid Unicode is replaced with `U+FFFD`.
    pub fn from_env() -> Result<Self, UnknownMode> {
        Self::from_variable(std::env::var_os(Self::ENV_VARIABLE))
    }

    pub(super) fn from_variable(value: Option<OsString>) -> Result<Self, UnknownMode> {
        match value {
            Some(word) if !word.is_empty() => word.to_string_lossy().parse(),
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
