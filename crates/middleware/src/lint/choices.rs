/// Returns the allowed values listed in `description`, or an empty vector if it contains no list.
///
/// A list has at least two values. Each value has at most 32 bytes and consists of letters, digits
/// and the characters `_-./+`. The list has the form `a|b|c`, or its values are in quotes and are
/// separated only by spaces, `,`, `/`, `|`, `;`, `or` and `and`. Quoted values after words such as
/// "for instance" are examples, so they are not returned.
pub(super) fn find_choices(description: &str) -> Vec<String> {
    let piped = description.split_whitespace().find_map(parse_piped);
    piped
        .or_else(|| ['"', '\'', '`'].into_iter().find_map(|quote| parse_quoted(description, quote)))
        .unwrap_or_default()
}

fn parse_piped(word: &str) -> Option<Vec<String>> {
    let word = word.trim_matches(|it: char| !it.is_alphanumeric());
    let choices: Vec<_> = word.split('|').map(str::to_owned).collect();
    (choices.len() > 1 && choices.iter().all(|choice| is_choice(choice))).then_some(choices)
}

fn parse_quoted(description: &str, quote: char) -> Option<Vec<String>> {
    let pieces: Vec<_> = description.split(quote).collect();
    let lead = pieces.first()?.to_lowercase();
    // Quoted values after these words are only examples, so other values are allowed too.
    let are_examples =
        ["such as", "like", "e.g.", "example", "for instance"].iter().any(|it| lead.contains(it));
    // `description` was split at its quotes, so the pieces with an odd index are quoted, and the
    // pieces with an even index are not.
    let inside: Vec<_> = pieces.iter().skip(1).step_by(2).copied().collect();
    let between = pieces.iter().skip(2).step_by(2).take(inside.len().saturating_sub(1));
    let is_list = between.into_iter().all(|text| is_separator(text));
    let all_short = inside.iter().all(|choice| is_choice(choice));
    let is_closed = pieces.len() % 2 == 1;
    let choices = || inside.iter().map(|choice| (*choice).to_owned()).collect();
    (is_closed && !are_examples && inside.len() > 1 && is_list && all_short).then(choices)
}

fn is_choice(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 32
        && text.chars().all(|it| it.is_alphanumeric() || "_-./+".contains(it))
}

fn is_separator(text: &str) -> bool {
    let words =
        text.split(|it: char| it.is_whitespace() || ",/|;".contains(it)).filter(|word| !word.is_empty());
    words.into_iter().all(|word| ["or", "and"].contains(&word))
}
