//! Correction of time zones.

use haft_core::schema::Property;
use jiff::tz;
use serde_json::{Map, Value, json};

use super::description;
use crate::few_shot::grounding::is_time_zone;

/// Returns the time zone of the only place in `question` with a time zone of its name that no other
/// argument has, if `text`, the value of `property`, is only the example in its description:
/// `Asia/Tokyo` for Tokyo.
pub(super) fn zone_of_place(
    property: &Property<'_>,
    text: &str,
    question: &str,
    arguments: &Map<String, Value>,
) -> Option<Value> {
    let is_example = description(property).contains(text) && !is_place_in(text, question);
    if !is_example || !is_time_zone(property.name, property.schema) {
        return None;
    }
    let is_used = |zone: &str| arguments.values().any(|used| *used == *zone);
    let zones = tz::db().available().map(|zone| zone.to_string());
    let mut zones = zones.filter(|zone| is_place_in(zone, question) && !is_used(zone));
    let (Some(only), None) = (zones.next(), zones.next()) else { return None };
    Some(json!(only))
}

/// Returns `true` if `text` contains the place of `zone`, such as `New York` for
/// `America/New_York`.
fn is_place_in(zone: &str, text: &str) -> bool {
    let Some((_, place)) = zone.rsplit_once('/') else { return false };
    let place = place.replace('_', " ");
    let is_inside = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    text.match_indices(&place).any(|(at, _)| {
        let (before, after) = (text.get(..at), text.get(at + place.len()..));
        let last = before.and_then(|before| before.chars().next_back());
        !is_inside(last) && !is_inside(after.and_then(|after| after.chars().next()))
    })
}

#[cfg(test)]
mod tests {
    use haft_core::Schema;

    use super::*;

    #[test]
    fn the_example_of_a_time_zone_is_replaced_by_the_zone_of_the_place() {
        let zone = json!({"description": "IANA name of the time zone, e.g. Europe/Paris"});
        let schema = Schema::new(json!({"properties": {"from_zone": zone, "city": {}}})).unwrap();
        let corrected = |question: &str, name: &str, text: &str| {
            let arguments = json!({"from_zone": text, "to_zone": "America/New_York"});
            let property = schema.properties().find(|property| property.name == name).unwrap();
            zone_of_place(&property, text, question, arguments.as_object().unwrap())
        };
        let question = "When it's 14:45 in Tokyo, what time is it in New York?";
        assert_eq!(corrected(question, "from_zone", "Europe/Paris"), Some(json!("Asia/Tokyo")));
        assert_eq!(corrected(question, "city", "Europe/Paris"), None);
        // The zone of Munich is not the example.
        assert_eq!(corrected("When it's 14:45 in Munich", "from_zone", "Europe/Berlin"), None);
        assert_eq!(corrected("From Paris to Tokyo", "from_zone", "Europe/Paris"), None);
        assert_eq!(corrected("From Tokyo to Berlin", "from_zone", "Europe/Paris"), None);
        assert_eq!(corrected("From Munich to New York", "from_zone", "Europe/Paris"), None);
        assert_eq!(corrected("The Tokyoites", "from_zone", "Europe/Paris"), None);
    }
}
