/// A result of so many words without a number only says that something was done.
const ACKNOWLEDGEMENT: usize = 3;

/// Whether an answer has something of each of these results, unless they only say that something was done.
///
/// A small model that was asked for two things may stop behind the first.
pub(super) fn mentions_all(answer: &str, results: &[String]) -> bool {
    let said: Vec<_> = words(answer).collect();
    results.iter().all(|result| {
        let words: Vec<_> = words(result).collect();
        let informs =
            words.len() > ACKNOWLEDGEMENT || words.iter().any(|word| word.contains(char::is_numeric));
        !informs || words.iter().any(|word| said.iter().any(|said| is_same(said, word)))
    })
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|it: char| !it.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase)
}

/// Whether two words are one, as far as both go: 123 million is 123000000. One character says nothing of a longer word.
fn is_same(one: &str, other: &str) -> bool {
    let shorter = one.chars().count().min(other.chars().count());
    one == other || (shorter > 1 && (one.starts_with(other) || other.starts_with(one)))
}

#[cfg(test)]
mod tests;
