use serde::{Deserialize, Serialize};

use haft_core::model::ModelProfile;

/// The profile of the recorded model. Requests depend on it, so a replay must report the same one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RecordedProfile {
    name: String,
    native_tools: bool,
    json_schema: bool,
    #[serde(default)]
    images: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    audio: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    files: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    context_window: Option<u64>,
}

// Both conversions list every field, so that a new field fails to compile.
impl From<&ModelProfile> for RecordedProfile {
    fn from(profile: &ModelProfile) -> Self {
        let ModelProfile { name, native_tools, json_schema, images, audio, files, context_window } =
            profile.clone();
        Self { name, native_tools, json_schema, images, audio, files, context_window }
    }
}

impl From<RecordedProfile> for ModelProfile {
    fn from(profile: RecordedProfile) -> Self {
        let RecordedProfile { name, native_tools, json_schema, images, audio, files, context_window } =
            profile;
        Self { name, native_tools, json_schema, images, audio, files, context_window }
    }
}
