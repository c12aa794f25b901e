use std::{error::Error, fmt};

/// A one-line display of an error and its [sources](Error::source), separated by `: `.
///
/// A source is omitted if its text is already part of the line, because some errors repeat their
/// cause.
///
/// # Examples
///
/// ```
/// use haft_text::ErrorChain;
///
/// let error = std::io::Error::other("x".parse::<u8>().unwrap_err());
/// assert_eq!(ErrorChain(&error).to_string(), "invalid digit found in string");
/// ```
#[derive(Debug)]
pub struct ErrorChain<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.to_string();
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let below = error.to_string();
            if !text.contains(&below) {
                text.push_str(": ");
                text.push_str(&below);
            }
            cause = error.source();
        }
        f.write_str(&text)
    }
}
