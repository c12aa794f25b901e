use std::any::Any;

/// Returns the message of a caught panic, or `(no text)` if `payload` is not a string.
///
/// The message may contain sensitive data. Log it at the level `debug`, and omit it from errors.
///
/// # Examples
///
/// ```
/// use std::panic::catch_unwind;
///
/// let panic = catch_unwind(|| panic!("no value")).unwrap_err();
/// assert_eq!(haft_text::panic_text(&*panic), "no value");
/// ```
pub fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no text)")
}
