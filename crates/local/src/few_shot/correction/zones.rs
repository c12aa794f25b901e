//! Correction of time zones.

use haft_core::schema::Property;
use jiff::tz;
use serde_json::{Map, Value, json};

use super::description;
use crate::few_shot::grounding::is_time_zone;

/// Returns the only time zone of a place in `text` that none of `arguments` has. Returns `None` if
/// `zone`, the value of `property`, is not the example in its description, or if it is in `text`:
/// `Asia/Tokyo` for "in Tokyo" and the example `Europe/Paris`.
pub(super) fn zone_of_place(
    property: &Property<'_>,
    zone: &str,
    text: &str,
    arguments: &Map<String, Value>,
) -> Option<Value> {
    let is_example = description(property).contains(zone) && !text.contains(zone) && !is_place_in(zone, text);
    if !is_example || !is_time_zone(property.name, property.schema) {
        return None;
    }
    let is_used = |zone: &str| arguments.values().any(|used| *used == *zone);
    let zones = tz::db().available().map(|zone| zone.to_string());
    let mut zones = zones.filter(|zone| is_place_in(zone, text) && !is_used(zone));
    let (Some(only), None) = (zones.next(), zones.next()) else { return None };
    Some(json!(only))
}

/// Returns `true` if `text` contains the place of `zone`, such as `New York` for
/// `America/New_York`, after a preposition. The next word must not be capitalized: North Carolina
/// is not `Australia/North`.
fn is_place_in(zone: &str, text: &str) -> bool {
    const PREPOSITIONS: [&str; 5] = ["at", "for", "from", "in", "to"];
    let Some((_, place)) = zone.rsplit_once('/') else { return false };
    let place = place.replace('_', " ");
    text.match_indices(&place).any(|(at, _)| {
        let (before, after) = (text.get(..at), text.get(at + place.len()..));
        let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
        let is_word = before.ends_with(' ') && !after.starts_with(char::is_alphanumeric);
        let preposition = before.trim_end().rsplit(' ').next().unwrap_or_default().to_lowercase();
        let is_longer = after.strip_prefix(' ').is_some_and(|next| next.starts_with(char::is_uppercase));
        is_word && !is_longer && PREPOSITIONS.contains(&preposition.as_str())
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
        for question in [
            "The time in Tokyoland",
            "What time is it in North Carolina?",
            "What time is it in New Jersey?",
            "Wake me up at 7",
            "My time zone is Europe/Paris. Call the office in Tokyo",
        ] {
            assert_eq!(corrected(question, "from_zone", "Europe/Paris"), None, "{question}");
        }
    }
}
