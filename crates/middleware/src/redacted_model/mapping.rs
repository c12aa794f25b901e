//! The placeholders of a request.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
    sync::Arc,
};

use haft_core::Message;
use serde_json::Value;

use super::{ReversibleRedaction, map_message};

/// The placeholders of the values in a request.
pub(super) struct Mapping {
    /// The placeholder of each value.
    placeholders: HashMap<String, String>,
    /// The value of each placeholder.
    values: BTreeMap<String, String>,
}

/// The values in a message, cached in the message.
struct DetectedValues {
    redaction: ReversibleRedaction,
    /// Each value with the index of its detector, in order.
    values: Vec<(String, usize)>,
    /// The texts of the message that look like placeholders. They must not be used for values.
    reserved: BTreeSet<String>,
}

/// A redacted message, cached in the original message.
struct RedactedMessage {
    redaction: ReversibleRedaction,
    placeholders: Vec<String>,
    message: Arc<Message>,
}

impl Mapping {
    /// Assigns a placeholder to each value in `messages` and `instructions`. Returns `None` if
    /// there are no values.
    ///
    /// The values in `instructions` have numbers of their own, because instructions can change
    /// between two requests of a conversation, and messages are only appended. Neither of them
    /// changes the numbers of the other.
    pub(super) fn new<'a>(
        redaction: &ReversibleRedaction,
        messages: impl Iterator<Item = &'a Arc<Message>>,
        instructions: Option<&Arc<Message>>,
    ) -> Option<Self> {
        let messages: Vec<_> = messages.map(|message| DetectedValues::of(redaction, message)).collect();
        let instructions = instructions.map(|message| DetectedValues::of(redaction, message));
        if messages.iter().chain(&instructions).all(|it| it.values.is_empty()) {
            return None;
        }
        let reserved: BTreeSet<_> =
            messages.iter().chain(&instructions).flat_map(|it| &it.reserved).collect();
        let mut mapping = Self { placeholders: HashMap::new(), values: BTreeMap::new() };
        mapping.add(redaction, "", messages.iter().flat_map(|it| &it.values), &reserved);
        mapping.add(redaction, "I", instructions.iter().flat_map(|it| &it.values), &reserved);
        Some(mapping)
    }

    /// Adds placeholders for `values`, numbered from 1 with `prefix` before the number. A value
    /// with a placeholder of another prefix gets a second placeholder for replies, so that the
    /// meaning of a placeholder remains the same if the value is later added to the messages.
    fn add<'a>(
        &mut self,
        redaction: &ReversibleRedaction,
        prefix: &str,
        values: impl Iterator<Item = &'a (String, usize)>,
        reserved: &BTreeSet<&String>,
    ) {
        let mut counts = vec![0_usize; redaction.0.len()];
        let mut added = BTreeSet::new();
        for (value, detector) in values {
            let (Some(kind), Some(count)) = (redaction.0.get(*detector), counts.get_mut(*detector)) else {
                continue;
            };
            if !added.insert(value) {
                continue;
            }
            let placeholder = loop {
                *count += 1;
                let placeholder = format!("[{}_{prefix}{count}]", kind.kind);
                // Two detectors can have the same kind.
                if !reserved.contains(&placeholder) && !self.values.contains_key(&placeholder) {
                    break placeholder;
                }
            };
            self.placeholders.entry(value.clone()).or_insert_with(|| placeholder.clone());
            self.values.insert(placeholder, value.clone());
        }
    }

    /// Returns `message` with placeholders. A message without values is returned unchanged, so its
    /// cached encoding and its provider data stay the same.
    pub(super) fn redact(&self, redaction: &ReversibleRedaction, message: &Arc<Message>) -> Arc<Message> {
        let detected = DetectedValues::of(redaction, message);
        if detected.values.is_empty() {
            return Arc::clone(message);
        }
        let own = detected.values.iter().filter_map(|(value, _)| self.placeholders.get(value).cloned());
        let placeholders: Vec<_> = own.collect();
        let compute = |message: &Message, placeholders: Vec<String>| RedactedMessage {
            redaction: redaction.clone(),
            placeholders,
            message: Arc::new(map_message(message, &mut |text| self.redact_text(redaction, text))),
        };
        let cached = message.memoize(|message| compute(message, placeholders.clone()));
        if Arc::ptr_eq(&cached.redaction.0, &redaction.0) && cached.placeholders == placeholders {
            return Arc::clone(&cached.message);
        }
        compute(message, placeholders).message
    }

    fn redact_text(&self, redaction: &ReversibleRedaction, text: &str) -> Option<String> {
        let found = redaction.find(text);
        if found.is_empty() {
            return None;
        }
        let (mut redacted, mut from) = (String::with_capacity(text.len()), 0);
        for (range, _) in found {
            let value = text.get(range.clone()).unwrap_or_default();
            redacted += text.get(from..range.start).unwrap_or_default();
            redacted += self.placeholders.get(value).map_or(value, String::as_str);
            from = range.end;
        }
        redacted += text.get(from..).unwrap_or_default();
        Some(redacted)
    }

    /// Replaces the placeholders in `text` with their values. Values are escaped for a JSON string
    /// if `is_json` is `true`. Returns `None` if `text` contains no placeholder.
    pub(super) fn restore(&self, text: &str, is_json: bool) -> Option<String> {
        let (mut restored, mut from) = (String::new(), 0);
        for (start, _) in text.match_indices('[') {
            let rest = text.get(start..).unwrap_or_default();
            let Some(end) = rest.find(']') else { break };
            let placeholder = rest.get(..=end).unwrap_or_default();
            let Some(value) = self.values.get(placeholder) else { continue };
            restored += text.get(from..start).unwrap_or_default();
            if is_json {
                let quoted = Value::from(value.as_str()).to_string();
                restored += quoted.strip_prefix('"').and_then(|it| it.strip_suffix('"')).unwrap_or(&quoted);
            } else {
                restored += value;
            }
            from = start + end + 1;
        }
        (from > 0).then(|| restored + text.get(from..).unwrap_or_default())
    }

    /// Returns the length of the longest start of a placeholder at the end of `text`.
    pub(super) fn open_len(&self, text: &str) -> usize {
        let Some(start) = text.rfind('[') else { return 0 };
        let tail = text.get(start..).unwrap_or_default();
        // The first placeholder that is not before `tail` begins with it if any does.
        let next = self.values.range::<str, _>((Bound::Included(tail), Bound::Unbounded)).next();
        let is_open = next
            .is_some_and(|(placeholder, _)| placeholder.len() > tail.len() && placeholder.starts_with(tail));
        if is_open { tail.len() } else { 0 }
    }
}

impl DetectedValues {
    fn of(redaction: &ReversibleRedaction, message: &Arc<Message>) -> Arc<Self> {
        let cached = message.memoize(|message| Self::compute(redaction, message));
        if Arc::ptr_eq(&cached.redaction.0, &redaction.0) {
            return cached;
        }
        Arc::new(Self::compute(redaction, message))
    }

    fn compute(redaction: &ReversibleRedaction, message: &Message) -> Self {
        let (mut values, mut reserved) = (Vec::new(), BTreeSet::new());
        map_message(message, &mut |text| {
            for (range, detector) in redaction.find(text) {
                values.push((text.get(range).unwrap_or_default().to_owned(), detector));
            }
            for (start, _) in text.match_indices('[') {
                let rest = text.get(start..).unwrap_or_default();
                let literal = rest.find(']').and_then(|end| rest.get(..=end)).unwrap_or_default();
                let is_like = |kind: &str| literal.get(1..).is_some_and(|it| it.starts_with(kind));
                if redaction.0.iter().any(|detector| is_like(&detector.kind)) {
                    reserved.insert(literal.to_owned());
                }
            }
            None
        });
        Self { redaction: redaction.clone(), values, reserved }
    }
}
