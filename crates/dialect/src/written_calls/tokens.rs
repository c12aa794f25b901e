//! Special tokens around and between calls.

/// Tokens that end a reply or a message. Some servers leave them in the text.
const END_TOKENS: [&str; 11] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end_of_sentence|>",
    "<|call|>",
    "<|return|>",
    "<end_of_turn>",
    "</s>",
];

/// Skips whitespace, commas, semicolons and end tokens.
pub(super) fn skip_separators(text: &str) -> &str {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|letter: char| letter.is_whitespace() || ",;".contains(letter));
        match END_TOKENS.iter().find_map(|token| strip_token(rest, token)) {
            Some(after) => rest = after,
            None => return rest,
        }
    }
}

/// Removes `token` from the start of `text`. In the text, the token can be written with the
/// full-width bars and the block spaces of DeepSeek, as in `<｜tool▁calls▁begin｜>`.
pub(super) fn strip_token<'t>(text: &'t str, token: &str) -> Option<&'t str> {
    let mut rest = text.chars();
    for expected in token.chars() {
        (plain(rest.next()?) == expected).then_some(())?;
    }
    Some(rest.as_str())
}

/// Splits `text` at the first `token`. Returns `None` if the text does not contain it.
pub(super) fn split_token<'t>(text: &'t str, token: &str) -> Option<(&'t str, &'t str)> {
    let first = token.chars().next()?;
    text.match_indices(first).find_map(|(index, _)| {
        let after = strip_token(text.get(index..)?, token)?;
        Some((text.get(..index)?, after))
    })
}

/// Returns `true` if `text` is a prefix of `token` or equal to it.
pub(super) fn is_token_prefix(text: &str, token: &str) -> bool {
    let mut expected = token.chars();
    text.chars().all(|letter| expected.next() == Some(plain(letter)))
}

fn plain(letter: char) -> char {
    match letter {
        '｜' => '|',
        '▁' => '_',
        other => other,
    }
}
