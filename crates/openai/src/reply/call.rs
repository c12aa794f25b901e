use std::mem::take;

use haft_core::{
    ToolCall,
    limits::{ARGUMENT_BYTES, REPLY_ITEMS},
    model::{ChatEvent, ModelError},
};
use serde::de::IgnoredAny;
use serde_json::Map;
use serde_json::Value;

use super::accumulator::EventSink;
use crate::wire::{SurrogateJoiner, WireCall};

/// Builds the calls of a reply from pieces.
#[derive(Debug, Default)]
pub(super) struct Calls {
    all: Vec<Call>,
    /// Set if the current pieces contain stand-ins for lone surrogates.
    is_mended: bool,
}

#[derive(Debug, Default)]
struct Call {
    /// The `index` of the call in the stream.
    index: Option<i64>,
    wire_id: Option<String>,
    /// A generated id, if the server's is missing or a duplicate.
    made_id: Option<String>,
    name: String,
    arguments: String,
    joiner: SurrogateJoiner,
    /// Set while arguments `{}` are held back, which may be a placeholder.
    is_held: bool,
    /// Data to send back with the call, such as Gemini's signature.
    extra: Option<Value>,
}

/// A piece of a call.
#[derive(Default)]
struct Piece {
    index: Option<i64>,
    id: Option<String>,
    name: Option<String>,
    arguments: String,
    extra: Option<Value>,
}

impl From<WireCall> for Piece {
    fn from(wire: WireCall) -> Self {
        let function = wire.function.unwrap_or_default();
        Self {
            index: wire.index.to_number(),
            id: wire.id.into_filled(),
            name: function.name.into_filled(),
            arguments: function.arguments.into_text().unwrap_or_default(),
            extra: wire.extra_content.map(|extra| *extra).filter(|extra| !extra.is_null()),
        }
    }
}

impl Piece {
    fn of_arguments(arguments: String) -> Self {
        Self { arguments, ..Self::default() }
    }
}

impl Calls {
    /// Adds a piece to its call, or begins a call. Returns the stored bytes. In a whole reply each
    /// piece is a call.
    pub(super) fn add(
        &mut self,
        wire: WireCall,
        whole: bool,
        sink: &mut EventSink<'_>,
    ) -> Result<usize, ModelError> {
        self.add_piece(Piece::from(wire), whole, sink)
    }

    fn add_piece(
        &mut self,
        mut piece: Piece,
        whole: bool,
        sink: &mut EventSink<'_>,
    ) -> Result<usize, ModelError> {
        let calls = self.all.len();
        let mut text = piece.extra.as_ref().map_or(0, |extra| extra.to_string().len());
        let place = if whole { None } else { self.place_of(&piece) };
        let place = place.unwrap_or_else(|| self.begin(&mut piece));
        if place >= REPLY_ITEMS {
            return Err(ModelError::InvalidResponse(format!("it has more than {REPLY_ITEMS} calls")));
        }
        if let Some(call) = self.all.get_mut(place) {
            call.index = call.index.or(piece.index);
            piece.arguments = call.joiner.join(piece.arguments, self.is_mended);
            call.prepare(&mut piece);
            // Repeated arguments were cleared.
            text += piece.arguments.len();
            call.extend(piece, place, sink)?;
        }
        Ok(text + (self.all.len() - calls) * size_of::<Call>())
    }

    /// The call of a piece: by index, else by id, else the last one.
    fn place_of(&self, piece: &Piece) -> Option<usize> {
        let last = self.all.len().checked_sub(1)?;
        let place = match (piece.index, &piece.id) {
            (Some(_), _) => {
                let known = self.all.iter().rposition(|call| call.index == piece.index);
                // Some servers send the index only from the second piece on.
                let is_open = |call: &Call| call.index.is_none() && piece.name.is_none();
                known.or_else(|| self.all.get(last).is_some_and(is_open).then_some(last))?
            }
            (None, Some(id)) => {
                self.all.iter().rposition(|call| call.wire_id.as_ref() == Some(id)).unwrap_or(last)
            }
            (None, None) => last,
        };
        self.all.get(place).is_some_and(|call| !call.is_followed_by(piece)).then_some(place)
    }

    fn begin(&mut self, piece: &mut Piece) -> usize {
        let index = piece.index;
        let wire_id = piece.id.take();
        let is_unique = |id: &String| self.all.iter().all(|call| call.id() != id);
        let made_id = (!wire_id.as_ref().is_some_and(is_unique)).then(made_id);
        self.all.push(Call { index, wire_id, made_id, ..Call::default() });
        self.all.len() - 1
    }

    /// Sets whether the current pieces contain stand-ins for lone surrogates.
    pub(super) fn expect_surrogates(&mut self, whether: bool) {
        self.is_mended = whether;
    }

    /// Ends the arguments of all calls and emits what was held back.
    pub(super) fn end(&mut self, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        for (index, call) in (0..).zip(&mut self.all) {
            if let Some(rest) = call.joiner.end() {
                call.extend(Piece::of_arguments(rest), index, sink)?;
            }
            if let Some(events) = sink.as_mut().filter(|_| call.is_held) {
                events.push_back(ChatEvent::ToolCallDelta { index, arguments: call.arguments.clone() });
            }
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The name of the first call with incomplete arguments.
    pub(super) fn cut(&self) -> Option<&str> {
        self.all.iter().find(|call| !is_complete(&call.arguments)).map(|call| call.name.as_str())
    }

    /// The name of the call in which the reply was stopped. A last call without arguments counts.
    pub(super) fn stopped(&self) -> Option<&str> {
        let last = self.all.last().filter(|call| call.arguments.trim().is_empty() && !call.is_blank());
        last.map(|call| call.name.as_str()).or_else(|| self.cut())
    }

    /// The extra data of the calls, by id.
    pub(super) fn extras(&self) -> Map<String, Value> {
        let extra = |call: &Call| call.extra.clone().map(|extra| (call.id().to_owned(), extra));
        self.all.iter().filter_map(extra).collect()
    }

    /// Replaces the arguments of a call by the final ones and emits the difference.
    pub(super) fn settle(&mut self, wire: WireCall, sink: &mut EventSink<'_>) -> Result<usize, ModelError> {
        let mut piece = Piece::from(wire);
        let known = self.all.iter_mut().find(|call| call.index == piece.index);
        if let Some(call) = known {
            call.joiner.reset();
            match piece.arguments.strip_prefix(&call.arguments) {
                Some(rest) => piece.arguments = rest.to_owned(),
                None => call.arguments.clear(),
            }
            // The index identifies the call. Some servers send another id at its end: the first one
            // stays.
            piece.id = None;
            piece.name = piece.name.filter(|_| call.name.is_empty());
        }
        self.add_piece(piece, false, sink)
    }

    /// The id of the call with an index.
    pub(super) fn id_of(&self, index: i64) -> Option<&str> {
        self.all.iter().find(|call| call.index == Some(index)).map(Call::id)
    }

    pub(super) fn into_calls(self) -> Vec<ToolCall> {
        let calls = self.all.into_iter().filter(|call| !call.is_blank()).map(Call::into_call);
        // A new allocation: the pieces are larger, and messages live long.
        let mut kept = Vec::with_capacity(calls.size_hint().1.unwrap_or_default());
        kept.extend(calls);
        kept
    }
}

impl Call {
    fn id(&self) -> &str {
        self.made_id.as_deref().or(self.wire_id.as_deref()).unwrap_or_default()
    }

    /// Whether a piece that seems to belong here begins the next call.
    ///
    /// Some servers count every call as number 0, and some name a call in each of its pieces: a
    /// name with an id of its own, or after arguments that are complete, is another call's. Nothing
    /// can continue complete JSON. An id tells calls apart only where it is another one: some
    /// servers give all of them the same.
    fn is_followed_by(&self, piece: &Piece) -> bool {
        let Some(name) = &piece.name else { return false };
        let ids = self.wire_id.as_ref().zip(piece.id.as_ref());
        if ids.is_some_and(|(own, other)| own != other) {
            return true;
        }
        let has_other_name = name != &self.name && !self.name.is_empty();
        if ids.is_some() && !has_other_name && (self.is_begun_by(piece) || self.is_said_again_by(piece)) {
            return false;
        }
        let is_over = !piece.arguments.trim().is_empty()
            && self.arguments.trim_end().ends_with('}')
            && is_complete(&self.arguments);
        is_over || (piece.index.is_none() && has_other_name)
    }

    /// Whether all that came so far stands for arguments that are still to come: gateways to
    /// Anthropic begin with `{}`.
    fn is_begun_by(&self, piece: &Piece) -> bool {
        self.arguments.trim() == "{}" && piece.arguments.trim_start().starts_with('{')
    }

    /// Whether a piece is the whole call once more, as some servers end a stream.
    fn is_said_again_by(&self, piece: &Piece) -> bool {
        let is_known = piece.name.is_some() && self.wire_id.is_some() && self.wire_id == piece.id;
        is_known && self.arguments.trim() == piece.arguments.trim() && is_complete(&self.arguments)
    }

    /// Takes out of a piece, and of what it goes on with, what is no part of the arguments.
    fn prepare(&mut self, piece: &mut Piece) {
        if self.is_begun_by(piece) {
            self.arguments.clear();
        } else if self.is_said_again_by(piece) {
            piece.arguments.clear();
        }
    }

    fn extend(&mut self, piece: Piece, index: usize, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        if self.arguments.len().saturating_add(piece.arguments.len()) > ARGUMENT_BYTES {
            let (name, limit) = (&self.name, ARGUMENT_BYTES);
            let problem = format!("the arguments of the call of \"{name}\" are longer than {limit} bytes");
            return Err(ModelError::InvalidResponse(problem));
        }
        self.extra = piece.extra.or(self.extra.take());
        let begins = self.name.is_empty();
        let is_first = begins || take(&mut self.is_held);
        if begins {
            self.name = piece.name.unwrap_or_default();
        }
        if sink.is_none() && self.arguments.is_empty() {
            self.arguments = piece.arguments;
            return Ok(());
        }
        self.arguments.push_str(&piece.arguments);
        if let Some(events) = sink.as_mut().filter(|_| !self.name.is_empty()) {
            // What was not told yet comes before the piece.
            let is_all = self.arguments.len() == piece.arguments.len();
            let arguments = if is_first && !is_all { self.arguments.clone() } else { piece.arguments };
            self.is_held = is_first && arguments == "{}";
            if begins {
                let (id, name) = (self.id().to_owned(), self.name.clone());
                events.push_back(ChatEvent::ToolCallStarted { index, id, name });
            }
            if !arguments.is_empty() && !self.is_held {
                events.push_back(ChatEvent::ToolCallDelta { index, arguments });
            }
        }
        Ok(())
    }

    /// Whether it is a placeholder that was never filled.
    fn is_blank(&self) -> bool {
        self.name.is_empty() && self.arguments.is_empty()
    }

    fn into_call(self) -> ToolCall {
        let has_none = self.arguments.trim().is_empty();
        let id = self.made_id.or(self.wire_id).unwrap_or_default();
        ToolCall::new(id, self.name, if has_none { "{}".into() } else { self.arguments })
    }
}

/// Whether a text of arguments could not go on: it is JSON, or there is none of it.
fn is_complete(arguments: &str) -> bool {
    arguments.trim().is_empty() || serde_json::from_str::<IgnoredAny>(arguments).is_ok()
}

/// An id for a call that came without one.
fn made_id() -> String {
    format!("call_{:016x}", fastrand::u64(..))
}
