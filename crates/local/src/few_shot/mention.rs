//! Detection of tool results that an answer does not mention.

/// The maximum number of words in an acknowledgement, such as `saved`. A result with a number is
/// never an acknowledgement.
const MAX_ACKNOWLEDGEMENT_WORDS: usize = 3;

/// Returns `true` if `answer` contains at least one word of each result. Acknowledgements such as
/// `saved` need not be mentioned.
///
/// This check detects incomplete answers: a small model may stop after it has answered the first of
/// two questions.
pub(super) fn mentions_all(answer: &str, results: &[String]) -> bool {
    let answer_words: Vec<_> = words(answer).collect();
    results.iter().all(|result| {
        let words: Vec<_> = words(result).collect();
        let has_content = words.len() > MAX_ACKNOWLEDGEMENT_WORDS
            || words.iter().any(|word| word.contains(char::is_numeric));
        !has_content
            || words
                .iter()
                .any(|word| answer_words.iter().any(|answer_word| is_same_or_prefix(answer_word, word)))
    })
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|it: char| !it.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase)
}

/// Returns `true` if the words `one` and `other` are equal, or if one of them has at least two
/// characters and is a prefix of the other. For example, `123` (in "123 million") is a prefix
/// of `123000000`.
fn is_same_or_prefix(one: &str, other: &str) -> bool {
    let shorter = one.chars().count().min(other.chars().count());
    one == other || (shorter > 1 && (one.starts_with(other) || other.starts_with(one)))
}

#[cfg(test)]
mod tests;
