//! The questions, and what is right.

/// One question.
pub(crate) struct Case {
    pub(crate) prompt: &'static str,
    pub(crate) tool: &'static str,
    /// The arguments, each with the values that are right. An empty text stands for an argument that is left out.
    pub(crate) arguments: &'static [(&'static str, &'static [&'static str])],
    /// What the answer must contain: of each group one.
    pub(crate) answer: &'static [&'static [&'static str]],
}

const ADD: &str = "add";
const DATETIME: &str = "get_current_datetime";
const SEARCH: &str = "search_files";

pub(crate) const CASES: [Case; 9] = [
    Case {
        prompt: "What is 17 plus 25?",
        tool: ADD,
        arguments: &[("a", &["17"]), ("b", &["25"])],
        answer: &[&["42"]],
    },
    Case {
        prompt: "Please add 3.5 and 4.",
        tool: ADD,
        arguments: &[("a", &["3.5"]), ("b", &["4"])],
        answer: &[&["7.5"]],
    },
    Case {
        prompt: "Calculate the sum of -8 and 100.",
        tool: ADD,
        arguments: &[("a", &["-8"]), ("b", &["100"])],
        answer: &[&["92"]],
    },
    Case {
        prompt: "What time is it right now?",
        tool: DATETIME,
        arguments: &[("timezone", &["", "UTC", "Etc/UTC", "GMT"])],
        answer: &[&["09:26", "9:26"]],
    },
    Case {
        prompt: "What is the current date and time in Tokyo?",
        tool: DATETIME,
        arguments: &[("timezone", &["Asia/Tokyo"])],
        answer: &[&["2027-03-14", "March 14", "14 March", "14th of March"], &["18:26", "6:26"]],
    },
    Case {
        prompt: "Tell me today's date in Europe/Paris.",
        tool: DATETIME,
        arguments: &[("timezone", &["Europe/Paris"])],
        answer: &[&["2027-03-14", "March 14", "14 March", "14th of March"]],
    },
    Case {
        prompt: "Find all rust files (*.rs) in the src directory.",
        tool: SEARCH,
        arguments: &[("directory", &["src", "./src"]), ("pattern", &["*.rs"]), ("max_results", &["", "100"])],
        answer: &[&["main.rs"], &["parser.rs"]],
    },
    Case {
        prompt: "List the files named *.md in /home/user/docs.",
        tool: SEARCH,
        arguments: &[
            ("directory", &["/home/user/docs"]),
            ("pattern", &["*.md"]),
            ("max_results", &["", "100"]),
        ],
        answer: &[&["notes.md"], &["todo.md"]],
    },
    Case {
        prompt: "Search /var/log for files matching *.log, at most 5 results.",
        tool: SEARCH,
        arguments: &[("directory", &["/var/log"]), ("pattern", &["*.log"]), ("max_results", &["5"])],
        answer: &[&["boot.log"], &["kernel.log"]],
    },
];
