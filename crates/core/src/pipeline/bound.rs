use serde_json::json;

use crate::{
    call::{Outcome, ToolOutput, ToolResult},
    content::{Content, text_of},
    limits,
    pipeline::{ResultStore, ToolList, deadline},
    tool::ToolContext,
};

/// How many pieces a model reads at most, whatever their size.
const PIECES: usize = 1_000;

/// Shortens what a model reads of a result, and keeps the whole. Structured data is for programs: never shortened.
pub(super) struct Bound<'a> {
    /// How many bytes of text are read.
    pub(super) limit: usize,
    /// Where the whole goes.
    pub(super) store: &'a dyn ResultStore,
    /// For whom it is kept.
    pub(super) cx: &'a ToolContext,
    /// What the caller may call, if that is known.
    pub(super) tools: Option<&'a ToolList>,
    /// Whether it is a part of a kept result, which is not kept once more.
    pub(super) is_part: bool,
}

/// What became of the whole.
enum Whole {
    Kept(String),
    Lost,
    /// It is there anyway.
    NotKept,
}

impl Bound<'_> {
    pub(super) async fn apply(&self, result: &mut ToolResult) {
        if !self.fits(&result.outcome) {
            // In a box, since few results are long, and every call would carry the state of keeping one along.
            Box::pin(self.shorten(&mut result.outcome)).await;
        }
        if !self.fit(&result.warnings) {
            let mut warnings = result.warnings.join("; ");
            Box::pin(self.cut(&mut warnings)).await;
            result.warnings = vec![warnings];
        }
    }

    fn fit(&self, warnings: &[String]) -> bool {
        warnings.iter().map(String::len).sum::<usize>() <= self.limit
    }

    fn fits(&self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Failed(failure) => failure.message.len() <= self.limit,
            Outcome::Done(output) => {
                output.content.len() <= PIECES
                    && read_bytes(output) <= self.limit
                    && output.content.iter().map(Content::media_len).sum::<usize>() <= limits::MEDIA_BYTES
            }
        }
    }

    async fn shorten(&self, outcome: &mut Outcome) {
        match outcome {
            Outcome::Failed(failure) => self.cut(&mut failure.message).await,
            Outcome::Done(output) => {
                let whole = self.keep(output).await;
                self.leave_out(output, &whole);
                if let Whole::Kept(handle) = whole {
                    output.stored = Some(handle);
                }
            }
        }
    }

    async fn cut(&self, text: &mut String) {
        let whole = self.keep(&ToolOutput::from(text.as_str())).await;
        let bytes = text.len();
        text.truncate(start_of(text, self.limit).len());
        let left = bytes - text.len();
        *text =
            format!("{text}\n[{left} of {bytes} bytes are cut; {}]", self.whereabouts(&whole, Some(text)));
    }

    /// Keeps the whole; what cannot be kept is shortened all the same, and says so.
    async fn keep(&self, output: &ToolOutput) -> Whole {
        if self.is_part {
            return Whole::NotKept;
        }
        match deadline::within(limits::STORE_TIMEOUT, self.store.put(output, self.cx)).await {
            Ok(Ok(handle)) => Whole::Kept(handle),
            Ok(Err(error)) => {
                tracing::error!(error, "a long result cannot be stored");
                Whole::Lost
            }
            Err(_ended) => {
                tracing::error!("a long result could not be stored in time");
                Whole::Lost
            }
        }
    }

    fn leave_out(&self, output: &mut ToolOutput, whole: &Whole) {
        if output.content.is_empty() {
            output.content = vec![Content::Text { text: output.text().into_owned() }];
        }
        let (pieces, bytes) = (output.content.len(), read_bytes(output));
        let mut left = self.limit;
        let (mut media_left, mut media_cut) = (limits::MEDIA_BYTES, 0);
        let mut kept = Vec::new();
        for piece in std::mem::take(&mut output.content).into_iter().take(PIECES) {
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
            if text.len() > left {
                kept.push(Content::text(start_of(&text, left)));
                break;
            }
            left -= text.len();
            kept.push(piece);
        }
        let read = kept.iter().map(|piece| piece.as_text().len()).sum::<usize>();
        let mut mark = Vec::new();
        if read < bytes || kept.len() < pieces {
            mark.push(format!("{} of {bytes} bytes in {pieces} pieces are cut", bytes - read.min(bytes)));
        }
        if media_cut > 0 {
            mark.push(format!("media of {media_cut} bytes are left out"));
        }
        // Only text can be read on.
        let shown = (read < bytes).then(|| text_of(&kept));
        mark.push(self.whereabouts(whole, shown.as_deref()));
        let mark = format!("[{}]", mark.join("; "));
        // One text stays one text, whatever its length.
        match kept.last_mut() {
            Some(Content::Text { text }) => *text = format!("{text}\n{mark}"),
            _ => kept.push(Content::text(mark)),
        }
        output.content = kept;
    }

    /// Where the whole is, and how the caller reads on after the text that is shown, if there is more of it.
    fn whereabouts(&self, whole: &Whole, shown: Option<&str>) -> String {
        let handle = match whole {
            Whole::Kept(handle) => handle,
            Whole::Lost => return "the whole result could not be stored".to_owned(),
            Whole::NotKept if shown.is_some() => return "ask for fewer characters".to_owned(),
            Whole::NotKept => return "the whole result is stored".to_owned(),
        };
        let mut text = format!("the whole result is stored as {handle:?}");
        let mut tools = self.tools.map(ToolList::tools).unwrap_or_default().iter();
        let reader = tools.find(|tool| tool.definition().reads_results());
        if let (Some(shown), Some(reader)) = (shown, reader) {
            let arguments = json!({"handle": handle, "offset": shown.chars().count()});
            text += &format!("; read on with {} {arguments}", reader.definition().name());
        }
        text
    }
}

/// How many bytes of text a model reads; what is no text counts by the words that stand for it.
fn read_bytes(output: &ToolOutput) -> usize {
    match output.content.as_slice() {
        [] => output.text().len(),
        pieces => pieces.iter().map(|piece| piece.as_text().len()).sum(),
    }
}

/// At most this many bytes of a text, up to a whole character.
fn start_of(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}
