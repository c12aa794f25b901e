//! Names of functions. Gemini requires a letter or an underscore at the beginning of a name. The
//! name of a tool can begin with a digit or a hyphen.

use std::borrow::Cow;

use haft_core::ToolName;

/// The prefix of a name that Gemini would reject. The dot is allowed in the name of a function, but
/// not in the name of a tool, so two tools never get the same name.
const PREFIX: &str = "_.";

/// Returns the name that is sent for the tool or call `name`. The name of a call can be invalid,
/// because a model can write anything. It is sent as a valid name derived from it, because Gemini
/// would reject each later request of the conversation.
pub(crate) fn wire_name(name: &str) -> Cow<'_, str> {
    let valid = if ToolName::new(name).is_ok() {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(ToolName::sanitize(name).as_str().to_owned())
    };
    if valid.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        valid
    } else {
        Cow::Owned(format!("{PREFIX}{valid}"))
    }
}

/// Returns the name of the tool that is sent as `wire_name`.
pub(crate) fn tool_name(wire_name: &str) -> &str {
    wire_name.strip_prefix(PREFIX).unwrap_or(wire_name)
}

#[cfg(test)]
mod tests {
    use super::{tool_name, wire_name};

    #[test]
    fn names_begin_with_a_letter_or_an_underscore() {
        for (name, wire) in
            [("add", "add"), ("_x", "_x"), ("3d_print", "_.3d_print"), ("-x", "_.-x"), ("_-3d", "_-3d")]
        {
            assert_eq!(wire_name(name), wire);
            assert_eq!(tool_name(wire), name);
        }
        assert!(wire_name("get weather").starts_with("get_weather_"));
    }
}
