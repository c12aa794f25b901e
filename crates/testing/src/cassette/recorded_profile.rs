use serde::{Deserialize, Serialize};

use haft_core::model::ModelProfile;

/// The [`ModelProfile`] of the recorded model. A replay returns the same profile, because the
/// requests of an agent depend on it.
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

// Both conversions name every field, so a new field of `ModelProfile` causes a compile error here.
impl From<&ModelProfile> for RecordedProfile {
    fn from(profile: &ModelProfile) -> Self {
        let ModelProfile {
            name,
            supports_native_tools: native_tools,
            supports_json_schema: json_schema,
            supports_images: images,
            supports_audio: audio,
            supports_files: files,
            context_window,
        } = profile.clone();
        Self { name, native_tools, json_schema, images, audio, files, context_window }
    }
}

impl From<RecordedProfile> for ModelProfile {
    fn from(profile: RecordedProfile) -> Self {
        let RecordedProfile { name, native_tools, json_schema, images, audio, files, context_window } =
            profile;
        Self {
            name,
            supports_native_tools: native_tools,
            supports_json_schema: json_schema,
            supports_images: images,
            supports_audio: audio,
            supports_files: files,
            context_window,
        }
    }
}
