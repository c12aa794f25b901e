use std::{error::Error, fmt};

/// An error with what caused it, on one line, as [`Display`](fmt::Display): for people, who read no `source`.
///
/// # Examples
///
/// ```
/// use haft_text::WithCauses;
///
/// let error = "x".parse::<u8>().map_err(|cause| std::io::Error::other(cause)).unwrap_err();
/// assert_eq!(WithCauses(&error).to_string(), "invalid digit found in string");
/// ```
#[derive(Debug)]
pub struct WithCauses<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for WithCauses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.to_string();
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let below = error.to_string();
            // Some errors say what caused them themselves.
            if !text.contains(&below) {
                text.push_str(": ");
                text.push_str(&below);
            }
            cause = error.source();
        }
        f.write_str(&text)
    }
}
