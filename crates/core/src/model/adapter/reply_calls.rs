use crate::{
    call::ToolCall,
    model::{CallAccumulator, CallPiece, ModelError},
};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::{reply_accumulator::EventSink, surrogates::SurrogateJoiner};

/// The approximate size of a call without its texts, in bytes.
const CALL_BYTES: usize = 256;

/// The accumulator for the tool calls of a reply, with the data that haft-core does not know:
/// surrogate pairs that are split between two pieces, and opaque data.
#[derive(Debug)]
pub struct ReplyCalls {
    calls: CallAccumulator,
    /// One element per call.
    wire_data: Vec<CallWireData>,
    /// `true` if the current pieces may contain private-use characters in place of lone surrogates.
    has_stand_ins: bool,
}

#[derive(Debug, Default)]
struct CallWireData {
    joiner: SurrogateJoiner,
    /// Opaque data from the server that is sent back with the call, such as Gemini's thought
    /// signature.
    extra: Option<Value>,
}

/// The way in which the call of a piece is found.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum PieceKind {
    /// A delta of a stream.
    Delta,
    /// An element of a complete reply. An element with a name is a call of its own.
    Whole,
    /// A part of the item at the index of the piece, in a stream of the Responses API.
    Item,
}

impl Default for ReplyCalls {
    fn default() -> Self {
        let calls = CallAccumulator::with_id_generator(|_, _| format!("call_{:016x}", fastrand::u64(..)));
        Self { calls, wire_data: Vec::new(), has_stand_ins: false }
    }
}

impl ReplyCalls {
    /// Begins the next chunk of the reply: see [`CallAccumulator::begin_chunk`].
    pub fn begin_chunk(&mut self) {
        self.calls.begin_chunk();
    }

    /// Adds `piece` to the call that it continues, or begins a new call. Returns the
    /// number of bytes that were added.
    pub fn add(
        &mut self,
        mut piece: CallPiece,
        extra: Option<Value>,
        kind: PieceKind,
        sink: &mut EventSink<'_>,
    ) -> Result<usize, ModelError> {
        let known = match kind {
            PieceKind::Whole if piece.name.is_some() => None,
            // Whole calls have no index, so another id is another call.
            PieceKind::Whole if piece.id.is_some() => {
                self.calls.find(&piece).filter(|known| self.calls.id(*known) == piece.id.as_deref())
            }
            PieceKind::Delta | PieceKind::Whole => self.calls.find(&piece),
            PieceKind::Item => piece.index.and_then(|index| self.calls.find_index(index)),
        };
        let position = known.unwrap_or_else(|| self.calls.start(&piece));
        let mut bytes = self.reserve(position);
        if let Some(data) = self.wire_data.get_mut(position) {
            bytes += extra.as_ref().map_or(0, |extra| extra.to_string().len());
            data.extra = extra.or(data.extra.take());
            piece.arguments = data.joiner.join(piece.arguments, self.has_stand_ins);
        }
        Ok(bytes + self.calls.extend(position, piece, sink.as_deref_mut())?)
    }

    /// Creates the data of the call at `position` if it is a new call. Returns the number of bytes
    /// that the call needs in addition to its texts.
    fn reserve(&mut self, position: usize) -> usize {
        if position < self.wire_data.len() {
            return 0;
        }
        self.wire_data.resize_with(position + 1, CallWireData::default);
        CALL_BYTES
    }

    /// Sets whether the current pieces may contain private-use characters in place of lone
    /// surrogates.
    pub fn set_has_stand_ins(&mut self, enabled: bool) {
        self.has_stand_ins = enabled;
    }

    /// Ends the calls. Emits everything that was held back.
    pub fn flush(&mut self, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        for (position, data) in self.wire_data.iter_mut().enumerate() {
            if let Some(arguments) = data.joiner.end() {
                let piece = CallPiece { arguments, ..CallPiece::default() };
                self.calls.extend(position, piece, sink.as_deref_mut())?;
            }
        }
        self.calls.finish(sink.as_deref_mut());
        Ok(())
    }

    /// Returns `true` if there are no calls.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns `true` if the last call has a name, but no arguments. Such a call is incomplete if a
    /// limit or filter stopped the reply.
    pub fn lacks_arguments(&self) -> bool {
        self.calls.lacks_arguments()
    }

    /// Returns the opaque data of the calls, such as Gemini's thought signatures, by call id.
    pub fn extra_content_by_id(&self) -> Map<String, Value> {
        let extra = |(position, data): (usize, &CallWireData)| {
            Some((self.calls.id(position)?.to_owned(), data.extra.clone()?))
        };
        self.wire_data.iter().enumerate().filter_map(extra).collect()
    }

    /// Replaces the name and the arguments of a call with the final ones in `piece`, a complete item
    /// of the Responses API. Returns the number of bytes that were added.
    pub fn set_final(&mut self, mut piece: CallPiece, sink: &mut EventSink<'_>) -> Result<usize, ModelError> {
        let known = piece.index.and_then(|index| self.calls.find_index(index));
        let position = known.unwrap_or_else(|| self.calls.start(&piece));
        let bytes = self.reserve(position);
        if let Some(data) = self.wire_data.get_mut(position) {
            // The final arguments repeat the surrogate that was held back.
            data.joiner.reset();
            piece.arguments = data.joiner.join(piece.arguments, self.has_stand_ins);
        }
        Ok(bytes + self.calls.set_final(position, piece, sink.as_deref_mut())?)
    }

    /// Returns the id of the call with the given index, or `None` if there is no such call.
    pub fn id_of(&self, index: i64) -> Option<&str> {
        self.calls.id(self.calls.find_index(index)?)
    }

    /// Returns the ids that the server has sent, without the generated ones.
    pub fn received_ids(&self) -> impl Iterator<Item = &str> {
        self.calls.received_ids()
    }

    /// Returns the calls.
    pub fn into_calls(self) -> Vec<ToolCall> {
        self.calls.into_calls()
    }
}

/// Returns the first call with incomplete JSON arguments. `None` if there is no such call.
///
/// The arguments are parsed by [`JsonText`](crate::schema::JsonText), which keeps the value for
/// the pipeline. Only arguments that it cannot parse are read a second time, because they may still
/// be complete, for example if they are nested too deep.
pub(super) fn incomplete_call(calls: &[ToolCall]) -> Option<&ToolCall> {
    calls.iter().find(|call| call.arguments.value().is_err() && !is_complete(&call.arguments))
}

/// Returns `true` if `arguments` is valid JSON or empty.
fn is_complete(arguments: &str) -> bool {
    arguments.trim().is_empty() || serde_json::from_str::<IgnoredAny>(arguments).is_ok()
}
