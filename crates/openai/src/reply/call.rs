use std::mem::take;

use haft_core::{
    ToolCall,
    limits::{ARGUMENT_BYTES, REPLY_ITEMS},
    model::{ChatEvent, ModelError},
};
use serde::de::IgnoredAny;
use serde_json::Map;
use serde_json::Value;

use super::fold::Watch;
use crate::wire::{Half, WireCall};

/// The calls of a reply, put together from pieces.
#[derive(Debug, Default)]
pub(super) struct Calls {
    all: Vec<Call>,
    /// Whether there may be halves of characters in the pieces that come next.
    is_mended: bool,
}

#[derive(Debug, Default)]
struct Call {
    /// What the server tells its calls apart by, where it does.
    index: Option<i64>,
    wire_id: Option<String>,
    /// Its id, where the server gave it none, or that of another.
    made_id: Option<String>,
    name: String,
    arguments: String,
    /// Half of a character that ends the arguments so far.
    half: Half,
    /// Whether arguments are not told yet, which may be none.
    is_held: bool,
    /// What its server wants back beside it, as Gemini a signature.
    extra: Option<Value>,
}

/// One piece of a call, as it came.
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
    /// Adds a piece to the call that it belongs to, or begins a call, and tells how much memory that took. In a whole
    /// reply every piece is a call.
    pub(super) fn add(
        &mut self,
        wire: WireCall,
        whole: bool,
        watch: &mut Watch<'_>,
    ) -> Result<usize, ModelError> {
        self.add_piece(Piece::from(wire), whole, watch)
    }

    fn add_piece(
        &mut self,
        mut piece: Piece,
        whole: bool,
        watch: &mut Watch<'_>,
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
            piece.arguments = call.half.join(piece.arguments, self.is_mended);
            call.prepare(&mut piece);
            // What is said again is nothing new.
            text += piece.arguments.len();
            call.extend(piece, place, watch)?;
        }
        Ok(text + (self.all.len() - calls) * size_of::<Call>())
    }

    /// The call that a piece belongs to: that of its index, else that of its id, else the last one.
    fn place_of(&self, piece: &Piece) -> Option<usize> {
        let last = self.all.len().checked_sub(1)?;
        let place = match (piece.index, &piece.id) {
            (Some(_), _) => {
                let known = self.all.iter().rposition(|call| call.index == piece.index);
                // Some servers give a number only from the second piece on.
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

    /// Says whether there may be halves of characters in the pieces that come next.
    pub(super) fn expect_halves(&mut self, whether: bool) {
        self.is_mended = whether;
    }

    /// Ends the arguments of all calls, and tells what was kept back of them.
    pub(super) fn end(&mut self, watch: &mut Watch<'_>) -> Result<(), ModelError> {
        for (index, call) in (0..).zip(&mut self.all) {
            if let Some(rest) = call.half.end() {
                call.extend(Piece::of_arguments(rest), index, watch)?;
            }
            if let Some(events) = watch.as_mut().filter(|_| call.is_held) {
                events.push_back(ChatEvent::ToolCallDelta { index, arguments: call.arguments.clone() });
            }
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The first call whose arguments are not complete: the reply was cut there.
    pub(super) fn cut(&self) -> Option<&str> {
        self.all.iter().find(|call| !is_complete(&call.arguments)).map(|call| call.name.as_str())
    }

    /// The call in which something stopped the reply: a last one without arguments may have been about to get some.
    pub(super) fn stopped(&self) -> Option<&str> {
        let last = self.all.last().filter(|call| call.arguments.trim().is_empty() && !call.is_blank());
        last.map(|call| call.name.as_str()).or_else(|| self.cut())
    }

    /// What is wanted back beside the calls, by their ids.
    pub(super) fn extras(&self) -> Map<String, Value> {
        let extra = |call: &Call| call.extra.clone().map(|extra| (call.id().to_owned(), extra));
        self.all.iter().filter_map(extra).collect()
    }

    /// Makes the arguments of a call those that its server says they are in the end. What is new in them is told.
    pub(super) fn settle(&mut self, wire: WireCall, watch: &mut Watch<'_>) -> Result<usize, ModelError> {
        let mut piece = Piece::from(wire);
        let known = self.all.iter_mut().find(|call| call.index == piece.index);
        if let Some(call) = known {
            call.half.forget();
            match piece.arguments.strip_prefix(&call.arguments) {
                Some(rest) => piece.arguments = rest.to_owned(),
                None => call.arguments.clear(),
            }
            // The number tells which call it is. Some servers give it another id at its end: what was told first stays.
            piece.id = None;
            piece.name = piece.name.filter(|_| call.name.is_empty());
        }
        self.add_piece(piece, false, watch)
    }

    /// The id that the call of an index has in the end.
    pub(super) fn id_of(&self, index: i64) -> Option<&str> {
        self.all.iter().find(|call| call.index == Some(index)).map(Call::id)
    }

    pub(super) fn into_calls(self) -> Vec<ToolCall> {
        let calls = self.all.into_iter().filter(|call| !call.is_blank()).map(Call::into_call);
        // Not in the place of the pieces, which is larger: a message lives long.
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
    /// Some servers count every call as number 0, and some name a call in each of its pieces: a name with an id of its
    /// own, or after arguments that are complete, is another call's. Nothing can continue complete JSON. An id tells calls
    /// apart only where it is another one: some servers give all of them the same.
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

    /// Whether all that came so far stands for arguments that are still to come: gateways to Anthropic begin with `{}`.
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

    fn extend(&mut self, piece: Piece, index: usize, watch: &mut Watch<'_>) -> Result<(), ModelError> {
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
        self.arguments.push_str(&piece.arguments);
        if let Some(events) = watch.as_mut().filter(|_| !self.name.is_empty()) {
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
