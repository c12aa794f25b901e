//! The access token of the user for the Hugging Face hub.

use std::ffi::OsString;
use std::path::PathBuf;
use std::{env, fmt, fs};

use etcetera::BaseStrategy as _;
use reqwest::header::HeaderValue;

/// An access token. Its `Debug` output does not contain it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token(String);

impl Token {
    /// Returns `text` without surrounding white space as a token. Returns `None` if nothing is
    /// left.
    pub(super) fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// Returns the token of the user.
    ///
    /// The order is that of `huggingface_hub`, the client of Hugging Face: `HF_TOKEN`,
    /// `HUGGING_FACE_HUB_TOKEN`, the file in `HF_TOKEN_PATH`, and the file `token` in `HF_HOME` or
    /// in `huggingface` in the user's cache folder. `HF_HUB_DISABLE_IMPLICIT_TOKEN` disables it.
    pub(super) fn of_user() -> Option<Self> {
        let cache = etcetera::choose_base_strategy().ok().map(|strategy| strategy.cache_dir());
        Self::find(&|name| env::var_os(name), cache)
    }

    /// Finds the token with the environment `variable` and the user's `cache` folder.
    pub(super) fn find(variable: &dyn Fn(&str) -> Option<OsString>, cache: Option<PathBuf>) -> Option<Self> {
        let text = |name: &str| variable(name)?.into_string().ok().filter(|text| !text.trim().is_empty());
        let is_disabled = text("HF_HUB_DISABLE_IMPLICIT_TOKEN")
            .is_some_and(|flag| ["1", "ON", "YES", "TRUE"].contains(&flag.to_ascii_uppercase().as_str()));
        if is_disabled {
            return None;
        }
        if let Some(token) = text("HF_TOKEN").or_else(|| text("HUGGING_FACE_HUB_TOKEN")) {
            return Self::new(&token);
        }
        let path = |name: &str| variable(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let home = || path("HF_HOME").or_else(|| Some(cache?.join("huggingface")));
        let file = path("HF_TOKEN_PATH").or_else(|| Some(home()?.join("token")))?;
        Self::new(&fs::read_to_string(file).ok()?)
    }

    /// Returns the value of the header `authorization`, or `None` if the token has characters that
    /// no header can contain.
    pub(super) fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.0)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}
