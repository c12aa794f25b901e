use crate::{
    Content, Outcome, ResultStore, ToolContext, ToolOutput, ToolResult, content::ResourceBody, deadline,
    limits,
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
                    && output.content.iter().map(media_bytes).sum::<usize>() <= limits::MEDIA_BYTES
            }
        }
    }

    async fn shorten(&self, outcome: &mut Outcome) {
        match outcome {
            Outcome::Failed(failure) => self.cut(&mut failure.message).await,
            Outcome::Done(output) => {
                let handle = self.keep(output).await;
                self.leave_out(output, handle.as_deref());
                output.stored = handle;
            }
        }
    }

    async fn cut(&self, text: &mut String) {
        let handle = self.keep(&ToolOutput::from(text.as_str())).await;
        cut(text, self.limit, handle.as_deref());
    }

    /// Keeps the whole; what cannot be kept is shortened all the same, and says so.
    async fn keep(&self, output: &ToolOutput) -> Option<String> {
        match deadline::within(limits::STORE_TIMEOUT, self.store.put(output, self.cx)).await {
            Ok(Ok(handle)) => Some(handle),
            Ok(Err(error)) => {
                tracing::error!(error, "a long result cannot be stored");
                None
            }
            Err(_ended) => {
                tracing::error!("a long result could not be stored in time");
                None
            }
        }
    }

    fn leave_out(&self, output: &mut ToolOutput, handle: Option<&str>) {
        if output.content.is_empty() {
            output.content = vec![Content::Text { text: output.text().into_owned() }];
        }
        let (pieces, bytes) = (output.content.len(), read_bytes(output));
        let mut left = self.limit;
        let mut media_left = limits::MEDIA_BYTES;
        let mut kept = Vec::new();
        for piece in std::mem::take(&mut output.content).into_iter().take(PIECES) {
            let piece = match media_bytes(&piece) {
                media if media > media_left => Content::text(piece.as_text()),
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
        let mark = format!(
            "[{} of {bytes} bytes in {pieces} pieces are cut; {}]",
            bytes - read.min(bytes),
            whereabouts(handle)
        );
        // One text stays one text, whatever its length.
        match kept.last_mut() {
            Some(Content::Text { text }) => *text = format!("{text}\n{mark}"),
            _ => kept.push(Content::text(mark)),
        }
        output.content = kept;
    }
}

/// How many bytes of text a model reads; what is no text counts by the words that stand for it.
fn read_bytes(output: &ToolOutput) -> usize {
    match output.content.as_slice() {
        [] => output.text().len(),
        pieces => pieces.iter().map(|piece| piece.as_text().len()).sum(),
    }
}

/// How many bytes a piece has besides what is read as text.
pub(crate) fn media_bytes(piece: &Content) -> usize {
    match piece {
        Content::Image { data, .. } | Content::Audio { data, .. } | Content::Blob { data, .. } => data.len(),
        Content::Resource { body: ResourceBody::Blob(data), .. } => data.len(),
        _ => 0,
    }
}

fn cut(text: &mut String, limit: usize, handle: Option<&str>) {
    let bytes = text.len();
    text.truncate(start_of(text, limit).len());
    let mark = format!("\n[{} of {bytes} bytes are cut; {}]", bytes - text.len(), whereabouts(handle));
    text.push_str(&mark);
}

/// At most this many bytes of a text, up to a whole character.
fn start_of(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}

fn whereabouts(handle: Option<&str>) -> String {
    match handle {
        Some(handle) => format!("the whole result is stored as {handle:?}"),
        None => "the whole result could not be stored".to_owned(),
    }
}
