use std::mem::take;

/// Between these a model thinks before it answers, where its server does not tell the two apart.
const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Tells the thoughts at the beginning of a text from what is said. How the text is cut into pieces makes no difference.
#[derive(Debug)]
pub(super) struct Thoughts {
    place: Place,
    /// What came and belongs to neither yet.
    held: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Start,
    /// Behind the tag, where nothing is thought yet.
    Opened,
    Within,
    /// Behind the other tag, where nothing is said yet.
    Closed,
    /// All that comes is said.
    Over,
}

/// A piece of a text, told apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) thought: String,
    pub(super) said: String,
}

impl Default for Thoughts {
    fn default() -> Self {
        Self { place: Place::Start, held: String::new() }
    }
}

impl Thoughts {
    /// Takes all text for what is said.
    #[cfg(feature = "client")]
    pub(super) fn ignore(&mut self) {
        self.place = Place::Over;
    }

    pub(super) fn tell(&mut self, text: String) -> Told {
        let mut told = Told::default();
        if self.place == Place::Over {
            told.said = text;
            return told;
        }
        self.held.push_str(&text);
        while self.advance(&mut told) {}
        told
    }

    /// Whether a thought has begun and not ended.
    pub(super) fn is_within(&self) -> bool {
        matches!(self.place, Place::Opened | Place::Within)
    }

    /// Ends the text: what is left of it.
    pub(super) fn end(&mut self) -> Told {
        let rest = take(&mut self.held);
        match self.place {
            Place::Start | Place::Over => Told { said: rest, ..Told::default() },
            Place::Opened | Place::Within => Told { thought: rest.trim_end().to_owned(), ..Told::default() },
            Place::Closed => Told::default(),
        }
    }

    /// Goes on to the next place, if what is held leads there.
    fn advance(&mut self, told: &mut Told) -> bool {
        let begun = self.held.trim_start();
        match self.place {
            Place::Start => {
                let is_near = self.held.len() - begun.len() < LONGEST_BLANK;
                if let Some(rest) = begun.strip_prefix(OPEN).filter(|_| is_near) {
                    return self.go(rest.to_owned(), Place::Opened);
                }
                if OPEN.starts_with(begun) && is_near {
                    return false;
                }
                told.said = take(&mut self.held);
                self.go(String::new(), Place::Over)
            }
            // What is blank between them belongs to nobody.
            Place::Opened | Place::Closed if begun.is_empty() => {
                self.held.clear();
                false
            }
            Place::Opened => self.go(begun.to_owned(), Place::Within),
            Place::Within => {
                if let Some((thought, rest)) = self.held.split_once(CLOSE) {
                    told.thought.push_str(thought.trim_end());
                    return self.go(rest.to_owned(), Place::Closed);
                }
                let end = self.held.len() - open_end(&self.held);
                told.thought.extend(self.held.drain(..end));
                false
            }
            Place::Closed => {
                told.said = begun.to_owned();
                self.go(String::new(), Place::Over)
            }
            Place::Over => false,
        }
    }

    fn go(&mut self, held: String, place: Place) -> bool {
        (self.held, self.place) = (held, place);
        true
    }
}

/// How much that is blank is kept back, in bytes.
const LONGEST_BLANK: usize = 1 << 10;

/// How much at the end of a thought may be the end of all of it: a part of the tag, and what is blank before it.
fn open_end(thought: &str) -> usize {
    let is_begun = |part: &&str| thought.ends_with(*part);
    let part = (1..CLOSE.len()).rev().filter_map(|length| CLOSE.get(..length)).find(is_begun);
    let part = part.unwrap_or_default();
    let before = thought.strip_suffix(part).unwrap_or(thought);
    let open = thought.len() - before.trim_end().len();
    if open < LONGEST_BLANK { open } else { part.len() }
}
