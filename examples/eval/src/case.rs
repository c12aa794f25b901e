//! The questions of the evaluation, with the expected tool calls and answers.

/// A question with its expected tool calls and answer.
pub(crate) struct Case {
    pub(crate) prompt: &'static str,
    /// The expected tool calls, in any order.
    pub(crate) calls: &'static [Call],
    /// Groups of texts. A right answer contains at least one text of each group.
    pub(crate) answer: &'static [&'static [&'static str]],
}

/// An expected tool call.
pub(crate) struct Call {
    pub(crate) tool: &'static str,
    /// The expected arguments, each with its accepted values. If the accepted values include the
    /// empty string, the argument may be omitted.
    pub(crate) arguments: &'static [(&'static str, &'static [&'static str])],
}

const fn add(arguments: &'static [(&'static str, &'static [&'static str])]) -> Call {
    Call { tool: "add", arguments }
}

const fn datetime(arguments: &'static [(&'static str, &'static [&'static str])]) -> Call {
    Call { tool: "get_current_datetime", arguments }
}

const fn search(arguments: &'static [(&'static str, &'static [&'static str])]) -> Call {
    Call { tool: "search_files", arguments }
}

const UTC: &[&str] = &["", "UTC", "Etc/UTC", "GMT"];
const TODAY: &[&str] = &["2027-03-14", "March 14", "14 March", "14th of March"];
const MANY: &[&str] = &["", "100"];

/// The questions that need one tool call.
pub(crate) const CASES: [Case; 9] = [
    Case {
        prompt: "What is 17 plus 25?",
        calls: &[add(&[("a", &["17"]), ("b", &["25"])])],
        answer: &[&["42"]],
    },
    Case {
        prompt: "Please add 3.5 and 4.",
        calls: &[add(&[("a", &["3.5"]), ("b", &["4"])])],
        answer: &[&["7.5"]],
    },
    Case {
        prompt: "Calculate the sum of -8 and 100.",
        calls: &[add(&[("a", &["-8"]), ("b", &["100"])])],
        answer: &[&["92"]],
    },
    Case {
        prompt: "What time is it right now?",
        calls: &[datetime(&[("timezone", UTC)])],
        answer: &[&["09:26", "9:26"]],
    },
    Case {
        prompt: "What is the current date and time in Tokyo?",
        calls: &[datetime(&[("timezone", &["Asia/Tokyo"])])],
        answer: &[TODAY, &["18:26", "6:26"]],
    },
    Case {
        prompt: "Tell me today's date in Europe/Paris.",
        calls: &[datetime(&[("timezone", &["Europe/Paris"])])],
        answer: &[TODAY],
    },
    Case {
        prompt: "Find all rust files (*.rs) in the src directory.",
        calls: &[search(&[("directory", &["src", "./src"]), ("pattern", &["*.rs"]), ("max_results", MANY)])],
        answer: &[&["main.rs"], &["parser.rs"]],
    },
    Case {
        prompt: "List the files named *.md in /home/user/docs.",
        calls: &[search(&[
            ("directory", &["/home/user/docs"]),
            ("pattern", &["*.md"]),
            ("max_results", MANY),
        ])],
        answer: &[&["notes.md"], &["todo.md"]],
    },
    Case {
        prompt: "Search /var/log for files matching *.log, at most 5 results.",
        calls: &[search(&[("directory", &["/var/log"]), ("pattern", &["*.log"]), ("max_results", &["5"])])],
        answer: &[&["boot.log"], &["kernel.log"]],
    },
];

/// The questions that need two tool calls. In some of them, the second call needs the result of the
/// first.
pub(crate) const TWO_STEPS: [Case; 6] = [
    Case {
        prompt: "First add 17 and 25. Then add 100 to the result. What is the end result?",
        calls: &[
            add(&[("a", &["17"]), ("b", &["25"])]),
            add(&[("a", &["42", "100"]), ("b", &["100", "42"])]),
        ],
        answer: &[&["142"]],
    },
    Case {
        prompt: "What is 17 plus 25, and what time is it in Tokyo?",
        calls: &[add(&[("a", &["17"]), ("b", &["25"])]), datetime(&[("timezone", &["Asia/Tokyo"])])],
        answer: &[&["42"], &["18:26", "6:26"]],
    },
    Case {
        prompt: "Find all *.rs files in src, and all *.log files in /var/log.",
        calls: &[
            search(&[("directory", &["src", "./src"]), ("pattern", &["*.rs"]), ("max_results", MANY)]),
            search(&[("directory", &["/var/log"]), ("pattern", &["*.log"]), ("max_results", MANY)]),
        ],
        answer: &[&["main.rs"], &["parser.rs"], &["boot.log"], &["kernel.log"]],
    },
    Case {
        prompt: "Add 3.5 and 4, and then add 10 to the sum. Tell me the final number.",
        calls: &[
            add(&[("a", &["3.5"]), ("b", &["4"])]),
            add(&[("a", &["7.5", "10"]), ("b", &["10", "7.5"])]),
        ],
        answer: &[&["17.5"]],
    },
    Case {
        prompt: "What is today's date in Europe/Paris, and what is 8 plus 9?",
        calls: &[datetime(&[("timezone", &["Europe/Paris"])]), add(&[("a", &["8"]), ("b", &["9"])])],
        answer: &[TODAY, &["17"]],
    },
    Case {
        prompt: "List the *.md files in /home/user/docs, and tell me the current time in UTC.",
        calls: &[
            search(&[("directory", &["/home/user/docs"]), ("pattern", &["*.md"]), ("max_results", MANY)]),
            datetime(&[("timezone", UTC)]),
        ],
        answer: &[&["notes.md"], &["todo.md"], &["09:26", "9:26"]],
    },
];

/// Returns at most three of the questions in `cases`, so that the comparison takes less time.
pub(crate) fn sample(cases: &'static [Case]) -> Vec<&'static Case> {
    cases.iter().step_by(cases.len().div_ceil(3)).collect()
}
