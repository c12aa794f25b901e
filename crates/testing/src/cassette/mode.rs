use std::str::FromStr;

/// Whether a real model is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CassetteMode {
    /// Never: what is not recorded is an error. For CI.
    #[default]
    Replay,
    /// Always: everything is recorded anew.
    Record,
    /// Where there is no recording: what is recorded is replayed, what is new is recorded, and what is no longer asked is
    /// forgotten.
    Auto,
}

/// A word that names no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no mode of cassettes: `replay`, `record` and `auto` are")]
pub struct UnknownMode(pub String);

impl CassetteMode {
    /// The variable that chooses the mode.
    pub const VARIABLE: &'static str = "HAFT_CASSETTES";

    /// The mode that the variable `HAFT_CASSETTES` names; [`Replay`](Self::Replay) where it is not set.
    ///
    /// # Errors
    ///
    /// Fails where it names none.
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
