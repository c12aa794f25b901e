//! The command `cargo xtask example NAME`: runs a package in `examples/`.

use crate::failure::Failure;
use crate::native_build;
use crate::workspace::Workspace;

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let names = example_names(&Workspace::load()?);
    let known = if names.is_empty() { "none yet".to_owned() } else { names.join(", ") };
    match arguments.split_first() {
        None => Err(Failure::usage(format!("`example` needs a name; the examples are: {known}"))),
        Some((name, rest)) if names.contains(name) => native_build::build_and_run_with_model(name, rest),
        Some((name, _)) => {
            Err(Failure::usage(format!("there is no example `{name}`; the examples are: {known}")))
        }
    }
}

fn example_names(workspace: &Workspace) -> Vec<String> {
    let examples = workspace.packages.iter().filter(|package| package.folder().starts_with("examples/"));
    let mut names: Vec<_> = examples.map(|package| package.name.clone()).collect();
    names.sort();
    names
}
