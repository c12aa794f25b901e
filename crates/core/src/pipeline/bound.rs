use crate::{Content, ResultStore, ToolOutput};

/// How many pieces a model reads at most, whatever their size.
const PIECES: usize = 1_000;

/// Shortens what the model reads of an output to `limit` bytes of text, never its structured data. The whole
/// goes to the store. What cannot be stored is not shortened: nothing is lost.
pub(super) async fn bound(mut output: ToolOutput, limit: usize, store: &dyn ResultStore) -> ToolOutput {
    let whole = size(&output);
    if whole <= limit && output.content.len() <= PIECES {
        return output;
    }
    match store.put(&output).await {
        Ok(handle) => {
            if output.content.is_empty() {
                output.content = vec![Content::Text { text: output.text().into_owned() }];
            }
            output.content = shortened(std::mem::take(&mut output.content), limit, whole, &handle);
            output.stored = Some(handle);
        }
        Err(error) => tracing::error!(error, "a long result cannot be stored and is not shortened"),
    }
    output
}

/// How many bytes a model reads of it.
fn size(output: &ToolOutput) -> usize {
    match output.content.as_slice() {
        [] => output.text().len(),
        pieces => pieces.iter().map(read_size).sum(),
    }
}

/// Text counts by its bytes; what else there is counts by the words that stand for it.
fn read_size(piece: &Content) -> usize {
    match piece {
        Content::Text { text } => text.len(),
        other => other.as_text().len(),
    }
}

fn shortened(content: Vec<Content>, limit: usize, whole: usize, handle: &str) -> Vec<Content> {
    let pieces = content.len();
    let mut left = limit;
    let mut kept = Vec::new();
    for piece in content.into_iter().take(PIECES) {
        let size = read_size(&piece);
        if size <= left {
            left -= size;
            kept.push(piece);
            continue;
        }
        let text = piece.as_text();
        let end = text.floor_char_boundary(left);
        left -= end;
        kept.extend(text.get(..end).filter(|start| !start.is_empty()).map(Content::text));
        break;
    }
    let missing = whole - (limit - left);
    kept.push(Content::text(format!(
        "[{missing} of {whole} bytes in {pieces} pieces are cut; the whole result is stored as \"{handle}\"]"
    )));
    kept
}
