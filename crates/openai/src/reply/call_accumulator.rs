use std::mem::take;

use haft_core::{
    ToolCall,
    limits::{ARGUMENT_BYTES, REPLY_CALLS},
    model::{ChatEvent, ModelError},
};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::accumulator::EventSink;
use crate::wire::{SurrogateJoiner, WireCall};

/// The accumulator for the tool calls of a reply, which arrive in pieces.
#[derive(Debug, Default)]
pub(super) struct CallAccumulator {
    all: Vec<Call>,
    /// `true` if the current pieces may contain private-use characters in place of lone surrogates.
    has_stand_ins: bool,
}

#[derive(Debug, Default)]
struct Call {
    /// The `index` of the call in the stream.
    index: Option<i64>,
    wire_id: Option<String>,
    /// The generated id, if the id from the server is missing or a duplicate.
    generated_id: Option<String>,
    name: String,
    arguments: String,
    joiner: SurrogateJoiner,
    /// `true` while the arguments `{}` are held back. Some servers send `{}` before the actual
    /// arguments.
    is_empty_object_held: bool,
    /// Opaque data from the server that is sent back with the call, such as Gemini's thought
    /// signature.
    extra: Option<Value>,
}

/// A piece of a tool call: a delta of a stream, or a complete call.
#[derive(Default)]
struct CallDelta {
    index: Option<i64>,
    id: Option<String>,
    name: Option<String>,
    arguments: String,
    extra: Option<Value>,
}

impl From<WireCall> for CallDelta {
    fn from(wire: WireCall) -> Self {
        let function = wire.function.unwrap_or_default();
        Self {
            index: wire.index.to_number(),
            id: wire.id.into_non_empty(),
            name: function.name.into_non_empty(),
            arguments: function.arguments.into_text().unwrap_or_default(),
            extra: wire.extra_content.map(|extra| *extra).filter(|extra| !extra.is_null()),
        }
    }
}

impl CallDelta {
    fn of_arguments(arguments: String) -> Self {
        Self { arguments, ..Self::default() }
    }
}

impl CallAccumulator {
    /// Adds the piece `wire` to the call that it continues, or begins a new call. If `whole` is
    /// `true`, `wire` is a complete call. Returns the number of bytes that were added.
    pub(super) fn add(
        &mut self,
        wire: WireCall,
        whole: bool,
        sink: &mut EventSink<'_>,
    ) -> Result<usize, ModelError> {
        self.add_delta(CallDelta::from(wire), whole, sink)
    }

    fn add_delta(
        &mut self,
        mut delta: CallDelta,
        whole: bool,
        sink: &mut EventSink<'_>,
    ) -> Result<usize, ModelError> {
        let calls = self.all.len();
        let mut text = delta.extra.as_ref().map_or(0, |extra| extra.to_string().len());
        let place = if whole { None } else { self.index_of(&delta) };
        let place = place.unwrap_or_else(|| self.start_call(&mut delta));
        if place >= REPLY_CALLS {
            return Err(ModelError::InvalidResponse(format!("it has more than {REPLY_CALLS} calls")));
        }
        if let Some(call) = self.all.get_mut(place) {
            call.index = call.index.or(delta.index);
            delta.arguments = call.joiner.join(delta.arguments, self.has_stand_ins);
            call.prepare(&mut delta);
            // The arguments are counted here, because `prepare` removes repeated arguments from the
            // piece.
            text += delta.arguments.len();
            call.extend(delta, place, sink)?;
        }
        Ok(text + (self.all.len() - calls) * size_of::<Call>())
    }

    /// Returns the position of the call that `delta` continues. The call is identified by the
    /// index, or else by the id. A piece without an index and without a known id continues the last
    /// call. Returns `None` if `delta` begins a new call.
    fn index_of(&self, delta: &CallDelta) -> Option<usize> {
        let last = self.all.len().checked_sub(1)?;
        let place = match (delta.index, &delta.id) {
            (Some(_), _) => {
                let known = self.all.iter().rposition(|call| call.index == delta.index);
                // Some servers omit the index in the first piece of a call and send it in the later
                // pieces.
                let is_open = |call: &Call| call.index.is_none() && delta.name.is_none();
                known.or_else(|| self.all.get(last).is_some_and(is_open).then_some(last))?
            }
            (None, Some(id)) => {
                self.all.iter().rposition(|call| call.wire_id.as_ref() == Some(id)).unwrap_or(last)
            }
            (None, None) => last,
        };
        self.all.get(place).is_some_and(|call| !call.is_followed_by(delta)).then_some(place)
    }

    fn start_call(&mut self, delta: &mut CallDelta) -> usize {
        let index = delta.index;
        let wire_id = delta.id.take();
        let is_unique = |id: &String| self.all.iter().all(|call| call.id() != id);
        let generated_id = (!wire_id.as_ref().is_some_and(is_unique)).then(generated_id);
        self.all.push(Call { index, wire_id, generated_id, ..Call::default() });
        self.all.len() - 1
    }

    /// Sets whether the current pieces may contain private-use characters in place of lone
    /// surrogates.
    pub(super) fn set_has_stand_ins(&mut self, enabled: bool) {
        self.has_stand_ins = enabled;
    }

    /// Ends the arguments of all calls. Emits arguments that were held back.
    pub(super) fn flush(&mut self, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        for (index, call) in (0..).zip(&mut self.all) {
            if let Some(rest) = call.joiner.end() {
                call.extend(CallDelta::of_arguments(rest), index, sink)?;
            }
            if let Some(events) = sink.as_mut().filter(|_| call.is_empty_object_held) {
                events.push_back(ChatEvent::ToolCallDelta { index, arguments: call.arguments.clone() });
            }
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns `true` if the last call has a name, but no arguments. Such a call is incomplete if a
    /// limit or filter stopped the reply.
    pub(super) fn lacks_arguments(&self) -> bool {
        self.all.last().is_some_and(|call| call.arguments.trim().is_empty() && !call.is_blank())
    }

    /// Returns the opaque data of the calls, such as Gemini's thought signatures, by call id.
    pub(super) fn extra_content_by_id(&self) -> Map<String, Value> {
        let extra = |call: &Call| call.extra.clone().map(|extra| (call.id().to_owned(), extra));
        self.all.iter().filter_map(extra).collect()
    }

    /// Replaces the arguments of a call with the final arguments in `wire`. Emits the part that was
    /// not emitted yet, or all final arguments if they differ from the received arguments. Returns
    /// the number of bytes that were added. Empty final arguments replace nothing.
    pub(super) fn set_final(
        &mut self,
        wire: WireCall,
        sink: &mut EventSink<'_>,
    ) -> Result<usize, ModelError> {
        let mut delta = CallDelta::from(wire);
        let known = self.all.iter_mut().find(|call| call.index == delta.index);
        if let Some(call) = known {
            call.joiner.reset();
            match delta.arguments.strip_prefix(&call.arguments) {
                Some(rest) => delta.arguments = rest.to_owned(),
                None if delta.arguments.is_empty() => {}
                None => call.arguments.clear(),
            }
            // The index identifies the call. vLLM sends a different id in the final item, and the
            // first id is kept.
            delta.id = None;
            delta.name = delta.name.filter(|_| call.name.is_empty());
        }
        self.add_delta(delta, false, sink)
    }

    /// Returns the id of the call with the given index, or `None` if there is no such call.
    pub(super) fn id_of(&self, index: i64) -> Option<&str> {
        self.all.iter().find(|call| call.index == Some(index)).map(Call::id)
    }

    pub(super) fn into_calls(self) -> Vec<ToolCall> {
        let calls = self.all.into_iter().filter(|call| !call.is_blank()).map(Call::into_call);
        // The calls are copied into an allocation of the exact size. Reusing the allocation would
        // waste memory, because a `Call` is larger than a `ToolCall`, and messages are kept for a
        // long time.
        let mut exact = Vec::with_capacity(calls.size_hint().1.unwrap_or_default());
        exact.extend(calls);
        exact
    }
}

impl Call {
    fn id(&self) -> &str {
        self.generated_id.as_deref().or(self.wire_id.as_deref()).unwrap_or_default()
    }

    /// Returns `true` if `delta` begins a new call, although its index, its id or its position
    /// matches this call.
    ///
    /// Some servers send index 0 for every call, repeat the name in each piece, or use one id for
    /// all calls. A piece with a name begins a new call if it has
    ///
    /// - a different id, or
    /// - arguments, although the arguments of this call are complete, because complete JSON cannot
    ///   be continued, or
    /// - a different name and no index.
    ///
    /// A piece with the same id and name does not begin a new call if it replaces the preliminary
    /// arguments `{}`, or if it repeats the whole call.
    fn is_followed_by(&self, delta: &CallDelta) -> bool {
        let Some(name) = &delta.name else { return false };
        let ids = self.wire_id.as_ref().zip(delta.id.as_ref());
        if ids.is_some_and(|(own, other)| own != other) {
            return true;
        }
        let has_other_name = name != &self.name && !self.name.is_empty();
        if ids.is_some() && !has_other_name && (self.is_replaced_by(delta) || self.is_repeated_by(delta)) {
            return false;
        }
        let is_over = !delta.arguments.trim().is_empty()
            && self.arguments.trim_end().ends_with('}')
            && is_complete(&self.arguments);
        is_over || (delta.index.is_none() && has_other_name)
    }

    /// Returns `true` if the arguments so far are `{}` and `delta` begins the actual arguments.
    /// Gateways to Anthropic send `{}` first.
    fn is_replaced_by(&self, delta: &CallDelta) -> bool {
        self.arguments.trim() == "{}" && delta.arguments.trim_start().starts_with('{')
    }

    /// Returns `true` if `delta` repeats the whole call. Some servers send the whole call again at
    /// the end of a stream.
    fn is_repeated_by(&self, delta: &CallDelta) -> bool {
        let is_known = delta.name.is_some() && self.wire_id.is_some() && self.wire_id == delta.id;
        is_known && self.arguments.trim() == delta.arguments.trim() && is_complete(&self.arguments)
    }

    /// Prepares this call for `delta`. If `delta` replaces the preliminary arguments `{}`, clears
    /// the arguments of this call. If `delta` repeats the whole call, clears the arguments of
    /// `delta`.
    fn prepare(&mut self, delta: &mut CallDelta) {
        if self.is_replaced_by(delta) {
            self.arguments.clear();
        } else if self.is_repeated_by(delta) {
            delta.arguments.clear();
        }
    }

    fn extend(&mut self, delta: CallDelta, index: usize, sink: &mut EventSink<'_>) -> Result<(), ModelError> {
        if self.arguments.len().saturating_add(delta.arguments.len()) > ARGUMENT_BYTES {
            let (name, limit) = (&self.name, ARGUMENT_BYTES);
            let problem = format!("the arguments of the call of \"{name}\" are longer than {limit} bytes");
            return Err(ModelError::InvalidResponse(problem));
        }
        self.extra = delta.extra.or(self.extra.take());
        let begins = self.name.is_empty();
        let is_first = begins || take(&mut self.is_empty_object_held);
        if begins {
            self.name = delta.name.unwrap_or_default();
        }
        if sink.is_none() && self.arguments.is_empty() {
            self.arguments = delta.arguments;
            return Ok(());
        }
        self.arguments.push_str(&delta.arguments);
        if let Some(events) = sink.as_mut().filter(|_| !self.name.is_empty()) {
            // The first delta also contains arguments that were received earlier but not emitted
            // yet.
            let is_all = self.arguments.len() == delta.arguments.len();
            let arguments = if is_first && !is_all { self.arguments.clone() } else { delta.arguments };
            self.is_empty_object_held = is_first && arguments == "{}";
            if begins {
                let (id, name) = (self.id().to_owned(), self.name.clone());
                events.push_back(ChatEvent::ToolCallStarted { index, id, name });
            }
            if !arguments.is_empty() && !self.is_empty_object_held {
                events.push_back(ChatEvent::ToolCallDelta { index, arguments });
            }
        }
        Ok(())
    }

    /// Returns `true` if this call has neither a name nor arguments. Some servers send such calls,
    /// which are dropped.
    fn is_blank(&self) -> bool {
        self.name.is_empty() && self.arguments.is_empty()
    }

    fn into_call(self) -> ToolCall {
        let has_none = self.arguments.trim().is_empty();
        let id = self.generated_id.or(self.wire_id).unwrap_or_default();
        ToolCall::new(id, self.name, if has_none { "{}".into() } else { self.arguments })
    }
}

/// Returns the first call with incomplete JSON arguments. `None` if there is no such call.
///
/// The arguments are parsed by [`JsonText`](haft_core::schema::JsonText), which keeps the value for
/// the pipeline. Only arguments that it cannot parse are read a second time, because they may still
/// be complete, for example if they are nested too deep.
pub(super) fn incomplete_call(calls: &[ToolCall]) -> Option<&ToolCall> {
    calls.iter().find(|call| call.arguments.value().is_err() && !is_complete(&call.arguments))
}

/// Returns `true` if `arguments` is valid JSON or empty. During streaming, this check runs only if
/// a piece may begin a new call or repeat a call.
fn is_complete(arguments: &str) -> bool {
    arguments.trim().is_empty() || serde_json::from_str::<IgnoredAny>(arguments).is_ok()
}

/// Returns a random id for a call whose id is missing or a duplicate.
fn generated_id() -> String {
    format!("call_{:016x}", fastrand::u64(..))
}
