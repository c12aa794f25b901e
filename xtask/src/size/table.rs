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
    pub(super) fn exceeds_bound(&self) -> bool {
        matches!(self.bound, Bound::AtMost(most) if self.value > most)
    }

    fn format_number(&self, value: f64) -> String {
        if self.unit.is_empty() { format!("{value}") } else { format!("{value:.1} {}", self.unit) }
    }
}

pub(super) fn render(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for row in rows {
        let bound = match row.bound {
            Bound::AtMost(most) => format!("at most {}", row.format_number(most)),
            Bound::None => String::new(),
        };
        let mark = if row.exceeds_bound() { "  OVER" } else { "" };
        let value = row.format_number(row.value);
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", format!("{:width$}  {value:>12}  {bound}{mark}", row.name).trim_end());
    }
    text
}
