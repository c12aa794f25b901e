//! Text, heard as bytes and told as text.

#[cfg(test)]
mod tests;

use super::Outlet;
use crate::engine::Attention;

/// Collects the text of a reply and tells it as it comes, up to a stop text.
pub(super) struct Prose<'a> {
    outlet: &'a Outlet,
    stops: Vec<&'a str>,
    /// What stops the reply, too: beginnings of lines, each with the line end before it.
    lines: Vec<&'a str>,
    /// All that was heard, with the white space before the first word, which is no part of the reply.
    text: String,
    /// The beginning of a character whose other bytes are yet to come.
    partial: Vec<u8>,
    told: usize,
    /// Whether the user's stop text came.
    is_stopped: bool,
}

impl<'a> Prose<'a> {
    pub(super) fn new(outlet: &'a Outlet, stops: Vec<&'a str>, lines: Vec<&'a str>) -> Self {
        Self { outlet, stops, lines, text: String::new(), partial: Vec::new(), told: 0, is_stopped: false }
    }

    /// Takes more bytes.
    pub(super) fn hear(&mut self, bytes: &[u8]) -> Attention {
        self.partial.extend(bytes);
        self.decode();
        let begin = self.begin();
        let words = self.text.get(begin..).unwrap_or_default();
        let stop = self.stops.iter().filter_map(|stop| words.find(stop)).map(|place| begin + place).min();
        let line = self.lines.iter().filter_map(|line| self.text.find(line)).min();
        if let Some(end) = stop.into_iter().chain(line).min() {
            self.text.truncate(end);
            self.is_stopped |= stop == Some(end);
            return Attention::Satisfied;
        }
        self.tell(self.safe());
        self.outlet.attention()
    }

    /// Whether there is no more to hear, by the user's wish.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// What was said so far.
    pub(super) fn said(&self) -> &str {
        &self.text
    }

    /// Goes on behind what was said, which was not all, and gives it as it is to go on.
    pub(super) fn resume(&mut self) -> &str {
        self.partial.clear();
        self.text.truncate(self.text.trim_end().len().max(self.told));
        if !self.text.trim().is_empty() && !self.text.ends_with(['.', '!', '?', ':', ',']) {
            self.text.push_str(", and");
        }
        &self.text
    }

    /// The whole text.
    pub(super) fn end(mut self) -> String {
        self.text.truncate(self.text.trim_end().len().max(self.told));
        self.tell(self.text.len());
        self.text.split_off(self.begin())
    }

    /// Moves whole characters to the text.
    fn decode(&mut self) {
        let bytes = std::mem::take(&mut self.partial);
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.text.push_str(chunk.valid());
            match str::from_utf8(chunk.invalid()) {
                Ok(_) => {}
                Err(error) if error.error_len().is_none() && chunks.peek().is_none() => {
                    self.partial = chunk.invalid().to_vec();
                }
                Err(_) => self.text.push(char::REPLACEMENT_CHARACTER),
            }
        }
    }

    /// Where the first word begins.
    fn begin(&self) -> usize {
        self.text.len() - self.text.trim_start().len()
    }

    fn tell(&mut self, end: usize) {
        let from = self.told.max(self.begin());
        self.outlet.text(self.text.get(from..end).unwrap_or_default());
        self.told = from.max(end);
    }

    /// How much can be told: not what may be the beginning of a stop text.
    fn safe(&self) -> usize {
        let held = |stop: &&str| {
            let starts = stop.char_indices().map(|(index, _)| index).skip(1);
            starts.filter(|length| self.text.ends_with(stop.get(..*length).unwrap_or_default())).max()
        };
        let longest = self.stops.iter().chain(&self.lines).filter_map(held).max();
        self.text.len() - longest.unwrap_or_default()
    }
}
