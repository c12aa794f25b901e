//! Pretty-prints JSON, with each short value on one line.

use std::fmt::{self, Write};

use serde_json::Value;

/// The maximum length of a line that contains a whole object or array, in bytes including the
/// indentation. Longer objects and arrays are split into several lines.
const MAX_LINE_BYTES: usize = 110;

/// Writes `value` to `out`, followed by a line break.
pub(super) fn write(value: &Value, out: &mut impl Write) -> fmt::Result {
    write_inside(value, 0, out)?;
    out.write_char('\n')
}

/// Writes `value`, indented for a nesting depth of `depth`. The recursion is bounded, because the
/// nesting depth of recorded values is limited.
fn write_inside(value: &Value, depth: usize, out: &mut impl Write) -> fmt::Result {
    let line = value.to_string();
    if depth * 2 + line.len() <= MAX_LINE_BYTES {
        return out.write_str(&line);
    }
    match value {
        Value::Array(items) if !items.is_empty() => {
            let items = items.iter().map(|item| (None, item));
            write_parts(['[', ']'], items, depth, out)
        }
        Value::Object(members) if !members.is_empty() => {
            let members = members.iter().map(|(name, member)| (Some(name.as_str()), member));
            write_parts(['{', '}'], members, depth, out)
        }
        _ => out.write_str(&line),
    }
}

fn write_parts<'v>(
    [open, close]: [char; 2],
    parts: impl Iterator<Item = (Option<&'v str>, &'v Value)>,
    depth: usize,
    out: &mut impl Write,
) -> fmt::Result {
    out.write_char(open)?;
    for (index, (name, part)) in parts.enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(out, "{comma}\n{:indent$}", "", indent = (depth + 1) * 2)?;
        if let Some(name) = name {
            write!(out, "{}: ", Value::from(name))?;
        }
        write_inside(part, depth + 1, out)?;
    }
    write!(out, "\n{:indent$}{close}", "", indent = depth * 2)
}
