//! Settings that exist only in Gemini's API.

use serde::Serialize;

/// The amount of thinking before an answer, for Gemini 3 and later. Gemini 2.5 has a
/// [budget](crate::GeminiBuilder::thinking_budget) instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum ThinkingLevel {
    /// As little as possible. Only some models support it.
    Minimal,
    /// Low.
    Low,
    /// Medium.
    Medium,
    /// High.
    High,
    /// Very high. Only some models support it.
    #[serde(rename = "XHIGH")]
    XHigh,
}

/// A category of harmful content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum HarmCategory {
    /// Malicious content about a person.
    #[serde(rename = "HARM_CATEGORY_HARASSMENT")]
    Harassment,
    /// Hate speech.
    #[serde(rename = "HARM_CATEGORY_HATE_SPEECH")]
    HateSpeech,
    /// Sexually explicit content.
    #[serde(rename = "HARM_CATEGORY_SEXUALLY_EXPLICIT")]
    SexuallyExplicit,
    /// Content that promotes dangerous acts.
    #[serde(rename = "HARM_CATEGORY_DANGEROUS_CONTENT")]
    DangerousContent,
    /// Content that harms civic integrity.
    #[serde(rename = "HARM_CATEGORY_CIVIC_INTEGRITY")]
    CivicIntegrity,
}

/// The probability of harm at which the server blocks content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum HarmBlockThreshold {
    /// Content with a low, medium or high probability is blocked.
    BlockLowAndAbove,
    /// Content with a medium or high probability is blocked.
    BlockMediumAndAbove,
    /// Content with a high probability is blocked.
    BlockOnlyHigh,
    /// No content is blocked.
    BlockNone,
    /// The filter is off.
    Off,
}

/// The threshold of a content filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SafetySetting {
    /// The category of the filter.
    pub category: HarmCategory,
    /// The threshold of the filter.
    pub threshold: HarmBlockThreshold,
}

impl ThinkingLevel {
    /// Returns the name in the Interactions API.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
        }
    }
}

impl HarmCategory {
    /// Returns the name in the Interactions API.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Harassment => "harassment",
            Self::HateSpeech => "hate_speech",
            Self::SexuallyExplicit => "sexually_explicit",
            Self::DangerousContent => "dangerous_content",
            Self::CivicIntegrity => "civic_integrity",
        }
    }
}

impl HarmBlockThreshold {
    /// Returns the name in the Interactions API.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::BlockLowAndAbove => "block_low_and_above",
            Self::BlockMediumAndAbove => "block_medium_and_above",
            Self::BlockOnlyHigh => "block_only_high",
            Self::BlockNone => "block_none",
            Self::Off => "off",
        }
    }
}
