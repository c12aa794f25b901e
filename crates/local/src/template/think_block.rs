//! The reasoning block of a model, such as `<think>…</think>`, in a chat template.

use haft_core::text::{CLOSE_TAG, OPEN_TAG};

use super::outside_text::MARKER_CLOSE;

/// The tags around the reasoning of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThinkTags {
    pub(crate) open: &'static str,
    /// The whitespace between the opening tag and the reasoning.
    pub(crate) space: &'static str,
    pub(crate) close: &'static str,
}

/// The end of a prompt, as far as the reasoning block of the reply is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThinkBlock {
    /// The prompt contains no part of the block. The model may open it.
    Absent,
    /// The prompt ends with the opening tag, so the reply begins with reasoning.
    Open,
    /// The prompt contains the whole block, so that the model replies without reasoning.
    Closed,
}

impl ThinkTags {
    /// The tags of Qwen3, SmolLM3 and most other families.
    const XML: Self = Self { open: OPEN_TAG, space: "\n", close: CLOSE_TAG };
    /// The tags of Mistral's reasoning models.
    const BRACKETS: Self = Self { open: "[THINK]", space: "", close: "[/THINK]" };

    /// Returns the tags in the chat template `source`, or `None` if the template has no reasoning
    /// block.
    pub(super) fn detect(source: &str) -> Option<Self> {
        [Self::XML, Self::BRACKETS].into_iter().find(|tags| source.contains(tags.close))
    }

    /// Returns the state of the block at the end of `rendered`, the output of the template. Only
    /// markup behind the last untrusted text is considered.
    pub(super) fn block_at_end(&self, rendered: &str) -> ThinkBlock {
        let markup = rendered.rsplit(MARKER_CLOSE).next().unwrap_or_default().trim_end();
        match () {
            () if markup.ends_with(self.open) => ThinkBlock::Open,
            () if markup.ends_with(self.close) => ThinkBlock::Closed,
            () => ThinkBlock::Absent,
        }
    }
}

impl Default for ThinkTags {
    /// Returns `<think>` and `</think>`. Some models write them although their template does not.
    fn default() -> Self {
        Self::XML
    }
}
