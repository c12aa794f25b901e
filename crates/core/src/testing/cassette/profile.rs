use serde::{Deserialize, Serialize};

use crate::ModelProfile;

/// What the recorded model could do: a program asks another one otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RecordedProfile {
    name: String,
    native_tools: bool,
    json_schema: bool,
    #[serde(default)]
    images: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    context_window: Option<u64>,
}

impl From<&ModelProfile> for RecordedProfile {
    fn from(profile: &ModelProfile) -> Self {
        Self {
            name: profile.name.clone(),
            native_tools: profile.native_tools,
            json_schema: profile.json_schema,
            images: profile.images,
            context_window: profile.context_window,
        }
    }
}

impl From<RecordedProfile> for ModelProfile {
    fn from(profile: RecordedProfile) -> Self {
        Self {
            native_tools: profile.native_tools,
            json_schema: profile.json_schema,
            images: profile.images,
            context_window: profile.context_window,
            ..Self::new(profile.name)
        }
    }
}
