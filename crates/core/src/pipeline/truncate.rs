use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use serde_json::json;

use crate::{
    call::{Outcome, ToolOutput, ToolResult},
    content::{Content, join_texts},
    limits,
    panic_log::log_panic_text,
    pipeline::{ResultStore, ToolList, deadline},
    text::truncate,
    tool::ToolContext,
};

/// The maximum number of content pieces (texts, images, …) in a result, regardless of their size.
const MAX_PIECES: usize = 1_000;

/// The pipeline step that truncates a result if it is too long for the model, and saves the full
/// result in the result store.
///
/// The structured data of a result is never truncated, because the model receives only the text.
pub(super) struct Truncator<'a> {
    /// The maximum length of the text of a result, in bytes.
    pub(super) max_text_bytes: usize,
    /// The store in which the full result is saved.
    pub(super) store: &'a dyn ResultStore,
    /// The context of the call. It determines the owner of a stored result.
    pub(super) cx: &'a ToolContext,
    /// The tools that the caller can use, if known. If one of these tools reads stored results, the
    /// note at the end of a truncated result names it.
    pub(super) tools: Option<&'a ToolList>,
    /// `true` if the result is itself an excerpt of a stored result. An excerpt is not stored
    /// again.
    pub(super) is_excerpt: bool,
}

/// The outcome of storing the full text of a truncated result.
enum StoreOutcome {
    Stored(String),
    StoreFailed,
    /// The full text is in the result store, because this result is itself an excerpt of a stored
    /// result.
    AlreadyStored,
}

impl Truncator<'_> {
    pub(super) async fn truncate(&self, result: &mut ToolResult) {
        if !self.is_within_limits(&result.outcome) {
            self.truncate_outcome(&mut result.outcome).await;
        }
        if result.warnings.iter().map(String::len).sum::<usize>() > self.max_text_bytes {
            let mut warnings = result.warnings.join("; ");
            self.truncate_text(&mut warnings).await;
            result.warnings = vec![warnings];
        }
    }

    fn is_within_limits(&self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Failed(failure) => {
                failure.message.len() <= self.max_text_bytes
                    && failure.output.as_ref().is_none_or(|output| self.is_short(output))
            }
            Outcome::Done(output) => self.is_short(output),
        }
    }

    fn is_short(&self, output: &ToolOutput) -> bool {
        output.content.len() <= MAX_PIECES
            && text_len(output) <= self.max_text_bytes
            && output.content.iter().map(Content::media_len).sum::<usize>() <= limits::RESULT_MEDIA_BYTES
    }

    async fn truncate_outcome(&self, outcome: &mut Outcome) {
        match outcome {
            Outcome::Failed(failure) => {
                if failure.message.len() > self.max_text_bytes {
                    self.truncate_text(&mut failure.message).await;
                }
                if let Some(output) = failure.output.as_mut().filter(|output| !self.is_short(output)) {
                    let full = self.store_full(output).await;
                    self.truncate_output(output, &full);
                }
            }
            Outcome::Done(output) => {
                let full = self.store_full(output).await;
                self.truncate_output(output, &full);
                if let StoreOutcome::Stored(handle) = full {
                    output.result_handle = Some(handle);
                }
            }
        }
    }

    async fn truncate_text(&self, text: &mut String) {
        let full = self.store_full(&ToolOutput::from(text.as_str())).await;
        let bytes = text.len();
        text.truncate(truncate(text, self.max_text_bytes).len());
        let cut = bytes - text.len();
        *text = format!("{text}\n[{cut} of {bytes} bytes are cut; {}]", self.storage_note(&full, Some(text)));
    }

    /// Saves `output` in the store, unless it is an excerpt. If the store fails, panics, exceeds
    /// [`limits::RESULT_STORE_TIMEOUT`] or waits without a tokio timer, the error is logged and
    /// [`StoreOutcome::StoreFailed`] is returned.
    async fn store_full(&self, output: &ToolOutput) -> StoreOutcome {
        if self.is_excerpt {
            return StoreOutcome::AlreadyStored;
        }
        let put = AssertUnwindSafe(async { self.store.put(output, self.cx).await }).catch_unwind();
        let error = match deadline::timeout(limits::RESULT_STORE_TIMEOUT, put).await {
            Ok(Ok(Ok(handle))) => return StoreOutcome::Stored(handle),
            Ok(Ok(Err(error))) => error,
            Ok(Err(panic)) => {
                log_panic_text(&*panic);
                "the `ResultStore` panicked".into()
            }
            Err(error) => format!("{error:?}").into(),
        };
        tracing::error!(error, "a long result cannot be stored");
        StoreOutcome::StoreFailed
    }

    fn truncate_output(&self, output: &mut ToolOutput, full: &StoreOutcome) {
        if output.content.is_empty() {
            output.content = vec![Content::Text { text: output.text().into_owned() }];
        }
        let (pieces, bytes) = (output.content.len(), text_len(output));
        let mut bytes_left = self.max_text_bytes;
        let (mut media_left, mut media_cut) = (limits::RESULT_MEDIA_BYTES, 0);
        let mut content = Vec::new();
        for piece in std::mem::take(&mut output.content).into_iter().take(MAX_PIECES) {
            let piece = match Content::media_len(&piece) {
                media if media > media_left => {
                    media_cut += media;
                    Content::text(piece.as_text())
                }
                media => {
                    media_left -= media;
                    piece
                }
            };
            let text = piece.as_text();
            if text.len() > bytes_left {
                content.push(Content::text(truncate(&text, bytes_left)));
                break;
            }
            bytes_left -= text.len();
            content.push(piece);
        }
        let kept = content.iter().map(|piece| piece.as_text().len()).sum::<usize>();
        let mut notes = Vec::new();
        if kept < bytes || content.len() < pieces {
            notes.push(format!("{} of {bytes} bytes in {pieces} pieces are cut", bytes - kept.min(bytes)));
        }
        if media_cut > 0 {
            notes.push(format!("media of {media_cut} bytes are left out"));
        }
        // The note names a tool that reads stored results only if text was cut. Such a tool returns
        // text, so it cannot return omitted media.
        let visible = (kept < bytes).then(|| join_texts(&content));
        notes.push(self.storage_note(full, visible.as_deref()));
        let note = format!("[{}]", notes.join("; "));
        // If the last piece is text, the note is appended to it, so that an output with one text
        // piece still has one piece.
        match content.last_mut() {
            Some(Content::Text { text }) => *text = format!("{text}\n{note}"),
            _ => content.push(Content::text(note)),
        }
        output.content = content;
    }

    /// Returns a note for the model about the location of the full result. `visible` is the text
    /// left after truncation, or `None` if no text was cut.
    ///
    /// If the full result was just stored, text was cut, and one of the tools reads stored results,
    /// the note contains an example call that reads the rest of the text.
    fn storage_note(&self, full: &StoreOutcome, visible: Option<&str>) -> String {
        let handle = match full {
            StoreOutcome::Stored(handle) => handle,
            StoreOutcome::StoreFailed => return "the whole result could not be stored".to_owned(),
            StoreOutcome::AlreadyStored if visible.is_some() => return "ask for fewer characters".to_owned(),
            StoreOutcome::AlreadyStored => return "the whole result is stored".to_owned(),
        };
        let mut text = format!("the whole result is stored as {handle:?}");
        let mut tools = self.tools.map(ToolList::tools).unwrap_or_default().iter();
        let reader = tools.find(|tool| tool.definition().reads_results());
        if let (Some(visible), Some(reader)) = (visible, reader) {
            let arguments = json!({"handle": handle, "offset": visible.chars().count()});
            text += &format!("; read on with {} {arguments}", reader.definition().name());
        }
        text
    }
}

/// Returns the length of the text that the model receives for `output`, in bytes. A media piece
/// counts as its description, for example `[image/png, 4 bytes]`.
fn text_len(output: &ToolOutput) -> usize {
    match output.content.as_slice() {
        [] => output.text().len(),
        pieces => pieces.iter().map(|piece| piece.as_text().len()).sum(),
    }
}
