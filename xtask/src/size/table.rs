//! Formats measurements as a table.

use std::fmt::Write as _;

/// The upper bound on a measured value, if there is a bound. A value equal to the bound is allowed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    AtMost(f64),
    None,
}

/// A measured value and its bound, as a row of the table.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    pub(super) bound: Bound,
}

impl Row {
    pub(super) fn is_over(&self) -> bool {
        matches!(self.bound, Bound::AtMost(most) if self.value > most)
    }

    fn number(&self, value: f64) -> String {
        if self.unit.is_empty() { format!("{value}") } else { format!("{value:.1} {}", self.unit) }
    }
}

pub(super) fn render(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for row in rows {
        let bound = match row.bound {
            Bound::AtMost(most) => format!("at most {}", row.number(most)),
            Bound::None => String::new(),
        };
        let mark = if row.is_over() { "  OVER" } else { "" };
        let value = row.number(row.value);
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", format!("{:width$}  {value:>12}  {bound}{mark}", row.name).trim_end());
    }
    text
}
