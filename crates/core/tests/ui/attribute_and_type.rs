//! Mistakes in an attribute and in the types of the same function are reported together.

use haft_core::{Toolset, tool, tools};

struct Place;

struct Report;

#[tool(nmae = "search")]
fn search(place: Place, words: Vec<String>) -> Report {
    drop((place, words));
    Report
}

// The role of this parameter is unknown.
#[tool]
fn find(#[tool(stat)] place: Place) {
    drop(place);
}

struct Shop;

#[tools]
impl Shop {
    #[tool(titel = "Open")]
    fn open(&self, place: Place) -> Report {
        drop(place);
        Report
    }
}

fn main() {
    let _ = Toolset::new().with_tool(Search).with_tool(Find).with_tools(Shop);
}
