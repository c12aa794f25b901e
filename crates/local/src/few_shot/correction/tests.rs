use super::*;

fn schema() -> Schema {
    Schema::new(json!({
        "type": "object",
        "properties": {
            "latitude": {"type": "number"},
            "height_cm": {"type": "number"},
            "minutes": {"type": "integer"},
            "length": {"type": "integer", "description": "The duration in minutes."},
            "position": {"type": "integer", "minimum": 0, "maximum": 100},
            "count": {"type": "integer"},
            "date": {"type": "string", "description": "The date, YYYY-MM-DD"},
            "day": {"type": "string"},
            "time": {"type": "string", "description": "HH:MM, 24-hour clock"},
            "starts_at": {"type": "string", "description": "ISO 8601"},
            "mode": {"enum": ["driving", "bicycling", "public_transport"]},
            "end": {"type": "string", "description": "HH:MM"},
            "title": {"type": "string"},
            "from_unit": {"enum": ["celsius", "fahrenheit", "cup", "milliliter"]},
            "to_unit": {"enum": ["celsius", "fahrenheit", "cup", "milliliter"]},
            "sex": {"anyOf": [{"enum": ["male", "female"]}, {"type": "null"}]},
        },
    }))
    .unwrap()
}

/// Returns the corrected arguments of a call after the user message `question`.
fn corrected(question: &str, arguments: Value) -> Value {
    let request = ChatRequest::new([Message::user(question)]);
    let call = ToolCall::new("1", "tool", arguments.to_string());
    match ArgumentCorrector::new(&request).correct(question, &call, &schema()) {
        Some(Correction::Call(call)) => call.arguments.value_or_string().as_ref().clone(),
        Some(Correction::Schema(schema)) => json!({"choose": schema.as_value()["properties"]}),
        None => arguments,
    }
}

#[test]
fn signs_and_units_are_corrected() {
    let place = "the UV index at 36.72 north, 4.42 west";
    assert_eq!(corrected(place, json!({"latitude": 4.42})), json!({"latitude": -4.42}));
    assert_eq!(corrected(place, json!({"latitude": 36.72})), json!({"latitude": 36.72}));
    assert_eq!(corrected("I am 1.68 m tall", json!({"height_cm": 1.68})), json!({"height_cm": 168}));
    assert_eq!(corrected("Snooze it by an hour and a half", json!({"minutes": 30})), json!({"minutes": 90}));
    assert_eq!(corrected("Book a room for two hours", json!({"length": 2})), json!({"length": 120}));
    assert_eq!(corrected("Close it three quarters", json!({"position": 30})), json!({"position": 75}));
    assert_eq!(corrected("35 percent", json!({"position": 35})), json!({"position": 35}));
    // A number without a unit may be right.
    let both = json!({"minutes": 30, "length": 20});
    assert_eq!(corrected("20 minutes, no, 30", both.clone()), both);
    assert_eq!(corrected("5 below zero", json!({"count": 5})), json!({"count": -5}));
}

#[test]
fn dates_and_times_are_corrected() {
    let today = "Today is 28 February 2025. Remind me tomorrow at 6 pm.";
    assert_eq!(corrected(today, json!({"date": "2025-03-01"})), json!({"date": "2025-03-01"}));
    assert_eq!(corrected(today, json!({"date": "28/02/2025"})), json!({"date": "2025-03-01"}));
    assert_eq!(corrected(today, json!({"time": "06:00"})), json!({"time": "18:00"}));
    assert_eq!(corrected(today, json!({"time": "6 pm"})), json!({"time": "18:00"}));
    let meeting = "A meeting, not before 1 pm";
    assert_eq!(corrected(meeting, json!({"time": "1 pm", "end": "12 pm"})), json!({"time": "13:00"}));
    let party = "A party on 9 August 2025";
    assert_eq!(corrected(party, json!({"date": "9 August 2025"})), json!({"date": "2025-08-09"}));
    assert_eq!(corrected(party, json!({"date": "2023-08-09"})), json!({"date": "2025-08-09"}));
    assert_eq!(corrected(party, json!({"day": "9 August 2025"})), json!({"day": "9 August 2025"}));
    assert_eq!(corrected("Call me soon", json!({"date": "2025-08-09"})), json!({"date": "2025-08-09"}));
    let meeting = "A meeting on 9 August 2025 at 10:00";
    assert_eq!(
        corrected(meeting, json!({"starts_at": "2024-08-09T10:00"})),
        json!({"starts_at": "2025-08-09T10:00"})
    );
}

#[test]
fn model_chooses_among_several_values() {
    let chosen = corrected("From 3 to 9 May 2025 in 2025", json!({"date": "2023-05-03"}));
    assert_eq!(chosen["choose"]["date"]["enum"][0], "2025-05-03", "{chosen}");
    // All other dates within the year may be right.
    assert_eq!(corrected("in 2025", json!({"date": "2025-05-03"})), json!({"date": "2025-05-03"}));
}

#[test]
fn enumeration_has_the_value_of_the_question() {
    let ride = "How do I cycle to the park?";
    assert_eq!(corrected(ride, json!({"mode": "driving"})), json!({"mode": "bicycling"}));
    assert_eq!(corrected("I am a woman", json!({"sex": "male"})), json!({"sex": "female"}));
    assert_eq!(corrected("I am a man", json!({"sex": "male"})), json!({"sex": "male"}));
    let both = "driving or public transport";
    assert_eq!(corrected(both, json!({"mode": "bicycling"})), json!({"mode": "bicycling"}));
    assert_eq!(corrected("to the park", json!({"mode": "driving"})), json!({"mode": "driving"}));
}

#[test]
fn a_name_with_one_wrong_letter_is_corrected() {
    assert_eq!(corrected("Fly to Lisbon", json!({"day": "Lisboa"})), json!({"day": "Lisbon"}));
    assert_eq!(corrected("Fly to Lisbon", json!({"day": "Lima"})), json!({"day": "Lima"}));
    assert_eq!(corrected("From Lisbon to Lisboa", json!({"day": "Lisboa"})), json!({"day": "Lisboa"}));
}

#[test]
fn a_conversion_begins_with_the_unit_of_the_number() {
    let units = |from: &str, to: &str| json!({"count": 3, "from_unit": from, "to_unit": to});
    let cups = "How many milliliters are 3 cups?";
    assert_eq!(corrected(cups, units("milliliter", "milliliter")), units("cup", "milliliter"));
    assert_eq!(corrected(cups, units("cup", "milliliter")), units("cup", "milliliter"));
    let oven = "My oven shows Celsius. What is 3 °F?";
    assert_eq!(corrected(oven, units("celsius", "fahrenheit")), units("fahrenheit", "celsius"));
}

#[test]
fn omitted_arguments_are_added() {
    assert_eq!(corrected("Ride for 20 minutes", json!({"count": 1})), json!({"count": 1, "minutes": 20}));
    assert_eq!(corrected("Ride 20 of them", json!({"count": 20})), json!({"count": 20}));
    let bus = "I prefer public transport";
    assert_eq!(corrected(bus, json!({"count": 1})), json!({"count": 1, "mode": "public_transport"}));
    assert_eq!(corrected("driving or public transport", json!({})), json!({}));
    let seconds = json!({"time": "10:15:00"});
    assert_eq!(corrected("at 10:15 am", seconds), json!({"time": "10:15"}));
}

#[test]
fn the_text_of_another_argument_is_removed() {
    let song = json!({"title": "Yesterday by The Beatles", "day": "The Beatles"});
    assert_eq!(corrected("Play it", song), json!({"title": "Yesterday", "day": "The Beatles"}));
    let other = json!({"title": "The Beatles", "day": "The Beatles"});
    assert_eq!(corrected("Play it", other.clone()), other);
}
