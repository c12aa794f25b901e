//! Assembly of tool calls from the pieces of a reply.

#[cfg(test)]
mod tests;

use std::{collections::VecDeque, mem::take};

use serde::de::IgnoredAny;

use super::{ChatEvent, ModelError};
use crate::{
    ToolCall,
    limits::{ARGUMENT_BYTES, REPLY_CALLS},
};

/// A piece of a tool call, as a server sends it in one chunk of a streamed reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallPiece {
    /// The number of the call in the reply. Servers begin at 0 or 1, send 0 for every call, or
    /// count the pieces.
    pub index: Option<i64>,
    /// The id of the call. `None` if it is missing or empty.
    pub id: Option<String>,
    /// The name of the tool, or a part of the name. `None` if it is missing or empty.
    pub name: Option<String>,
    /// A part of the arguments, as JSON text.
    pub arguments: String,
}

/// An accumulator for the tool calls of a streamed reply, for adapters of model APIs.
///
/// A server can cut a call anywhere and number the pieces in any way. These rules apply:
///
/// - A piece belongs to the call with the same index and id, or else with the same id, or else with
///   the same index. A piece without a name continues a call: the last call if neither its id nor
///   its index is known. With a new id and a new index, it begins a call.
/// - The name of a call is the concatenation of its pieces. A piece that equals the name so far, or
///   that begins with it, repeats the name.
/// - A piece with a name begins a new call if its id differs, or if the arguments of the earlier
///   call are complete. With the same index and name, another id is a placeholder, such as `null`,
///   while the arguments are incomplete.
/// - A piece with the same id and another index belongs to the same call while the arguments are
///   incomplete, because some servers count the pieces. If an index returns, it does not count the
///   pieces, and the parts under different indexes are separate calls.
/// - Arguments `{}` are preliminary if other arguments follow. LiteLLM sends them first.
///
/// [`ChatEvent::ToolCallStarted`] is emitted after the first arguments that follow the name,
/// because the name may be incomplete before. Without arguments, it is emitted by
/// [`finish`](Self::finish).
///
/// # Examples
///
/// ```
/// use std::collections::VecDeque;
///
/// use haft_core::{ToolCall, model::{CallAccumulator, CallPiece}};
///
/// let mut calls = CallAccumulator::default();
/// let mut events = VecDeque::new();
/// for (id, name, arguments) in
///     [(Some("a"), Some("find_"), ""), (None, Some("page"), ""), (None, None, r#"{"id":7}"#)]
/// {
///     let (id, name) = (id.map(str::to_owned), name.map(str::to_owned));
///     let piece = CallPiece { index: Some(0), id, name, arguments: arguments.to_owned() };
///     calls.begin_chunk();
///     calls.push(piece, Some(&mut events))?;
/// }
/// calls.finish(Some(&mut events));
/// assert_eq!(calls.into_calls(), [ToolCall::new("a", "find_page", r#"{"id":7}"#)]);
/// # Ok::<(), haft_core::model::ModelError>(())
/// ```
#[derive(Debug)]
pub struct CallAccumulator {
    calls: Vec<PartialCall>,
    /// The number of the current chunk.
    chunk: u64,
    new_id: fn(&str, usize) -> String,
}

/// The received part of a call.
#[derive(Debug, Default)]
struct PartialCall {
    index: Option<i64>,
    received_id: Option<String>,
    /// The generated id, if the received id is missing or a duplicate.
    generated_id: Option<String>,
    name: String,
    arguments: String,
    /// The chunk of the last piece.
    chunk: u64,
    /// `true` after [`ChatEvent::ToolCallStarted`] was emitted.
    is_announced: bool,
    /// `true` while the arguments `{}` are not emitted, because they may be preliminary.
    is_empty_object_held: bool,
    /// The pieces that may be the beginnings of further calls with the same id.
    joined: Vec<JoinedPiece>,
    /// `true` if the first piece may also repeat the id and the name of an earlier, complete call.
    /// Without arguments, it is no call.
    is_tentative: bool,
}

/// A piece with a name and with the id of its call, but with another index.
#[derive(Debug)]
struct JoinedPiece {
    index: i64,
    name: String,
    /// The name of the call before this piece.
    name_before: String,
    /// The length of the arguments before this piece, in bytes.
    arguments_start: usize,
}

impl Default for CallAccumulator {
    /// Creates an accumulator that replaces a missing id with `call_1`, `call_2` and so on, and a
    /// duplicate id `a` with `a_2`.
    fn default() -> Self {
        Self::with_id_generator(|received, number| {
            format!("{}_{number}", if received.is_empty() { "call" } else { received })
        })
    }
}

impl CallAccumulator {
    /// Creates an accumulator that replaces a missing or duplicate id with `new_id(id, number)`,
    /// where `id` is the received id or an empty string. `number` begins at the position of the
    /// call, counted from 1, and increases until the id is unique in the reply.
    pub fn with_id_generator(new_id: fn(&str, usize) -> String) -> Self {
        Self { calls: Vec::new(), chunk: 0, new_id }
    }

    /// Begins the next chunk of the reply. Two names in the same chunk, without an index and an id,
    /// belong to two calls. In different chunks they may be parts of one name.
    pub fn begin_chunk(&mut self) {
        self.chunk += 1;
    }

    /// Adds `piece` to the call that it continues, or begins a new call. Returns the number of
    /// bytes that were added to the name and the arguments.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`extend`](Self::extend).
    pub fn push(
        &mut self,
        piece: CallPiece,
        events: Option<&mut VecDeque<ChatEvent>>,
    ) -> Result<usize, ModelError> {
        let position = self.find(&piece).unwrap_or_else(|| self.start(&piece));
        self.extend(position, piece, events)
    }

    /// Returns the position of the call that `piece` continues. Returns `None` if `piece` begins a
    /// new call.
    pub fn find(&mut self, piece: &CallPiece) -> Option<usize> {
        self.separate_calls(piece);
        let position = self.candidate(piece)?;
        let call = self.calls.get(position)?;
        (!call.is_followed_by(piece, call.chunk == self.chunk)).then_some(position)
    }

    /// Separates the parts of a call that have different indexes, if `piece` proves that they are
    /// separate calls.
    fn separate_calls(&mut self, piece: &CallPiece) {
        let Some(call) = self.calls.iter_mut().find(|call| call.is_separated_by(piece)) else { return };
        let (id, chunk) = (call.received_id.clone(), call.chunk);
        for (index, name, arguments) in call.split_off_joined() {
            let position =
                self.start(&CallPiece { index: Some(index), id: id.clone(), ..CallPiece::default() });
            if let Some(call) = self.calls.get_mut(position) {
                (call.name, call.arguments, call.chunk) = (name, arguments, chunk);
            }
        }
    }

    /// Returns the position of the last call with the index `index`.
    pub fn find_index(&self, index: i64) -> Option<usize> {
        self.calls.iter().rposition(|call| call.index == Some(index))
    }

    /// Returns the position of the call to which `piece` belongs, if it begins no new call.
    fn candidate(&self, piece: &CallPiece) -> Option<usize> {
        let last = self.calls.len().checked_sub(1)?;
        let has_index = |call: &PartialCall| piece.index.is_some() && call.index == piece.index;
        let has_id = |call: &PartialCall| piece.id.is_some() && call.received_id == piece.id;
        let find = |is_match: &dyn Fn(&PartialCall) -> bool| self.calls.iter().rposition(is_match);
        if let Some(known) = find(&|call| has_index(call) && has_id(call)).or_else(|| find(&has_id)) {
            return Some(known);
        }
        let last_call = self.calls.get(last)?;
        match (find(&has_index), &piece.name) {
            // A server that sends the index 0 in each piece continues the last call. Complete JSON
            // cannot be continued.
            (Some(known), None) if known != last && !piece.arguments.trim().is_empty() => {
                let is_over = |position| self.calls.get(position).is_some_and(PartialCall::is_over);
                Some(if is_over(known) && !is_over(last) { last } else { known })
            }
            (Some(known), _) => Some(known),
            // A new index and a new id begin a call, whose name is missing or follows.
            (None, None) => {
                let is_new = piece.index.is_some() && piece.id.is_some() && last_call.received_id.is_some();
                (!is_new).then_some(last)
            }
            // An index that counts the pieces: only the first piece of a call has its id.
            (None, Some(_)) if piece.index.is_some() => {
                let is_open = piece.id.is_none() && last_call.received_id.is_some() && !last_call.is_over();
                is_open.then_some(last)
            }
            (None, Some(_)) => Some(last),
        }
    }

    /// Begins the call of `piece`, with its index and id, and returns its position. The piece
    /// itself is added by [`extend`](Self::extend).
    pub fn start(&mut self, piece: &CallPiece) -> usize {
        let position = self.calls.len();
        let received = piece.id.as_deref().unwrap_or_default();
        let is_unique = |id: &str| self.calls.iter().all(|call| call.id() != id);
        let generated_id = (received.is_empty() || !is_unique(received)).then(|| {
            let mut ids = (position + 1..).map(|number| (self.new_id)(received, number));
            ids.find(|id| is_unique(id)).unwrap_or_default()
        });
        let is_tentative = piece.arguments.trim().is_empty()
            && self.calls.iter().any(|call| call.is_maybe_repeated_by(piece));
        self.calls.push(PartialCall {
            index: piece.index,
            received_id: piece.id.clone(),
            generated_id,
            is_tentative,
            ..PartialCall::default()
        });
        position
    }

    /// Adds `piece` to the call at `position`. Pushes the events of the call to `events`. Returns
    /// the number of bytes that were added to the name and the arguments.
    ///
    /// # Errors
    ///
    /// Returns [`ModelError::InvalidResponse`] if the reply has more than [`REPLY_CALLS`] calls, or
    /// if the arguments of the call are longer than [`ARGUMENT_BYTES`].
    pub fn extend(
        &mut self,
        position: usize,
        piece: CallPiece,
        events: Option<&mut VecDeque<ChatEvent>>,
    ) -> Result<usize, ModelError> {
        if position >= REPLY_CALLS {
            return Err(ModelError::InvalidResponse(format!("it has more than {REPLY_CALLS} calls")));
        }
        let is_unique = |id: &str| self.calls.iter().all(|call| call.id() != id);
        let new_id = piece.id.clone().filter(|id| is_unique(id));
        let chunk = self.chunk;
        let Some(call) = self.calls.get_mut(position) else { return Ok(0) };
        call.chunk = chunk;
        call.index = call.index.or(piece.index);
        if call.received_id.is_none() {
            call.received_id.clone_from(&piece.id);
            // An announced call keeps its generated id.
            if new_id.is_some() && !call.is_announced {
                call.generated_id = None;
            }
        }
        call.extend(piece, position, events)
    }

    /// Replaces the name and the arguments of the call at `position` with the final ones in
    /// `piece`, and emits what was not emitted yet: the rest of the arguments, or all arguments if
    /// they differ from the received ones. Empty final values replace nothing. Returns the number
    /// of bytes that were added.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`extend`](Self::extend).
    pub fn set_final(
        &mut self,
        position: usize,
        mut piece: CallPiece,
        events: Option<&mut VecDeque<ChatEvent>>,
    ) -> Result<usize, ModelError> {
        if let Some(call) = self.calls.get_mut(position) {
            match piece.arguments.strip_prefix(&call.arguments) {
                Some(rest) => piece.arguments = rest.to_owned(),
                None if piece.arguments.is_empty() => {}
                None => {
                    call.joined.clear();
                    call.arguments.clear();
                }
            }
            if piece.name.is_some() {
                call.name.clear();
            }
        }
        self.extend(position, piece, events)
    }

    /// Ends the calls. Emits everything that was held back.
    pub fn finish(&mut self, events: Option<&mut VecDeque<ChatEvent>>) {
        let Some(events) = events else { return };
        for (index, call) in self.calls.iter_mut().enumerate().filter(|(_, call)| !call.is_tentative) {
            let is_held = take(&mut call.is_empty_object_held);
            if !call.name.is_empty() && !call.is_announced {
                call.announce(index, events);
                call.emit(index, call.arguments.clone(), events);
            } else if is_held {
                call.emit(index, call.arguments.clone(), events);
            }
        }
    }

    /// Returns the number of calls.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns `true` if there are no calls.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns the id of the call at `position`, or `None` if there is no such call.
    pub fn id(&self, position: usize) -> Option<&str> {
        self.calls.get(position).map(PartialCall::id)
    }

    /// Returns the ids that the server has sent, without the generated ones.
    pub fn received_ids(&self) -> impl Iterator<Item = &str> {
        let received = self.calls.iter().filter(|call| call.generated_id.is_none());
        received.filter_map(|call| call.received_id.as_deref())
    }

    /// Returns `true` if the last call has a name, but no arguments. Such a call is incomplete if
    /// something interrupted the reply.
    pub fn lacks_arguments(&self) -> bool {
        let last = self.calls.iter().rfind(|call| !call.is_tentative);
        last.is_some_and(|call| call.arguments.trim().is_empty() && !call.name.is_empty())
    }

    /// Returns the calls. A call without arguments gets the arguments `{}`. Calls with neither a
    /// name nor arguments, which some servers send, are dropped.
    ///
    /// A call whose name is missing is returned with an empty name. The caller must reject such a
    /// reply.
    pub fn into_calls(self) -> Vec<ToolCall> {
        let is_blank =
            |call: &PartialCall| call.is_tentative || (call.name.is_empty() && call.arguments.is_empty());
        let calls = self.calls.into_iter().filter(|call| !is_blank(call)).map(PartialCall::into_call);
        // The calls are copied into an allocation of the exact size. Reusing the allocation would
        // waste memory, because a `PartialCall` is larger than a `ToolCall`, and messages are kept
        // for a long time.
        let mut exact = Vec::with_capacity(calls.size_hint().1.unwrap_or_default());
        exact.extend(calls);
        exact
    }
}

impl PartialCall {
    fn id(&self) -> &str {
        self.generated_id.as_deref().or(self.received_id.as_deref()).unwrap_or_default()
    }

    /// Returns `true` if `piece` begins a new call, although its index, its id or its position
    /// matches this call. `is_same_chunk` is `true` if the last piece of this call is in the same
    /// chunk.
    fn is_followed_by(&self, piece: &CallPiece, is_same_chunk: bool) -> bool {
        let Some(name) = &piece.name else { return false };
        let repeats_name = self.name.is_empty() || *name == self.name;
        let indexes = self.index.zip(piece.index);
        let has_same_index = indexes.is_some_and(|(own, other)| own == other);
        let ids = self.received_id.as_ref().zip(piece.id.as_ref());
        let has_same_id = ids.is_some_and(|(own, other)| own == other);
        if ids.is_some() && !has_same_id {
            // Some servers send a placeholder such as `null` as the id of the later pieces.
            return !(has_same_index && repeats_name && !self.is_over());
        }
        let has_other_index = self.has_other_index(piece);
        let is_replaced = !has_other_index && self.is_replaced_by(piece);
        if has_same_id && repeats_name && (is_replaced || self.is_repeated_by(piece)) {
            return false;
        }
        if self.is_over() {
            let is_maybe_repeated = !(has_same_id && has_other_index) && piece.arguments.trim().is_empty();
            return !repeats_name || !is_maybe_repeated;
        }
        if has_same_index {
            return false;
        }
        if is_same_chunk && (indexes.is_some() || !repeats_name) {
            return true;
        }
        if has_same_id || repeats_name {
            return false;
        }
        // The piece has another name, and nothing that identifies this call.
        let begins_call = piece.id.is_some() && self.received_id.is_none();
        begins_call || (!self.arguments.is_empty() && !piece.continues_arguments())
    }

    /// Returns `true` if the arguments are a complete JSON value, which cannot be continued. A
    /// number can be continued. Arguments are parsed only if their first and last characters match.
    fn is_over(&self) -> bool {
        let text = self.arguments.trim();
        let is_enclosed = |(open, close)| text.len() > 1 && text.starts_with(open) && text.ends_with(close);
        let may_be_over = [('{', '}'), ('[', ']'), ('"', '"')].into_iter().any(is_enclosed)
            || matches!(text, "null" | "true" | "false");
        may_be_over && is_json(text)
    }

    /// Returns `true` if this call and `piece` have different indexes.
    fn has_other_index(&self, piece: &CallPiece) -> bool {
        self.index.zip(piece.index).is_some_and(|(own, other)| own != other)
    }

    /// Returns `true` if `piece` either repeats the id and the name of this complete call, or begins
    /// another call with the same id.
    fn is_maybe_repeated_by(&self, piece: &CallPiece) -> bool {
        let has_same_id = piece.id.is_some() && self.received_id == piece.id;
        has_same_id
            && piece.name.as_ref() == Some(&self.name)
            && self.has_other_index(piece)
            && self.is_over()
    }

    /// Returns `true` if the joined pieces are calls of their own, because the index of `piece`
    /// returns: an index that counts the pieces never returns. If the joined piece with this index
    /// repeats the name, it may also be a part of this call.
    fn is_separated_by(&self, piece: &CallPiece) -> bool {
        let has_same_id = piece.id.is_none() || self.received_id == piece.id;
        let begins_call = |it: &JoinedPiece| Some(it.index) == piece.index && it.name != it.name_before;
        let is_known = piece.index.is_some() && self.index == piece.index;
        !self.joined.is_empty()
            && !self.is_announced
            && has_same_id
            && (is_known || self.joined.iter().any(begins_call))
    }

    /// Removes the joined pieces, and what followed each of them. Returns their indexes, names and
    /// arguments.
    fn split_off_joined(&mut self) -> Vec<(i64, String, String)> {
        let mut calls = Vec::new();
        for piece in take(&mut self.joined).into_iter().rev() {
            self.name = piece.name_before;
            let arguments = self.arguments.get(piece.arguments_start..).unwrap_or_default().to_owned();
            self.arguments.truncate(self.arguments.len() - arguments.len());
            calls.push((piece.index, piece.name, arguments));
        }
        calls.reverse();
        calls
    }

    /// Returns `true` if the arguments so far are `{}` and `piece` begins the actual arguments.
    fn is_replaced_by(&self, piece: &CallPiece) -> bool {
        self.arguments.trim() == "{}" && piece.arguments.trim_start().starts_with('{')
    }

    /// Returns `true` if `piece` repeats all arguments. Some servers send the whole call again at
    /// the end of a stream.
    fn is_repeated_by(&self, piece: &CallPiece) -> bool {
        let is_own =
            piece.id.as_ref().map_or(piece.name.is_none(), |id| self.received_id.as_ref() == Some(id));
        is_own && self.arguments.trim() == piece.arguments.trim() && self.is_over()
    }

    fn extend(
        &mut self,
        mut piece: CallPiece,
        index: usize,
        events: Option<&mut VecDeque<ChatEvent>>,
    ) -> Result<usize, ModelError> {
        self.is_tentative &= piece.arguments.trim().is_empty();
        if self.is_replaced_by(&piece) {
            self.joined.clear();
            self.arguments.clear();
        } else if self.is_repeated_by(&piece) {
            piece.arguments.clear();
        }
        self.add_joined(&piece);
        let added = self.add_name(piece.name.unwrap_or_default());
        let arguments = piece.arguments;
        if self.arguments.len().saturating_add(arguments.len()) > ARGUMENT_BYTES {
            let name = crate::text::truncate_with_ellipsis(&self.name, 100);
            let limit = ARGUMENT_BYTES;
            let problem = format!("the arguments of the call of \"{name}\" are longer than {limit} bytes");
            return Err(ModelError::InvalidResponse(problem));
        }
        let bytes = added + arguments.len();
        let Some(events) = events else {
            if self.arguments.is_empty() {
                self.arguments = arguments;
            } else {
                self.arguments.push_str(&arguments);
            }
            return Ok(bytes);
        };
        self.arguments.push_str(&arguments);
        if self.is_announced {
            let all_held = take(&mut self.is_empty_object_held).then(|| self.arguments.clone());
            let is_first = all_held.is_some();
            self.emit_or_hold(index, all_held.unwrap_or(arguments), is_first, events);
        } else if !self.name.is_empty()
            && !arguments.is_empty()
            && !self.is_tentative
            && (added == 0 || self.is_over())
        {
            // A name that arrives together with incomplete arguments may still be incomplete.
            self.announce(index, events);
            self.emit_or_hold(index, self.arguments.clone(), true, events);
        }
        Ok(bytes)
    }

    /// Records `piece` if it may be the beginning of another call with the same id.
    fn add_joined(&mut self, piece: &CallPiece) {
        let has_same_id = piece.id.is_some() && self.received_id == piece.id;
        let Some((index, name)) = piece.index.zip(piece.name.as_ref()) else { return };
        let is_open = !self.is_announced && self.joined.len() < REPLY_CALLS;
        if is_open && has_same_id && self.has_other_index(piece) && !self.name.is_empty() {
            let (name, name_before) = (name.clone(), self.name.clone());
            self.joined.push(JoinedPiece { index, name, name_before, arguments_start: self.arguments.len() });
        }
    }

    /// Adds `piece` to the name, unless it repeats the name. Returns the number of added bytes.
    fn add_name(&mut self, piece: String) -> usize {
        let before = self.name.len();
        if piece.starts_with(&self.name) {
            self.name = piece;
        } else {
            self.name.push_str(&piece);
        }
        self.name.len() - before
    }

    fn announce(&mut self, index: usize, events: &mut VecDeque<ChatEvent>) {
        self.is_announced = true;
        let (id, name) = (self.id().to_owned(), self.name.clone());
        events.push_back(ChatEvent::ToolCallStarted { index, id, name });
    }

    /// Emits `arguments`. If they are the first arguments and `{}`, holds them back instead.
    fn emit_or_hold(
        &mut self,
        index: usize,
        arguments: String,
        is_first: bool,
        events: &mut VecDeque<ChatEvent>,
    ) {
        self.is_empty_object_held = is_first && arguments == "{}";
        if !self.is_empty_object_held {
            self.emit(index, arguments, events);
        }
    }

    fn emit(&self, index: usize, arguments: String, events: &mut VecDeque<ChatEvent>) {
        if !arguments.is_empty() {
            events.push_back(ChatEvent::ToolCallDelta { index, arguments });
        }
    }

    fn into_call(self) -> ToolCall {
        let has_none = self.arguments.trim().is_empty();
        let id = self.generated_id.or(self.received_id).unwrap_or_default();
        ToolCall::new(id, self.name, if has_none { "{}".into() } else { self.arguments })
    }
}

impl CallPiece {
    /// Returns `true` if the arguments of this piece cannot be the beginning of an object.
    fn continues_arguments(&self) -> bool {
        self.arguments.trim_start().starts_with(|first| first != '{')
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}
