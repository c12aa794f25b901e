use serde_json::json;

use super::*;

fn schema() -> Schema {
    Schema::new(json!({
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "league": {"enum": ["nba", "nfl"]},
            "room": {"enum": ["kitchen", "hall"]},
            "barcode": {"type": "string"},
            "year": {"type": "integer"},
            "days": {"type": "integer", "default": 3},
            "date": {"type": "string"},
            "symbol": {"type": "string", "description": "Ticker symbol"},
            "latitude": {"type": "number"},
        },
    }))
    .unwrap()
}

/// Returns the arguments for `item` of `question`, after a call with the arguments `earlier`.
fn next(question: &str, item: &str, earlier: Value) -> Option<Value> {
    let earlier = ToolCall::new("1", "tool", earlier.to_string());
    let argument = ListArgument::find(question, item, &earlier, &schema())?;
    Some(argument.replace_in(&earlier)?.arguments.value_or_string().as_ref().clone())
}

#[test]
fn an_item_replaces_the_argument_before_it() {
    let weather = "What's the 3-day forecast for Lisbon and for Oslo?";
    let arguments = json!({"city": "Lisbon", "days": 3});
    assert_eq!(next(weather, "for Oslo", arguments), Some(json!({"city": "Oslo", "days": 3})));
    let barcodes = "Renew the items with the barcodes 30114007, 30114019 and 30116870.";
    let arguments = json!({"barcode": "30114007"});
    assert_eq!(next(barcodes, "30114019", arguments), Some(json!({"barcode": "30114019"})));
    let arguments = json!({"barcode": "30114019"});
    assert_eq!(next(barcodes, "30116870", arguments), Some(json!({"barcode": "30116870"})));
    let years = "Who won in 2018, 2019, and 2022?";
    assert_eq!(next(years, "2022", json!({"year": 2019})), Some(json!({"year": 2022})));
    let rooms = "Heat the kitchen and the hall";
    assert_eq!(next(rooms, "the hall", json!({"room": "kitchen"})), Some(json!({"room": "hall"})));
    let now = "Where are Rome and Oslo right now?";
    assert_eq!(next(now, "Oslo right now", json!({"city": "Rome"})), Some(json!({"city": "Oslo"})));
    let quoted = "Open \"Rome\" and \"Oslo\".";
    assert_eq!(next(quoted, "Oslo", json!({"city": "Rome"})), Some(json!({"city": "Oslo"})));
}

#[test]
fn units_and_names_of_several_words_are_derived() {
    let times = "What about 5 km, 15 km and 21.1 km?";
    assert_eq!(next(times, "15 km", json!({"latitude": 5})), Some(json!({"latitude": 15})));
    assert_eq!(next(times, "21.1 km", json!({"latitude": 15})), Some(json!({"latitude": 21.1})));
    assert_eq!(next("5 km and 15 miles", "15 miles", json!({"latitude": 5})), None);
    let runs = "I ran 10 km in 48 minutes. What times can I expect over 5 km, 15 km and 42.2 km?";
    let known = json!({"year": 10, "days": 48, "latitude": 5});
    assert_eq!(next(runs, "15 km", known), Some(json!({"year": 10, "days": 48, "latitude": 15})));
    let points = "Evaluate x^2 at x = 2, at x = -1 and at x = 0.5";
    assert_eq!(next(points, "at x = -1", json!({"latitude": 2})), Some(json!({"latitude": -1})));
    let cities = "The weather in Los Angeles and Salt Lake City";
    let expected = json!({"city": "Salt Lake City"});
    assert_eq!(next(cities, "Salt Lake City", json!({"city": "Los Angeles"})), Some(expected));
    let species = "Which families do Canis lupus and Ursus maritimus belong to?";
    let arguments = json!({"city": "Canis lupus"});
    let expected = json!({"city": "Ursus maritimus"});
    assert_eq!(next(species, "Ursus maritimus belong", arguments), Some(expected));
}

#[test]
fn other_items_are_not_derived() {
    let time = "The weather in Rome and the Tokyo time";
    assert_eq!(next(time, "the Tokyo time", json!({"city": "Rome"})), None);
    assert_eq!(next("Rome and Google's CEO", "Google's CEO", json!({"city": "Rome"})), None);
    assert_eq!(next("Rome on Monday and Oslo", "Oslo", json!({"city": "Rome"})), None);
    assert_eq!(next("The years 2018 and Oslo", "Oslo", json!({"year": 2018})), None);
    assert_eq!(next("Rome and Oslo", "Oslo", json!({"city": "Rome, Italy"})), None);
    let pairs = "Houses in Austin, TX and Denver, CO";
    assert_eq!(next(pairs, "Denver", json!({"city": "TX", "barcode": "Austin"})), None);
    assert_eq!(next("Alarms for 6:30 and 7", "7", json!({"year": 30})), None);
    assert_eq!(next("Find news about Tesla and Rivian", "Rivian", json!({"city": "news about Tesla"})), None);
    assert_eq!(next("Quotes of Apple and Intel", "Intel", json!({"symbol": "Apple"})), None);
    assert_eq!(next("from Chrome and Oslo", "Oslo", json!({"city": "rome"})), None);
}

#[test]
fn arguments_that_depend_on_the_item_are_not_common() {
    let question = "The weather in Rome and Oslo on December 24, 2026";
    let are_common = |earlier: Value| {
        let earlier = ToolCall::new("1", "tool", earlier.to_string());
        let argument = ListArgument::find(question, "Oslo", &earlier, &schema()).unwrap();
        argument.others_are_common(question, &earlier, &schema())
    };
    assert!(are_common(json!({"city": "Rome", "days": 3, "date": "2026-12-24"})));
    assert!(are_common(json!({"city": "Rome", "room": "kitchen"})));
    let mut required = schema().as_value().clone();
    required["required"] = json!(["league"]);
    let required = Schema::new(required).unwrap();
    let earlier = ToolCall::new("1", "tool", json!({"city": "Rome", "league": "nba"}).to_string());
    let argument = ListArgument::find(question, "Oslo", &earlier, &required).unwrap();
    assert!(!argument.others_are_common(question, &earlier, &required));
    assert!(!are_common(json!({"city": "Rome", "latitude": 41.9})));
}
