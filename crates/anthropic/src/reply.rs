//! Assembly of replies from blocks, whole or in the events of a stream.

mod citation;
#[cfg(feature = "client")]
mod event;
mod hosted;
#[cfg(feature = "client")]
mod usage;

use haft_core::{
    limits::REPLY_CALLS,
    message::AssistantMessage,
    model::{
        CallPiece, ModelError,
        adapter::{EventSink, Origin, PieceKind, ReplyAccumulator, surrogates::join_surrogates},
    },
};
use serde_json::{Map, Value};

use self::{citation::citation_of, hosted::HostedBlock};
#[cfg(feature = "client")]
use crate::format::kind_of;
use crate::format::{DATA_KEY, SEPARATOR};

#[cfg(feature = "client")]
pub(crate) use event::PAUSE;

/// An accumulator for the blocks of a reply.
#[derive(Debug, Default)]
pub(crate) struct ReplyBuilder {
    accumulator: ReplyAccumulator,
    origin: Origin,
    blocks: Vec<Block>,
    has_stand_ins: bool,
    #[cfg(feature = "client")]
    usage: usage::ReplyUsage,
    #[cfg(feature = "client")]
    stop: event::Stop,
}

/// A block of a reply. Its text is in the message, and `marker` has everything else.
#[derive(Debug, Default)]
struct Block {
    /// The index in the stream. `None` for blocks of a whole reply.
    #[cfg(feature = "client")]
    index: Option<u64>,
    marker: Map<String, Value>,
    /// The place of the text in the text or the reasoning of the reply, in bytes.
    start: usize,
    length: usize,
    /// The received part of the input of a hosted call, as JSON text.
    input: String,
    is_complete: bool,
}

impl Block {
    fn kind(&self) -> &str {
        self.marker.get("type").and_then(Value::as_str).unwrap_or_default()
    }
}

impl ReplyBuilder {
    /// Begins the next block. In a stream, its content follows in deltas. In a whole reply, `block`
    /// is complete.
    fn begin_block(&mut self, mut block: Value, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        if self.blocks.len() >= REPLY_CALLS {
            return Err(ModelError::InvalidResponse(format!("it has more than {REPLY_CALLS} blocks")));
        }
        if self.has_stand_ins {
            join_surrogates(&mut block);
        }
        let Value::Object(mut marker) = block else { return Ok(()) };
        // A history of another program can have its own cache breakpoints. Those of a request move.
        marker.shift_remove("cache_control");
        let place = self.blocks.len();
        let kind = marker.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut take_text = |key: &str| match marker.shift_remove(key) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        match kind.as_str() {
            "text" | "thinking" => {
                let text = take_text(if kind == "text" { "text" } else { "thinking" });
                self.blocks.push(Block { marker, ..Block::default() });
                self.add_text(place, text, sink)
            }
            "tool_use" => {
                let (id, name) = (take_text("id"), take_text("name"));
                let input = marker.shift_remove("input").filter(|input| *input != Value::Object(Map::new()));
                self.blocks.push(Block { marker, ..Block::default() });
                let arguments = input.filter(|input| !input.is_null()).map(|input| input.to_string());
                let piece = CallPiece {
                    id: Some(id).filter(|id| !id.is_empty()),
                    name: Some(name).filter(|name| !name.is_empty()),
                    ..call_piece(place, arguments.unwrap_or_default())
                };
                self.accumulator.add_call(piece, None, PieceKind::Item, sink)
            }
            _ => {
                self.accumulator.try_add_size(Value::Object(marker.clone()).to_string().len())?;
                self.blocks.push(Block { marker, ..Block::default() });
                Ok(())
            }
        }
    }

    /// Adds `delta` to the block at `place`. Unknown deltas are ignored.
    #[cfg(feature = "client")]
    fn add_delta(
        &mut self,
        place: usize,
        mut delta: Value,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        let kind = kind_of(&delta).to_owned();
        let mut take = |key: &str| delta.get_mut(key).map(Value::take).unwrap_or_default();
        let text = |value: Value| if let Value::String(text) = value { text } else { String::new() };
        match kind.as_str() {
            "text_delta" => self.add_text(place, text(take("text")), sink),
            "thinking_delta" => self.add_text(place, text(take("thinking")), sink),
            "signature_delta" => self.add_to_marker(place, "signature", take("signature")),
            "citations_delta" => self.add_to_marker(place, "citations", Value::Array(vec![take("citation")])),
            "input_json_delta" => self.add_input(place, text(take("partial_json")), sink),
            _ => Ok(()),
        }
    }

    /// Adds a piece of the text of a text block, or of the thinking of a thinking block.
    fn add_text(&mut self, place: usize, text: String, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        let Some((before, rest)) = self.blocks.split_at_mut_checked(place) else { return Ok(()) };
        let Some(block) = rest.first_mut().filter(|_| !text.is_empty()) else { return Ok(()) };
        let is_thinking = block.kind() == "thinking";
        let follows_text = before.iter().rfind(|it| it.kind() != "text" || it.length > 0);
        let is_direct = !is_thinking && follows_text.is_some_and(|it| it.kind() == "text");
        let accumulator = &mut self.accumulator;
        let position =
            |it: &ReplyAccumulator| if is_thinking { it.reasoning().len() } else { it.text().len() };
        let mut add = |accumulator: &mut ReplyAccumulator, text: String| {
            if is_thinking { accumulator.add_reasoning(text, sink) } else { accumulator.add_text(text, sink) }
        };
        if block.length == 0 {
            if position(accumulator) > 0 && !is_direct {
                add(accumulator, SEPARATOR.to_owned())?;
            }
            block.start = position(accumulator);
        }
        add(accumulator, text)?;
        block.length = position(accumulator).saturating_sub(block.start);
        Ok(())
    }

    /// Appends `value`, a string or a list, to the field `key` of the block at `place`.
    #[cfg(feature = "client")]
    fn add_to_marker(&mut self, place: usize, key: &str, mut value: Value) -> Result<(), ModelError> {
        if self.has_stand_ins {
            join_surrogates(&mut value);
        }
        self.accumulator.try_add_size(value.to_string().len())?;
        let Some(block) = self.blocks.get_mut(place) else { return Ok(()) };
        match (block.marker.entry(key).or_insert(Value::Null), value) {
            (Value::String(text), Value::String(more)) => text.push_str(&more),
            (Value::Array(list), Value::Array(more)) => list.extend(more),
            (other, value) => *other = value,
        }
        Ok(())
    }

    /// Adds a piece of the input of a call.
    #[cfg(feature = "client")]
    fn add_input(&mut self, place: usize, text: String, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        let Some(block) = self.blocks.get_mut(place) else { return Ok(()) };
        if block.kind() == "tool_use" {
            let piece = call_piece(place, text);
            return self.accumulator.add_call(piece, None, PieceKind::Item, sink);
        }
        block.input.push_str(&text);
        self.accumulator.try_add_size(text.len())
    }

    /// Ends the block at `place`: adds its citations, or its call of a hosted tool.
    fn end_block(&mut self, place: usize, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        let Some(block) = self.blocks.get_mut(place).filter(|block| !block.is_complete) else {
            return Ok(());
        };
        block.is_complete = true;
        if block.kind() == "text" {
            let range = block.start..block.start.saturating_add(block.length);
            let citations = block.marker.get("citations").and_then(Value::as_array).into_iter().flatten();
            for citation in citations.filter_map(|citation| citation_of(citation, range.clone())) {
                self.accumulator.add_citation(citation)?;
            }
            return Ok(());
        }
        if !block.input.is_empty() {
            let input = serde_json::from_str(&std::mem::take(&mut block.input));
            block.marker.insert("input".to_owned(), input.unwrap_or_else(|_| Value::Object(Map::new())));
        }
        match HostedBlock::of(&block.marker, self.accumulator.hosted_calls()) {
            Some(HostedBlock::Call(call)) => self.accumulator.start_hosted_call(call, sink),
            Some(HostedBlock::Result(call)) => self.accumulator.finish_hosted_call(call, sink),
            None => Ok(()),
        }
    }

    /// Stores the blocks in the provider data, unless they are a text and then calls.
    fn store_blocks(&mut self, keeps_open_calls: bool) {
        let is_plain = |(place, block): (usize, &Block)| match block.kind() {
            "text" => place == 0 && block.marker.get("citations").is_none_or(is_empty_value),
            "tool_use" => block.marker.len() == 1,
            _ => false,
        };
        let filled = || self.blocks.iter().filter(|block| block.kind() != "text" || block.length > 0);
        if filled().enumerate().all(is_plain) {
            return;
        }
        let results: Vec<_> =
            self.blocks.iter().filter_map(|block| block.marker.get("tool_use_id")?.as_str()).collect();
        let is_answered = |block: &&Block| {
            let is_call = matches!(block.kind(), "server_tool_use" | "mcp_tool_use");
            let id = block.marker.get("id").and_then(Value::as_str).unwrap_or_default();
            keeps_open_calls || !is_call || results.contains(&id)
        };
        let markers = self
            .blocks
            .iter()
            .enumerate()
            .filter(|(_, block)| (block.kind() != "text" || block.length > 0) && is_answered(block));
        let markers =
            markers.map(|(place, block)| block.marker(self.accumulator.calls.id_of(index_of(place))));
        let data = Map::from_iter([("blocks".to_owned(), markers.collect())]);
        self.accumulator.provider_data.insert(DATA_KEY, self.origin.add_to(data));
    }

    /// Reads `blocks`, the content of an assistant message.
    pub(crate) fn read_blocks(blocks: &[Value]) -> Result<AssistantMessage, ModelError> {
        let mut reply = Self::default();
        for block in blocks {
            reply.add_whole_block(block.clone(), &mut None)?;
        }
        reply.accumulator.flush(&mut None)?;
        reply.store_blocks(false);
        Ok(reply.accumulator.into_message())
    }

    fn add_whole_block(&mut self, block: Value, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        let place = self.blocks.len();
        self.begin_block(block, sink)?;
        self.end_block(place, sink)
    }
}

impl Block {
    /// Returns the JSON value that stands for the block in the provider data. `call` is the id of its
    /// call, if it has one.
    fn marker(&self, call: Option<&str>) -> Value {
        let mut marker = self.marker.clone();
        marker.retain(|key, value| key != "citations" || !is_empty_value(value));
        // The API sends the id of a file with a citation, and does not accept it in a request.
        let citations = marker.get_mut("citations").and_then(Value::as_array_mut);
        for citation in citations.into_iter().flatten().filter_map(Value::as_object_mut) {
            citation.shift_remove("file_id");
        }
        match self.kind() {
            "text" | "thinking" => drop(marker.insert("length".to_owned(), self.length.into())),
            "tool_use" => drop(marker.insert("id".to_owned(), call.into())),
            _ => {}
        }
        Value::Object(marker)
    }
}

fn is_empty_value(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

fn index_of(place: usize) -> i64 {
    place.try_into().unwrap_or(i64::MAX)
}

fn call_piece(place: usize, arguments: String) -> CallPiece {
    CallPiece { index: Some(index_of(place)), arguments, ..CallPiece::default() }
}
