use haft_core::tool;

struct Place {
    name: String,
}

#[derive(serde::Deserialize)]
struct Time {
    hour: u8,
}

#[tool]
fn neither(place: Place) -> String {
    place.name
}

#[tool]
fn no_schema(time: Option<Time>) -> u8 {
    time.map_or(0, |time| time.hour)
}

fn main() {}
