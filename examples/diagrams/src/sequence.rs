//! Sequence diagrams in a subset of the Mermaid language, drawn as SVG.

use crate::{
    DiagramError,
    svg::{Svg, width_of},
};

/// The maximum number of participants. The number of messages has the same limit.
const MAX_ITEMS: usize = 100;

const BOX_HEIGHT: f64 = 36.0;
const BETWEEN_MESSAGES: f64 = 48.0;
const MARGIN: f64 = 30.0;

#[derive(Debug, Default, PartialEq)]
pub struct Sequence {
    participants: Vec<Participant>,
    messages: Vec<Message>,
}

#[derive(Debug, PartialEq)]
struct Participant {
    id: String,
    label: String,
}

/// A message between two participants. `from` and `to` are indices of participants in [`Sequence`].
#[derive(Debug, PartialEq)]
struct Message {
    from: usize,
    to: usize,
    text: String,
    /// `true` if the line of the message is dashed, which is usual for replies.
    is_dashed: bool,
}

/// The arrows of the Mermaid language, each with a flag that is `true` if the line is dashed.
/// Longer arrows come first, because some of them contain shorter arrows.
const ARROWS: [(&str, bool); 8] = [
    ("-->>", true),
    ("--x", true),
    ("--)", true),
    ("-->", true),
    ("->>", false),
    ("-x", false),
    ("-)", false),
    ("->", false),
];

/// The first words (in lower case) of Mermaid statements that the parser ignores.
const IGNORED_STATEMENTS: [&str; 12] = [
    "sequencediagram",
    "note",
    "activate",
    "deactivate",
    "loop",
    "alt",
    "else",
    "opt",
    "par",
    "and",
    "end",
    "autonumber",
];

impl Sequence {
    /// Parses the source of a sequence diagram. It has one message per line, such as `Alice->>Bob:
    /// Hello`.
    pub fn parse(source: &str) -> Result<Self, DiagramError> {
        let mut sequence = Self::default();
        for (line, text) in (1..).zip(source.lines()) {
            let text = text.trim().trim_end_matches(';');
            let first = text.split_whitespace().next().unwrap_or_default().to_lowercase();
            if text.is_empty() || text.starts_with("%%") || IGNORED_STATEMENTS.contains(&first.as_str()) {
                continue;
            }
            match first.as_str() {
                "participant" | "actor" => sequence.parse_participant(text.get(first.len()..).unwrap_or_default()),
                _ => sequence.parse_message(text).ok_or_else(|| {
                    let problem = format!("{text:?} is not a message: write `Alice->>Bob: text`, or `Bob-->>Alice: text` for a reply");
                    DiagramError::Syntax { line, problem }
                })?,
            }
        }
        for (found, of) in
            [(sequence.participants.len(), "participants"), (sequence.messages.len(), "messages")]
        {
            if found > MAX_ITEMS {
                return Err(DiagramError::TooMany { found, of, most: MAX_ITEMS });
            }
        }
        if sequence.messages.is_empty() {
            return Err(DiagramError::Empty("write at least one `Alice->>Bob: text`"));
        }
        Ok(sequence)
    }

    /// Returns the number of participants and the number of messages, in this order.
    pub fn size(&self) -> (usize, usize) {
        (self.participants.len(), self.messages.len())
    }

    fn parse_participant(&mut self, text: &str) {
        let (id, label) = text.split_once(" as ").unwrap_or((text, text));
        let number = self.participant_index(id);
        if let Some(participant) = self.participants.get_mut(number) {
            label.trim().clone_into(&mut participant.label);
        }
    }

    fn parse_message(&mut self, text: &str) -> Option<()> {
        let (head, words) = text.split_once(':').unwrap_or((text, ""));
        let (arrow, is_dashed) = ARROWS.into_iter().find(|(arrow, _)| head.contains(arrow))?;
        let (from, to) = head.split_once(arrow)?;
        // In Mermaid, `+` or `-` before a name activates or deactivates the participant.
        // Activations are not drawn.
        let to = to.trim().trim_start_matches(['+', '-']);
        if from.trim().is_empty() || to.is_empty() {
            return None;
        }
        let (from, to) = (self.participant_index(from), self.participant_index(to));
        self.messages.push(Message { from, to, text: words.trim().to_owned(), is_dashed });
        Some(())
    }

    /// Returns the index of the participant named `id`. Adds the participant if it is new.
    fn participant_index(&mut self, id: &str) -> usize {
        let id = id.trim();
        let known = self.participants.iter().position(|participant| participant.id == id);
        known.unwrap_or_else(|| {
            self.participants.push(Participant { id: id.to_owned(), label: id.to_owned() });
            self.participants.len() - 1
        })
    }

    /// Draws the diagram as SVG. Each participant has a vertical line, and each message has a row.
    pub fn to_svg(&self) -> String {
        let columns = self.columns();
        let column = |number: usize| columns.get(number).copied().unwrap_or_default();
        let mut svg = Svg::default();
        let (top, rows) = (MARGIN + BOX_HEIGHT / 2.0, self.messages.len() as f64);
        let bottom = top + BOX_HEIGHT / 2.0 + BETWEEN_MESSAGES * (rows + 0.5);
        for (participant, x) in self.participants.iter().zip(&columns) {
            svg.add_path(&format!("M {x:.1} {top:.1} V {bottom:.1}"), "dashed", false);
            svg.add_box((*x, top), (box_width(&participant.label), BOX_HEIGHT), &participant.label);
        }
        for (row, message) in (1..).zip(&self.messages) {
            let y = top + BOX_HEIGHT / 2.0 + BETWEEN_MESSAGES * f64::from(row) - 8.0;
            let (from, to) = (column(message.from), column(message.to));
            let class = if message.is_dashed { "dashed" } else { "line" };
            if message.from == message.to {
                svg.add_path(&format!("M {from:.1} {:.1} h 36 v 18 h -34", y - 9.0), class, true);
                svg.add_text((from + 44.0, y), &message.text, "start");
            } else {
                svg.add_path(&format!("M {from:.1} {y:.1} H {to:.1}"), class, true);
                svg.add_text(((from + to) / 2.0, y - 14.0), &message.text, "middle");
            }
        }
        svg.add_text((0.0, bottom), " ", "start");
        svg.finish(MARGIN)
    }

    /// Returns the x coordinate of each participant. Any two participants are far enough apart for
    /// the texts of the messages between them.
    fn columns(&self) -> Vec<f64> {
        let mut columns: Vec<f64> = Vec::new();
        for (number, participant) in self.participants.iter().enumerate() {
            let half = box_width(&participant.label) / 2.0;
            let mut x = MARGIN + half;
            if let Some((before, known)) = columns.last().zip(self.participants.get(number.wrapping_sub(1))) {
                x = before + box_width(&known.label) / 2.0 + 30.0 + half;
            }
            for message in &self.messages {
                let (left, right) = (message.from.min(message.to), message.from.max(message.to));
                let loops = left == right && left + 1 == number;
                let room = width_of(&message.text) + if loops { 60.0 } else { 24.0 };
                if let Some(start) = columns.get(left).filter(|_| right == number || loops) {
                    x = x.max(start + room);
                }
            }
            columns.push(x);
        }
        columns
    }
}

fn box_width(label: &str) -> f64 {
    width_of(label).max(50.0) + 24.0
}
