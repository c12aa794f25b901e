//! The table of the `cargo xtask` commands.

use crate::failure::Failure;
use crate::{
    bench, chaos, ci, conformance, demo, doc, eval, example, fuzz, minimal_versions, models, peers, setup,
    size, test, tidy,
};

/// A command of `cargo xtask`.
pub(crate) struct Command {
    pub(crate) name: &'static str,
    /// The arguments of the command, as the usage text shows them.
    pub(crate) arguments: &'static str,
    pub(crate) about: &'static str,
    /// `true` if the command passes `--help` to the program that it starts, instead of printing the
    /// usage of xtask.
    pub(crate) has_own_help: bool,
    pub(crate) run: fn(&[String]) -> Result<(), Failure>,
}

pub(crate) const COMMANDS: &[Command] = &[
    Command {
        name: "demo",
        arguments: "[QUESTION | --serve]",
        about: "ask a local model a question that needs a tool in this process and a tool of an MCP server; --serve starts the HTTP server with both",
        has_own_help: false,
        run: demo::run,
    },
    Command {
        name: "test",
        arguments: "[ARGUMENTS OF cargo test]…",
        about: "run all tests and doctests",
        has_own_help: true,
        run: test::run,
    },
    Command {
        name: "ci",
        arguments: "[--checks | --counts | --weekly]",
        about: "run the checks (format, tidy, lints, reference), then the tests; --counts checks instructions, memory and crates, --weekly all that needs other builds",
        has_own_help: false,
        run: ci::run,
    },
    Command {
        name: "conformance",
        arguments: "",
        about: "run the official conformance suites of MCP against the client and the server",
        has_own_help: false,
        run: conformance::run,
    },
    Command {
        name: "peers",
        arguments: "",
        about: "test haft with third-party MCP servers and clients; installs them from npm and PyPI",
        has_own_help: false,
        run: peers::run,
    },
    Command {
        name: "chaos",
        arguments: "[KILLS]",
        about: "kill a process that drives stored runs, 1,000 times: no run is lost, no call is repeated",
        has_own_help: false,
        run: chaos::run,
    },
    Command {
        name: "example",
        arguments: "NAME [ARGUMENTS]…",
        about: "run an example, or list the examples",
        has_own_help: false,
        run: example::run,
    },
    Command {
        name: "eval",
        arguments: "[ARGUMENTS]…",
        about: "measure the tool calls of the local models on 150 requests",
        has_own_help: true,
        run: eval::run,
    },
    Command {
        name: "fuzz",
        arguments: "TARGET [--for 1h] [-- OPTIONS OF libFuzzer]…",
        about: "run a fuzz target",
        has_own_help: false,
        run: fuzz::run,
    },
    Command {
        name: "bench",
        arguments: "[NAME]… [PART OF A CASE'S NAME] [--check], or `local` or `langchain`",
        about: "measure the cost of calls, steps and tool definitions; --check fails over a bound",
        has_own_help: false,
        run: bench::run,
    },
    Command {
        name: "size",
        arguments: "[--quick] [--check]",
        about: "count crates, measure cold builds (profiles quick and release) and program sizes; --quick leaves out the builds, --check fails over a bound",
        has_own_help: false,
        run: size::run,
    },
    Command {
        name: "minimal-versions",
        arguments: "",
        about: "check the crates with the oldest dependencies that the manifests allow",
        has_own_help: false,
        run: minimal_versions::run,
    },
    Command {
        name: "models",
        arguments: "[WHEEL]",
        about: "refresh the catalogue of API models with the newest Python package litellm, or with a wheel of it, and print the changes",
        has_own_help: false,
        run: models::run,
    },
    Command {
        name: "setup",
        arguments: "[--model | --eval | --judges]",
        about: "install the tools of the chores and tests; --model adds the demo's model, --eval both models and a server, --judges all third-party programs of the tests",
        has_own_help: false,
        run: setup::run,
    },
    Command {
        name: "tidy",
        arguments: "",
        about: "check the dependencies between crates, manifests, links, code samples and the length of files",
        has_own_help: false,
        run: tidy::run,
    },
    Command {
        name: "doc",
        arguments: "[--open]",
        about: "build the reference, warnings denied, and the book, and check their links",
        has_own_help: false,
        run: doc::run,
    },
];
