//! Optional parameters that some models reject.

use std::sync::atomic::{AtomicU8, Ordering};

use haft_http::model::RequestError;

/// A set of optional parameters, which are omitted from a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OptionalParams(u8);

impl OptionalParams {
    pub(super) const TEMPERATURE: Self = Self(1);
    pub(super) const TOP_P: Self = Self(2);
    pub(super) const THINKING: Self = Self(4);
    pub(super) const EFFORT: Self = Self(8);

    pub(super) fn has(self, param: Self) -> bool {
        self.0 & param.0 != 0
    }

    /// Returns this set, extended by the parameter that `error` reports as unsupported. `None` if
    /// `error` is about something else, or the parameter is already omitted.
    pub(super) fn with_rejected(self, error: &RequestError) -> Option<Self> {
        const NAMES: [(&str, OptionalParams); 4] = [
            ("temperature", OptionalParams::TEMPERATURE),
            ("top_p", OptionalParams::TOP_P),
            ("thinking", OptionalParams::THINKING),
            ("effort", OptionalParams::EFFORT),
        ];
        let message = error.unsupported()?;
        // The parameter is named first. The rest of the message can recommend another one.
        let named = NAMES.iter().filter(|(_, param)| !self.has(*param));
        let found = named.filter_map(|(name, param)| Some((message.find(name)?, param)));
        found.min_by_key(|(place, _)| *place).map(|(_, param)| Self(self.0 | param.0))
    }
}

/// The parameters that the server has rejected so far.
#[derive(Debug, Default)]
pub(super) struct RejectedParams(AtomicU8);

impl RejectedParams {
    pub(super) fn get(&self) -> OptionalParams {
        OptionalParams(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn add(&self, params: OptionalParams) {
        self.0.fetch_or(params.0, Ordering::Relaxed);
    }
}
