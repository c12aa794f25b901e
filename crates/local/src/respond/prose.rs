//! Text, heard as bytes and told as text.

use super::Outlet;
use crate::engine::Attention;

/// Collects the text of a reply and tells it as it comes, up to a stop text.
pub(super) struct Prose<'a> {
    outlet: &'a Outlet,
    stops: Vec<&'a str>,
    text: String,
    /// The beginning of a character whose other bytes are yet to come.
    partial: Vec<u8>,
    told: usize,
}

impl<'a> Prose<'a> {
    pub(super) fn new(outlet: &'a Outlet, stops: Vec<&'a str>) -> Self {
        Self { outlet, stops, text: String::new(), partial: Vec::new(), told: 0 }
    }

    /// Takes more bytes.
    pub(super) fn hear(&mut self, bytes: &[u8]) -> Attention {
        self.partial.extend(bytes);
        for chunk in std::mem::take(&mut self.partial).utf8_chunks() {
            self.text.push_str(chunk.valid());
            match chunk.invalid() {
                [] => {}
                // A character has four bytes at most; what is longer will never become one.
                unfinished if unfinished.len() < 4 => self.partial = unfinished.to_vec(),
                _ => self.text.push(char::REPLACEMENT_CHARACTER),
            }
        }
        if self.told == 0 {
            self.text.replace_range(..self.text.len() - self.text.trim_start().len(), "");
        }
        if let Some(end) = self.stops.iter().filter_map(|stop| self.text.find(stop)).min() {
            self.text.truncate(end);
            return Attention::Satisfied;
        }
        self.tell(self.safe());
        self.outlet.attention()
    }

    /// The whole text.
    pub(super) fn end(mut self) -> String {
        self.text.truncate(self.text.trim_end().len().max(self.told));
        self.tell(self.text.len());
        self.text
    }

    fn tell(&mut self, end: usize) {
        self.outlet.text(self.text.get(self.told..end).unwrap_or_default());
        self.told = self.told.max(end);
    }

    /// How much can be told: not what may be the beginning of a stop text.
    fn safe(&self) -> usize {
        let held = |stop: &&str| {
            let starts = stop.char_indices().map(|(index, _)| index).skip(1);
            starts.filter(|length| self.text.ends_with(stop.get(..*length).unwrap_or_default())).max()
        };
        self.text.len() - self.stops.iter().filter_map(held).max().unwrap_or_default()
    }
}
