use std::collections::HashSet;

use haft_core::ToolName;

use super::free_name;

/// A tool of the server keeps its name, and a tool for a feature gets another one.
#[test]
fn name_differs_from_the_tools_of_the_server() {
    let taken = |names: &[&str]| names.iter().map(|name| ToolName::sanitize(name)).collect::<HashSet<_>>();
    assert_eq!(free_name("files_read_resource", &taken(&["add"])).as_str(), "files_read_resource");
    let both = taken(&["files_read_resource", "files_read_resource_2"]);
    assert_eq!(free_name("files_read_resource", &both).as_str(), "files_read_resource_3");
    // The name of a source may be invalid in the name of a tool.
    let foreign = free_name("my files!_read_resource", &taken(&[]));
    assert!(foreign.as_str().starts_with("my_files__read_resource_"), "{foreign}");
}
