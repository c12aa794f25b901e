use haft_core::Message;

use super::*;

fn schema() -> Schema {
    let mut schema = json!({
        "type": "object",
        "properties": {
            "latitude": {"type": "number"},
            "height_cm": {"type": "number"},
            "minutes": {"type": "integer"},
            "compoundsPerYear": {"type": "integer"},
            "term_months": {"type": "integer"},
            "annual_rate": {"type": "number", "description": "Interest rate in percent per year"},
            "start_year": {"type": "integer"},
            "shift": {"type": "integer", "description": "Days to add, negative to subtract"},
            "length": {"type": "integer", "description": "The duration in minutes."},
            "position": {"type": "integer", "minimum": 0, "maximum": 100},
            "count": {"type": "integer"},
            "litersPer100Km": {"type": "number"},
            "limit": {"type": "integer", "maximum": 50},
            "max_price_per_day": {"type": "integer"},
            "brightness": {"type": "number", "minimum": 0, "maximum": 100},
            "volume": {"type": "number", "maximum": 1},
            "date": {"type": "string", "description": "The date, YYYY-MM-DD"},
            "day": {"type": "string"},
            "month": {"type": "string", "description": "Month, YYYY-MM"},
            "return_date": {"type": "string"},
            "return_format": {"type": "string"},
            "time": {"type": "string", "description": "HH:MM, 24-hour clock"},
            "starts_at": {"type": "string", "description": "ISO 8601"},
            "mode": {"enum": ["driving", "bicycling", "public_transport"]},
            "action": {"enum": ["allow", "deny"]},
            "end": {"type": "string", "description": "HH:MM"},
            "title": {"type": "string"},
            "artist": {"type": "string"},
            "from_unit": {"enum": ["celsius", "fahrenheit", "cup", "milliliter", "kilometers", "kilograms", "pounds"]},
            "to_unit": {"enum": ["celsius", "fahrenheit", "cup", "milliliter", "pounds"]},
            "sex": {"anyOf": [{"enum": ["male", "female"]}, {"type": "null"}]},
        },
    });
    schema["properties"]["rate"] = json!({"type": "number", "description": "Percentage, as a decimal"});
    schema["properties"]["new_start"] = json!({"type": "string", "description": "ISO 8601"});
    schema["properties"]["alpha"] = json!({"type": "number", "default": 0.05});
    schema["properties"]["voltage"] = json!({"type": "number", "description": "Voltage in volts"});
    for limit in ["received_after", "before"] {
        schema["properties"][limit] = json!({"type": "string", "description": "YYYY-MM-DD"});
    }
    schema["properties"]["servings"] = json!({"type": "integer"});
    schema["properties"]["unit"] = json!({"enum": ["cm", "m", "inch"]});
    for year in ["year_from", "year_to"] {
        schema["properties"][year] = json!({"type": "integer"});
    }
    for limit in ["min_rating", "max_rating"] {
        schema["properties"][limit] = json!({"type": "integer"});
    }
    let transposition = "Semitones; negative values transpose down";
    schema["properties"]["semitones"] = json!({"type": "integer", "description": transposition});
    schema["properties"]["min_seats"] = json!({"type": "integer"});
    schema["properties"]["published_within_days"] = json!({"type": "integer"});
    let code = "Target language, ISO 639-1, e.g. 'de' for German";
    schema["properties"]["target"] = json!({"type": "string", "description": code});
    schema["properties"]["deductible"] = json!({"type": "integer"});
    schema["properties"]["top_n"] = json!({"type": "integer"});
    schema["properties"]["max_seats"] = json!({"type": "integer"});
    for place in ["start", "destination"] {
        schema["properties"][place] = json!({"type": "string"});
    }
    schema["properties"]["stops"] = json!({"type": "array", "items": {"type": "string"}});
    let language = "The language, e.g. 'Turkish'";
    schema["properties"]["language"] = json!({"type": "string", "description": language});
    schema["properties"]["phone"] = json!({"type": "string"});
    for flag in ["locked", "enabled"] {
        schema["properties"][flag] = json!({"type": "boolean"});
    }
    Schema::new(schema).unwrap()
}

/// Returns the corrected arguments of a call after the user message `question`.
fn corrected(question: &str, arguments: Value) -> Value {
    corrected_for(question, question, arguments)
}

fn corrected_for(need: &str, question: &str, arguments: Value) -> Value {
    corrected_with(&schema(), need, question, arguments)
}

fn corrected_with(schema: &Schema, need: &str, question: &str, arguments: Value) -> Value {
    let request = ChatRequest::new([Message::user(question)]);
    let call = ToolCall::new("1", "tool", arguments.to_string());
    match ArgumentCorrector::new(&request).correct(need, &call, schema) {
        Some(Correction::Call(call)) => call.arguments.value_or_string().as_ref().clone(),
        Some(Correction::Schema(schema)) => json!({"choose": schema.as_value()["properties"]}),
        None => arguments,
    }
}

fn assert_unchanged(question: &str, arguments: Value) {
    assert_eq!(corrected(question, arguments.clone()), arguments, "{question}");
}

#[test]
fn the_unit_of_the_question_is_the_target() {
    let question = "How many milliliters are 3 cups, and how many are 2 pounds?";
    let request = ChatRequest::new([Message::user(question)]);
    for wrong in ["cup", "pounds"] {
        let arguments = json!({"count": 2, "from_unit": "pounds", "to_unit": wrong});
        let call = ToolCall::new("1", "tool", arguments.to_string());
        let corrected = ArgumentCorrector::new(&request).correct("how many are 2 pounds", &call, &schema());
        let Some(Correction::Call(call)) = corrected else { panic!("{corrected:?}") };
        let expected = json!({"count": 2, "from_unit": "pounds", "to_unit": "milliliter"});
        assert_eq!(*call.arguments.value_or_string(), expected);
    }
}

#[test]
fn the_unit_of_the_numbers_is_the_unit() {
    let volume = "the volume of a cylinder with a radius of 4 m and a height of 10 m";
    let fixed = corrected(volume, json!({"length": 4, "unit": "cm"}));
    assert_eq!(fixed["unit"], "m");
    let converted = json!({"count": 30, "unit": "cm"});
    assert_eq!(corrected("a radius of 0.3 m", converted)["unit"], "cm");
    let mixed = json!({"count": 4, "length": 10, "unit": "cm"});
    assert_eq!(corrected("a radius of 4 m and a height of 10 inches", mixed)["unit"], "cm");
    for question in ["a radius of 4 m, in cm", "a radius of 4"] {
        assert_eq!(corrected(question, json!({"count": 4, "unit": "cm"}))["unit"], "cm", "{question}");
    }
}

#[test]
fn a_number_of_a_later_part_is_removed() {
    let need = "Kitchen light off";
    let correct = |question: &str| {
        let request = ChatRequest::new([Message::user(question)]);
        let call = ToolCall::new("1", "tool", json!({"title": "kitchen", "limit": 40}).to_string());
        ArgumentCorrector::new(&request).correct(need, &call, &schema())
    };
    let Some(Correction::Call(call)) = correct("Kitchen light off; hall light on at 40") else {
        panic!("not corrected")
    };
    assert_eq!(*call.arguments.value_or_string(), json!({"title": "kitchen"}));
    assert!(correct("Kitchen light off and hall light on, both at 40").is_none());
    assert!(correct("Kitchen light off. The limit is 40").is_none());
    assert!(correct("Kitchen light off; at most 40").is_none());
    assert!(correct("All lights at 40. Kitchen light off; hall light on at 40").is_none());
}

#[test]
fn telephone_numbers_are_completed() {
    let text = "Text +1 555 010 0134 that I am late";
    for part in ["5550100134", "15550100134"] {
        assert_eq!(corrected(text, json!({"phone": part})), json!({"phone": "+15550100134"}));
    }
    assert_eq!(corrected(text, json!({"phone": "555 010 0134"})), json!({"phone": "+1 555 010 0134"}));
    assert_unchanged(text, json!({"phone": "5550100134", "country_code": "+1"}));
    assert_unchanged(text, json!({"phone": "+15550100134"}));
    assert_unchanged("Text 555 010 0134", json!({"phone": "5550100134"}));
}

#[test]
fn numbers_before_a_date_are_negative() {
    let question = "What date is 6 days before Christmas?";
    assert_eq!(corrected(question, json!({"shift": 6})), json!({"shift": -6}));
    assert_unchanged(question, json!({"shift": -6}));
    assert_unchanged("What date is 6 days after Christmas?", json!({"shift": 6}));
    let loan = "What would I pay for the loan over 4 years?";
    assert_eq!(corrected(loan, json!({"term_months": 4})), json!({"term_months": 48}));
}

#[test]
fn numbers_with_a_negative_direction_are_negative() {
    let question = "Take the chords down three semitones";
    assert_eq!(corrected(question, json!({"semitones": 3})), json!({"semitones": -3}));
    let need = "write flats";
    let whole = format!("{question}, and {need}");
    assert_eq!(corrected_for(need, &whole, json!({"semitones": 3})), json!({"semitones": -3}));
    assert_eq!(corrected("3 semitones down", json!({"semitones": 3})), json!({"semitones": -3}));
    assert_unchanged("Take the chords up three semitones", json!({"semitones": 3}));
    assert_unchanged("Write down the chords, three semitones higher", json!({"semitones": 3}));
    assert_unchanged("Write down the chords in steps of 3 semitones", json!({"semitones": 3}));
    assert_unchanged(question, json!({"count": 3}));
}

#[test]
fn the_beginning_of_a_route_is_the_place_after_from() {
    let question = "We drive from Lyon to Turin and want to stop in Grenoble";
    let route = |start: &str| json!({"start": start, "destination": "Turin", "stops": ["Grenoble"]});
    assert_eq!(corrected(question, route("Grenoble")), route("Lyon"));
    assert_eq!(corrected(question, route("Turin")), route("Lyon"));
    assert_unchanged(question, route("Lyon"));
    let bike = json!({"start": "Alexanderplatz", "destination": "Alexanderplatz"});
    assert_unchanged("My cousin from Madrid is here. A loop that begins at Alexanderplatz", bike);
    assert_unchanged("a round trip from Turin to Turin", json!({"start": "Turin", "destination": "Turin"}));
}

#[test]
fn a_language_has_the_form_of_the_example() {
    let question = "A doctor who speaks Portuguese";
    assert_eq!(corrected(question, json!({"language": "pt"})), json!({"language": "Portuguese"}));
    assert_unchanged(question, json!({"title": "pt"}));
    assert_unchanged("Translate it into Portuguese", json!({"target": "pt"}));
    assert_unchanged("Um médico, por favor", json!({"language": "pt"}));
}

#[test]
fn flags_follow_the_verb_of_the_need() {
    assert_eq!(corrected("unlock the garage", json!({"locked": true})), json!({"locked": false}));
    assert_eq!(corrected("Lock the garage", json!({"locked": false})), json!({"locked": true}));
    assert_eq!(corrected("disable the alarm", json!({"enabled": true})), json!({"enabled": false}));
    assert_unchanged("open the garage", json!({"locked": false}));
    assert_unchanged("which doors are not locked", json!({"locked": false}));
    assert_unchanged("Lock the front door and unlock the garage", json!({"locked": true}));
}

#[test]
fn parts_of_identifiers_are_completed() {
    let question = "How frequent is rs4988235 in Europe?";
    assert_eq!(corrected(question, json!({"artist": "4988235"})), json!({"artist": "rs4988235"}));
    assert_unchanged(question, json!({"artist": "rs4988235"}));
    assert_unchanged("Is A-17 or B-17 ready, or 1700?", json!({"artist": "1700"}));
}

#[test]
fn numbers_have_the_label_of_the_parameter() {
    let need = "scale the first result to 6 servings";
    assert_eq!(corrected(need, json!({"servings": 2})), json!({"servings": 6}));
    assert_unchanged(need, json!({"servings": 6}));
    assert_unchanged("6 servings or 8 servings", json!({"servings": 2}));
    assert_unchanged("increase it by 2 servings", json!({"servings": 8}));
    assert_unchanged("scale it to 6 people", json!({"servings": 2}));
}

#[test]
fn texts_have_the_case_of_the_question() {
    let question = "Where did Leicester City finish?";
    assert_eq!(corrected(question, json!({"artist": "leicester city"})), json!({"artist": "Leicester City"}));
    assert_unchanged("Play Help and help me", json!({"artist": "help"}));
    assert_unchanged("Play jazz", json!({"artist": "jazz"}));
    assert_unchanged("Lock the door", json!({"artist": "lock"}));
    assert_unchanged("Say it in French", json!({"artist": "fr"}));
    assert_unchanged("Set a 30-minute timer", json!({"artist": "minute", "minutes": 30}));
}

#[test]
fn months_have_the_described_form() {
    let concerts = "Are there concerts in Vienna in May 2025?";
    assert_eq!(corrected(concerts, json!({"month": "May"})), json!({"month": "2025-05"}));
    assert_unchanged(concerts, json!({"month": "2025-05"}));
    assert_unchanged("Are there concerts in Vienna?", json!({"month": "May"}));
}

#[test]
fn frequencies_are_corrected() {
    let question = "What are 5000 dollars after 3 years, compounded monthly?";
    assert_eq!(corrected(question, json!({"compoundsPerYear": 1})), json!({"compoundsPerYear": 12}));
    assert_unchanged(question, json!({"compoundsPerYear": 12}));
    assert_unchanged("Compounded monthly or quarterly?", json!({"compoundsPerYear": 1}));
    assert_unchanged("5000 dollars at 5 percent, compounded monthly", json!({"annual_rate": 5}));
    assert_unchanged("Inflation over the last 10 years", json!({"start_year": 2015}));
}

#[test]
fn names_of_codes_are_narrowed() {
    let code = |description: &str, text: &str| {
        let property = json!({"properties": {"value": {"type": "string", "description": description}}});
        let schema = Schema::new(property).unwrap();
        missing_code(&schema.properties().next().unwrap(), text)
    };
    assert_eq!(code("Ticker symbol, e.g. KO", "Tesla"), Some("^[A-Z]{1,5}$"));
    assert_eq!(code("Ticker symbol", "BRK.B"), None);
    assert_eq!(code("Ticker symbol", "NVIDIA"), Some("^[A-Z]{1,5}$"));
    assert_eq!(code("ISO 4217 code", "euros"), Some("^[A-Z]{3}$"));
    assert_eq!(code("ISO 4217 code", "eur"), None);
    assert_eq!(code("IATA code of the arrival airport", "London"), Some("^[A-Z]{3}$"));
    assert_eq!(code("ISO 639-1 code", "French"), Some("^[a-z]{2}$"));
    assert_eq!(code("Two-letter country code, e.g. us", "Germany"), Some("^[a-z]{2}$"));
    assert_eq!(code("Two-letter country code, e.g. DE", "Germany"), Some("^[A-Z]{2}$"));
    assert_eq!(code("Country name or two-letter code", "Germany"), None);
    assert_eq!(code("Ticker symbol or company name", "Tesla"), None);
    assert_eq!(code("City", "Rome"), None);
}

#[test]
fn signs_and_units_are_corrected() {
    let place = "the UV index at 36.72 north, 4.42 west";
    assert_eq!(corrected(place, json!({"latitude": 4.42})), json!({"latitude": -4.42}));
    assert_unchanged(place, json!({"latitude": 36.72}));
    assert_eq!(corrected("I am 1.68 m tall", json!({"height_cm": 1.68})), json!({"height_cm": 168}));
    assert_eq!(corrected("Snooze it by an hour and a half", json!({"minutes": 30})), json!({"minutes": 90}));
    assert_eq!(corrected("Book a room for two hours", json!({"length": 2})), json!({"length": 120}));
    assert_eq!(corrected("Close it three quarters", json!({"position": 30})), json!({"position": 75}));
    assert_eq!(corrected("70 percent", json!({"brightness": 0.7})), json!({"brightness": 70}));
    assert_eq!(corrected("70 percent", json!({"volume": 70})), json!({"volume": 0.7}));
}

#[test]
fn a_duration_is_read_beside_a_date() {
    let text = "an hour and a half with Tomas on October 8, 2025, not before 11 am";
    assert_eq!(corrected(text, json!({"length": 60})), json!({"length": 90}));
    let text = "an hour and a half on October 8, 2025 at 3 pm";
    assert_eq!(corrected(text, json!({"length": 60})), json!({"length": 90}));
    let text = "a call on October 8, 2025 at 10 am, remind me 15 minutes before";
    assert_unchanged(text, json!({"length": 60, "minutes": 15}));
}

#[test]
fn numbers_that_may_be_right_are_not_changed() {
    assert_unchanged("35 percent", json!({"position": 35}));
    assert_unchanged("What is 17 minus 5?", json!({"count": 5, "latitude": 17}));
    assert_unchanged("- 50 EUR to Bob", json!({"count": 50}));
    assert_unchanged("12 West Street", json!({"count": 12}));
    assert_unchanged("Drive 640 km", json!({"litersPer100Km": 7}));
    assert_unchanged("1 hour 30", json!({"minutes": 90}));
    assert_unchanged("three quarters of an hour", json!({"minutes": 45}));
    assert_unchanged("1/2 hour", json!({"minutes": 30}));
    assert_unchanged("I'm 5 foot 10", json!({"height_cm": 178}));
    assert_unchanged("20 minutes on Monday and 25 on Tuesday, in total", json!({"minutes": 45}));
    assert_unchanged("Lauf 1.250 m", json!({"height_cm": 125_000}));
    assert_unchanged("Turn it down by 10%", json!({"brightness": 45}));
    assert_unchanged("Not 30 percent but off", json!({"brightness": 0}));
    assert_unchanged("20 minutes, no, 30", json!({"minutes": 30, "length": 20}));
    assert_unchanged("from 10:00 to 11:30, with a break of 15 minutes", json!({"length": 90, "minutes": 15}));
    assert_unchanged("3 times 20 minutes on May 8, 2025", json!({"length": 60, "minutes": 20}));
}

#[test]
fn dates_and_times_are_corrected() {
    let today = "Today is 28 February 2025. Remind me tomorrow at 6 pm.";
    assert_unchanged(today, json!({"date": "2025-03-01"}));
    assert_eq!(corrected(today, json!({"date": "28/02/2025"})), json!({"date": "2025-03-01"}));
    assert_eq!(corrected(today, json!({"time": "06:00"})), json!({"time": "18:00"}));
    assert_eq!(corrected(today, json!({"time": "6 pm"})), json!({"time": "18:00"}));
    let meeting = "A meeting, not before 1 pm";
    assert_eq!(corrected(meeting, json!({"time": "1 pm", "end": "12 pm"})), json!({"time": "13:00"}));
    let party = "A party on 9 August 2025";
    assert_eq!(corrected(party, json!({"date": "9 August 2025"})), json!({"date": "2025-08-09"}));
    assert_eq!(corrected(party, json!({"date": "2023-08-09"})), json!({"date": "2025-08-09"}));
    let meeting = "A meeting on 9 August 2025 at 10:00";
    assert_eq!(
        corrected(meeting, json!({"starts_at": "2024-08-09T10:00"})),
        json!({"starts_at": "2025-08-09T10:00"})
    );
    assert_eq!(corrected("at 10:15 am", json!({"time": "10:15:00"})), json!({"time": "10:15"}));
    for text in ["on 9 August 2025 at 9:00 am", "on 9 August 2025 at nine"] {
        let fixed = corrected(text, json!({"starts_at": "2025-08-09T17:00:00"}));
        assert_eq!(fixed, json!({"starts_at": "2025-08-09T09:00:00"}), "{text}");
    }
}

#[test]
fn dates_and_times_that_may_be_right_are_not_changed() {
    assert_unchanged("A party on 9 August 2025", json!({"day": "9 August 2025"}));
    assert_unchanged("Call me soon", json!({"date": "2025-08-09"}));
    let hour = "on 9 August 2025 at 9:00 am, for an hour";
    assert_unchanged(hour, json!({"starts_at": "2025-08-09T10:00", "minutes": 60}));
    assert_unchanged("on 9 August 2025, not at 9:00 but at 11:00", json!({"starts_at": "2025-08-09T10:00"}));
    let range = json!({"starts_at": "2025-08-09T14:00:00", "length": 120});
    assert_unchanged("on 9 August 2025 from 2 to 4 pm", range);
    assert_unchanged("on 9 August 2025 at 2 pm or at 4 pm", json!({"starts_at": "2025-08-09T10:00"}));
    assert_unchanged("on 9 August 2025 before 3 pm", json!({"starts_at": "2025-08-09T00:00:00"}));
    assert_unchanged("the call of 9:00 on 9 August 2025", json!({"new_start": "2025-08-09T14:00:00"}));
    assert_unchanged("A call at 15:00 for one hour", json!({"time": "15:00", "end": "16:00", "minutes": 60}));
    assert_unchanged("From 5 May 2025 for 3 nights", json!({"date": "2025-05-08"}));
    assert_unchanged("Good night, wake me at 6:30", json!({"time": "06:30"}));
    assert_unchanged("A flight for 1200 dollars", json!({"date": "2025-05-08"}));
    assert_unchanged("Move the second meeting to Christmas", json!({"date": "2025-12-25"}));
    let long = format!("{} on 9 August 2025", "a file. ".repeat(2_000));
    assert_unchanged(&long, json!({"date": "2023-08-09"}));
}

#[test]
fn model_chooses_among_several_values() {
    let chosen = corrected("From 3 to 9 May 2025 in 2025", json!({"date": "2023-05-03"}));
    assert_eq!(chosen["choose"]["date"]["enum"][0], "2025-05-03", "{chosen}");
    // All other dates within the year may be right.
    assert_unchanged("in 2025", json!({"date": "2025-05-03"}));
}

#[test]
fn first_value_of_an_enumeration_is_corrected() {
    let ride = "How do I cycle to the park?";
    assert_eq!(corrected(ride, json!({"mode": "driving"})), json!({"mode": "bicycling"}));
    assert_eq!(corrected("I am a woman", json!({"sex": "male"})), json!({"sex": "female"}));
    assert_unchanged("I am a man", json!({"sex": "male"}));
    assert_unchanged("driving or public transport", json!({"mode": "bicycling"}));
    assert_unchanged("to the park", json!({"mode": "driving"}));
    assert_unchanged("Do not allow port 22", json!({"action": "deny"}));
    assert_unchanged("Do not deny it", json!({"action": "allow"}));
}

#[test]
fn a_conversion_begins_with_the_unit_of_the_number() {
    let units = |from: &str, to: &str| json!({"count": 3, "from_unit": from, "to_unit": to});
    let cups = "How many milliliters are 3 cups?";
    assert_eq!(corrected(cups, units("milliliter", "milliliter")), units("cup", "milliliter"));
    assert_unchanged(cups, units("cup", "milliliter"));
    let oven = "My oven shows Celsius. What is 3 °F?";
    assert_eq!(corrected(oven, units("celsius", "fahrenheit")), units("fahrenheit", "celsius"));
    assert_unchanged("Convert 3 kilograms to pounds", units("kilograms", "pounds"));
    let oven = "Bake at 3 degrees Fahrenheit. What is that in Celsius?";
    assert_eq!(corrected(oven, units("fahrenheit", "fahrenheit")), units("fahrenheit", "celsius"));
    let weight = "I weigh 3 kg. What is that in pounds?";
    assert_eq!(corrected(weight, units("pounds", "pounds")), units("kilograms", "pounds"));
}

#[test]
fn times_12_hours_off_are_corrected() {
    let dentist = "The dentist on 12 March 2026 at 2:30 pm, for 45 minutes";
    let call = |name: &str, value: &str| json!({name: value, "minutes": 45});
    assert_eq!(corrected(dentist, call("time", "2:30")), call("time", "14:30"));
    assert_eq!(corrected(dentist, call("time", "02:30")), call("time", "14:30"));
    assert_unchanged(dentist, json!({"time": "14:30", "end": "15:15", "minutes": 45}));
    let shift = "My 12 hour shift at 6 am";
    assert_unchanged(shift, json!({"time": "06:00", "end": "18:00", "minutes": 720}));
    let several = "From 5 May 2025, 3 nights in Rome, then 4 nights in Florence";
    assert_unchanged(several, json!({"date": "2025-05-12"}));
    assert_unchanged("From 2 pm for 1 hour 30", json!({"time": "14:00", "end": "15:30"}));
    assert_eq!(corrected(dentist, call("date", "2023-03-12")), call("date", "2026-03-12"));
}

#[test]
fn values_that_no_computation_gives_are_chosen_again() {
    let slot = "Is a slot of 90 minutes free between 9 am and 5 pm?";
    let free = json!({"time": "09:00", "end": "17:00", "minutes": 90});
    assert_eq!(corrected(slot, json!({"time": "09:00", "end": "18:00"})), free);
    let chosen = corrected("At 2 pm for 45 minutes", json!({"time": "14:00", "end": "14:30", "minutes": 45}));
    assert_eq!(chosen["choose"]["end"]["enum"], json!(["14:45", "13:15"]));
    let nights = json!({"day": "2025-05-05", "date": "2025-05-11"});
    let chosen = corrected("From 5 May 2025 for 3 nights", nights);
    assert_eq!(chosen["choose"]["date"]["enum"][0], "2025-05-08", "{chosen}");
}

#[test]
fn a_number_is_the_minimum_or_the_maximum() {
    let schema = json!({"type": "object", "properties": {
        "min_price": {"type": "number"}, "max_price": {"type": "number"}}});
    let schema = Schema::new(schema).unwrap();
    let both = json!({"min_price": 80, "max_price": 80});
    let correct = |bound: &str| {
        let question = format!("Headphones, {bound} 80 dollars");
        corrected_with(&schema, &question, &question, both.clone())
    };
    for bound in ["under", "for no more than", "max", "with a maximum of"] {
        assert_eq!(correct(bound), json!({"max_price": 80}), "{bound}");
    }
    for bound in ["for at least", "exceeding", "min", "with a minimum of"] {
        assert_eq!(correct(bound), json!({"min_price": 80}), "{bound}");
    }
    for other in ["for", "ready in 30 min", "nothing over"] {
        assert_eq!(correct(other), both, "{other}");
    }
}

#[test]
fn a_limit_has_the_stated_direction() {
    let text = "headphones under 80 dollars";
    assert_eq!(corrected(text, json!({"min_rating": 80})), json!({"max_rating": 80}));
    assert_unchanged(text, json!({"max_rating": 80}));
    assert_unchanged("headphones for 80 dollars", json!({"min_rating": 80}));
    assert_unchanged("headphones, nothing over 80 dollars", json!({"max_rating": 80}));
    assert_eq!(corrected("headphones over 80 dollars", json!({"max_rating": 80})), json!({"min_rating": 80}));
}

#[test]
fn a_year_is_only_the_first_one_after_since() {
    let years = json!({"year_from": 2010, "year_to": 2010});
    assert_eq!(corrected("rulings since 2010", years.clone()), json!({"year_from": 2010}));
    assert_unchanged("rulings of 2010", years.clone());
    assert_unchanged("Since it is my year of birth, rulings of 2010", years);
}

#[test]
fn names_have_the_spelling_of_the_user() {
    assert_eq!(corrected("Rain in Lisbon", json!({"artist": "Lisboa"})), json!({"artist": "Lisbon"}));
    assert_unchanged("Rain in Germany", json!({"artist": "German"}));
    assert_unchanged("Rain in Lisbon, Lisboa", json!({"artist": "Lisboa"}));
    assert_unchanged("Check my calendar", json!({"artist": "Chess"}));
    assert_unchanged("Tell Anna that I sent it to Dave", json!({"artist": "Sent"}));
    // The model may compose a title.
    assert_unchanged("Write to Anna", json!({"title": "Annu"}));
    assert_unchanged("Write to Maria", json!({"artist": "Mark"}));
}

#[test]
fn an_omitted_duration_is_added() {
    assert_eq!(corrected("Ride for 20 minutes", json!({"count": 1})), json!({"count": 1, "minutes": 20}));
    assert_eq!(
        corrected("jobs from the last two weeks", json!({"title": "jobs"})),
        json!({"title": "jobs", "published_within_days": 14})
    );
    assert_unchanged("Ride 20 of them", json!({"count": 20}));
    assert_unchanged("A car for 3 days", json!({"count": 1}));
}

#[test]
fn numbers_of_thousands_are_corrected() {
    assert_eq!(
        corrected("add two and a half thousand of them", json!({"count": 2.5})),
        json!({"count": 2500})
    );
    assert_unchanged("add 2,500 of 2.5", json!({"brightness": 2.5}));
    assert_unchanged("add 2,500 g", json!({"brightness": 2.5}));
    assert_unchanged("buy it for 1000 dollars", json!({"count": 1}));
}

#[test]
fn parts_of_one_are_percentages() {
    assert_eq!(
        corrected("a house for 450,000 with 20% down over 15 years", json!({"brightness": 0.2})),
        json!({"brightness": 20})
    );
    assert_unchanged("20% of it at a level of 40", json!({"brightness": 40}));
    assert_unchanged("a loan of 300,000 at 5%", json!({"rate": 0.05}));
    let test = "a test at the 1 percent level";
    assert_eq!(corrected(test, json!({"alpha": 0.05})), json!({"alpha": 0.01}));
    assert_unchanged(test, json!({"alpha": 0.01}));
    assert_unchanged("a test at the 1 percent level, with 5%", json!({"alpha": 0.1}));
    assert_unchanged("a test of 3 samples", json!({"alpha": 0.05}));
    assert_unchanged("a test at the 95 percent level", json!({"alpha": 0.05}));
    assert_unchanged("a tip of 20%", json!({"brightness": 20, "alpha": 0.05}));
}

#[test]
fn an_omitted_number_is_added() {
    assert_eq!(
        corrected("light for a 9 volt battery and 220 ohms", json!({"count": 220})),
        json!({"count": 220, "voltage": 9})
    );
    assert_unchanged("a battery of 9 volts", json!({"count": 9}));
    assert_unchanged("9 volts or 12 volts", json!({"title": "x"}));
    assert_unchanged("over 5 years", json!({"title": "x"}));
    assert_unchanged("for 1,500 volts", json!({"title": "x"}));
    assert_unchanged("for -18 volts", json!({"title": "x"}));
}

#[test]
fn an_omitted_number_follows_the_name_of_the_parameter() {
    let rook = json!({"title": "8/R7"});
    assert_eq!(corrected("8/R7 with a count of 24", rook.clone()), json!({"title": "8/R7", "count": 24}));
    assert_eq!(corrected("Count: 24.", json!({"day": "x"})), json!({"day": "x", "count": 24}));
    assert_unchanged("count 24", json!({"limit": 24}));
    for other in ["account 24", "counts 24", "count 24 cm", "count 24%", "count 24-30", "count 2.5"] {
        assert_unchanged(other, rook.clone());
    }
    assert_unchanged("count 24 or count 30", rook.clone());
    for other in ["count 24 to 30", "a thread count of 24", "24 counts"] {
        assert_unchanged(other, rook.clone());
    }
    for text in ["a thousand dollar deductible", "a 1000-dollar deductible", "\u{a3}1000 deductibles"] {
        assert_eq!(corrected(text, rook.clone()), json!({"title": "8/R7", "deductible": 1000}), "{text}");
    }
    assert_unchanged("the R1000 deductible", rook);
}

#[test]
fn a_code_next_to_the_name_of_its_parameter_is_used() {
    let schema = Schema::new(json!({"properties": {
        "level": {"enum": ["AA", "AAA"]}, "from": {"enum": ["USD", "EUR"]}, "to": {"enum": ["USD", "EUR"]},
        "status": {"enum": ["unpaid", "paid"]}}}));
    let schema = schema.unwrap();
    let correct = |question: &str, arguments: Value| corrected_with(&schema, question, question, arguments);
    let level = |level: &str| json!({ "level": level });
    assert_eq!(correct("Is it good enough for level AAA?", level("AA")), level("AAA"));
    assert_eq!(correct("Level aa, please", level("AAA")), level("AAA"));
    assert_eq!(correct("My AAA battery is good enough", level("AA")), level("AA"));
    assert_eq!(correct("Level AA or AAA?", level("AA")), level("AA"));
    assert_eq!(correct("Level AA, not AAA", level("AA")), level("AA"));
    let exchange = json!({"from": "EUR", "to": "USD"});
    assert_eq!(correct("What are 5 EUR worth?", exchange.clone()), exchange);
    let status = json!({"status": "unpaid"});
    assert_eq!(correct("Invoices that still have to be paid", status.clone()), status);
}

#[test]
fn an_omitted_bound_is_added() {
    assert_eq!(
        corrected("a car with at least 4 seats for no more than $120 a day", json!({"title": "car"})),
        json!({"title": "car", "max_price_per_day": 120, "min_seats": 4})
    );
    assert_eq!(
        corrected("a car under 1,200 euros", json!({"title": "car"})),
        json!({"title": "car", "max_price_per_day": 1200})
    );
    assert_unchanged("a car for at most 5 days", json!({"title": "car"}));
    for text in ["a car under $1.5 million", "a car under $1.5m", "a car for at most $1500k"] {
        let expected = json!({"title": "car", "max_price_per_day": 1_500_000});
        assert_eq!(corrected(text, json!({"title": "car"})), expected, "{text}");
    }
    for unclear in ["5m", "5 m", "5 k", "$5 bn", "$5bn"] {
        assert_unchanged(&format!("a car under {unclear}"), json!({"title": "car"}));
    }
    assert_unchanged("a car with at least 4k seats", json!({"title": "car"}));
    assert_unchanged("a car under 1.200 euros", json!({"title": "car"}));
    assert_unchanged("a car, but it shouldn't cost more than $200", json!({"title": "car"}));
    assert_unchanged("a car under 90 euros", json!({"title": "car", "count": 90}));
    assert_unchanged("a car of over 90 dollars", json!({"title": "car"}));
    assert_unchanged("a car with at least 2 doors", json!({"title": "car"}));
    assert_unchanged("a car with more than 40 doors", json!({"title": "car"}));
}

#[test]
fn the_only_call_gets_the_arguments_of_the_whole_question() {
    let question = "Are there jobs in Leeds, posted in the last two weeks?";
    let corrector = ArgumentCorrector::new(&ChatRequest::new([Message::user(question)]));
    let call = ToolCall::new("1", "tool", json!({"title": "jobs"}).to_string());
    assert!(corrector.correct("jobs in Leeds", &call, &schema()).is_none());
    let completed = corrector.completed(&call, &schema()).unwrap();
    assert_eq!(*completed.arguments.value_or_string(), json!({"title": "jobs", "published_within_days": 14}));
    assert!(corrector.completed(&completed, &schema()).is_none());
    let question = "I lost my last job two weeks ago. Are there jobs in Leeds?";
    let corrector = ArgumentCorrector::new(&ChatRequest::new([Message::user(question)]));
    assert!(corrector.completed(&call, &schema()).is_none());
}

#[test]
fn an_omitted_date_is_added() {
    assert_eq!(
        corrected("mails that I got after April 1, 2025, with a file", json!({"title": "file"})),
        json!({"title": "file", "received_after": "2025-04-01"})
    );
    assert_eq!(
        corrected("mails from before May 3, 2025", json!({"title": "x"})),
        json!({"title": "x", "before": "2025-05-03"})
    );
    assert_unchanged("mails from after the meeting of April 1, 2025", json!({"title": "x"}));
    assert_unchanged("mails after April 1, 2025", json!({"date": "2025-04-01"}));
    assert_unchanged("mails before May 3", json!({"title": "x"}));
}

#[test]
fn an_omitted_limit_is_added() {
    assert_eq!(
        corrected("the last 10 songs", json!({"day": "x", "count": 3})),
        json!({"day": "x", "count": 3, "limit": 10})
    );
    let known = json!({"count": 1, "limit": 5});
    for (text, name) in [("the top three seats", "max_seats"), ("the first 3 keywords", "top_n")] {
        assert_eq!(corrected(text, known.clone())[name], 3, "{text}");
    }
    assert_unchanged("the last 10 minutes", json!({"minutes": 10}));
    assert_unchanged("10 songs", json!({"day": "x"}));
    assert_unchanged("my spending in the last 3 months", json!({"day": "x"}));
    assert_unchanged("the next 7 days", json!({"day": "x"}));
    assert_unchanged("the next five business days", json!({"day": "x"}));
    assert_unchanged("The last one was too long. The latest ones, please", json!({"day": "x"}));
    assert_unchanged("the last two seasons", json!({"day": "x"}));
}

#[test]
fn a_one_way_trip_has_no_return_date() {
    let trip = json!({"date": "2025-05-09", "return_date": "2025-05-12"});
    let question = "A one-way flight on 9 May 2025, not on 12 May 2025";
    assert_eq!(corrected(question, trip.clone()), json!({"date": "2025-05-09"}));
    assert_unchanged("A flight from 9 May 2025 to 12 May 2025", trip.clone());
    assert_unchanged("Not one way: on 9 May 2025, and back on 12 May 2025", trip);
    let empty = json!({"date": "2025-05-09", "return_date": ""});
    assert_eq!(corrected("one-way SFO to SEA on 9 May 2025", empty), json!({"date": "2025-05-09"}));
    let format = json!({"date": "2025-05-09", "return_format": "csv"});
    assert_unchanged("A one-way flight on 9 May 2025", format);
}

#[test]
fn a_list_is_not_taken_from_another_part_of_the_question() {
    let question = "Post \"two backend engineers\" with the stops hiring and rust.";
    let stops = |items: &[&str]| json!({ "stops": items });
    assert_eq!(corrected(question, stops(&["backend", "engineers"])), stops(&["hiring", "rust"]));
    assert_eq!(corrected(question, stops(&[])), stops(&["hiring", "rust"]));
    assert_unchanged(question, stops(&["hiring"]));
    assert_unchanged(question, stops(&["Hiring", "RU"]));
    assert_unchanged("Post it with the stops hiring", stops(&["post"]));
}

#[test]
fn the_time_zone_of_a_place_replaces_the_example() {
    let zone = json!({"description": "IANA name, e.g. Europe/Paris"});
    let schema = Schema::new(json!({"properties": {"user_tz": zone}})).unwrap();
    let question = "What time is it in Tokyo?";
    let corrected = corrected_with(&schema, question, question, json!({"user_tz": "Europe/Paris"}));
    assert_eq!(corrected, json!({"user_tz": "Asia/Tokyo"}));
}

#[test]
fn the_artist_is_split_from_a_title() {
    let question = "Find the track Bohemian Rhapsody by Queen";
    let fixed = corrected(question, json!({"title": "Bohemian Rhapsody by Queen"}));
    assert_eq!(fixed, json!({"title": "Bohemian Rhapsody", "artist": "Queen"}));
    assert_unchanged("Find Stand by Me", json!({"title": "Stand by Me"}));
    assert_unchanged("Find Side by Side", json!({"title": "Side by Side"}));
    assert_unchanged("Find \"Death by Chocolate\"", json!({"title": "Death by Chocolate"}));
}

#[test]
fn the_artist_is_removed_from_a_title() {
    let song = json!({"title": "Yesterday by The Beatles", "artist": "The Beatles"});
    assert_eq!(corrected("Play it", song), json!({"title": "Yesterday", "artist": "The Beatles"}));
    assert_unchanged("Play it", json!({"title": "The Beatles", "artist": "The Beatles"}));
    assert_unchanged("Share it", json!({"title": "Songs for Anna", "artist": "Anna"}));
}

#[test]
fn the_value_of_another_sentence_is_kept() {
    let reasons = json!({"enum": ["damaged", "wrong_item", "not_needed"]});
    let schema = Schema::new(json!({"properties": {"reason": reasons}})).unwrap();
    let damaged = json!({"reason": "damaged"});
    let need = "I'd like to return an item";
    let question = "I'd like to return an item. It arrived damaged.";
    assert_eq!(corrected_with(&schema, need, question, damaged.clone()), damaged);
    let need = "I got the wrong item";
    let question = "I got the wrong item. It is not damaged, and I need the right one.";
    assert_eq!(corrected_with(&schema, need, question, damaged), json!({"reason": "wrong_item"}));
}

#[test]
fn a_bound_after_its_number_is_added() {
    let car = || json!({"title": "car"});
    let text = "a car for 120 dollars or less";
    assert_eq!(corrected(text, car()), json!({"title": "car", "max_price_per_day": 120}));
    assert_eq!(corrected("a car with 4 seats or more", car()), json!({"title": "car", "min_seats": 4}));
    assert_unchanged("a car with 4 doors or more", car());
    assert_unchanged("a car, but not for 120 dollars or more", car());
    assert_unchanged("a car for $70k or less", car());
    assert_unchanged("a car under 50 thousand miles", car());
    let salary = json!({"description": "Lowest yearly salary."});
    let schema = Schema::new(json!({"properties": {"min_salary": salary, "min_age": {}}})).unwrap();
    let jobs = "jobs that pay at least 70k a year";
    assert_eq!(corrected_with(&schema, jobs, jobs, json!({})), json!({"min_salary": 70_000}));
}

#[test]
fn an_antonym_negates_a_flag() {
    let schema = Schema::new(json!({"properties": {"isPublic": {"type": "boolean"}}})).unwrap();
    let private = "Create a private playlist";
    assert_eq!(
        corrected_with(&schema, private, private, json!({"isPublic": true})),
        json!({"isPublic": false})
    );
    let hidden = Schema::new(json!({"properties": {"visible": {"type": "boolean"}}})).unwrap();
    let text = "Add a hidden column";
    assert_eq!(corrected_with(&hidden, text, text, json!({"visible": true})), json!({"visible": false}));
    for text in ["Create a public playlist", "Make my private playlist public", "It is not private"] {
        let public = json!({"isPublic": true});
        assert_eq!(corrected_with(&schema, text, text, public.clone()), public, "{text}");
    }
}

#[test]
fn a_full_name_is_no_abbreviation() {
    let state = json!({"type": "string", "description": "Full name of the US state."});
    let schema = Schema::new(json!({"properties": {"state": state}, "required": ["state"]})).unwrap();
    let question = "Find cases in California.";
    let corrected = corrected_with(&schema, question, question, json!({"state": "CA"}));
    let pattern = Regex::new(corrected["choose"]["state"]["pattern"].as_str().unwrap()).unwrap();
    assert!(pattern.is_match("California") && !pattern.is_match("CA"));
    for (question, name) in [(question, "California"), ("Find cases in CA.", "CA"), (question, "")] {
        let unchanged = json!({ "state": name });
        assert_eq!(corrected_with(&schema, question, question, unchanged.clone()), unchanged, "{name}");
    }
}

#[test]
fn the_duration_of_an_event_is_not_the_time_of_its_reminder() {
    let schema = Schema::new(json!({"properties": {
        "title": {"type": "string"}, "reminder_minutes": {"type": "integer"}}, "required": ["title"]}));
    let schema = schema.unwrap();
    let call = |minutes: Value| json!({"title": "Workshop", "reminder_minutes": minutes});
    let text = "Schedule the workshop for tomorrow at 2pm for 1 hour 30 minutes";
    assert_eq!(corrected_with(&schema, text, text, call(json!(15))), call(json!(15)));
    let title = json!({"title": "Workshop"});
    assert_eq!(corrected_with(&schema, text, text, title.clone()), title);
    let german = "Erinnere mich 2 h vorher";
    assert_eq!(corrected_with(&schema, german, german, call(json!(2))), call(json!(120)));
    for text in ["remind me 1 hour 30 minutes before", "ping me 90 minutes ahead"] {
        let text = format!("Schedule the workshop and {text}");
        assert_eq!(corrected_with(&schema, &text, &text, title.clone()), call(json!(90)));
    }
}

#[test]
fn fractions_of_an_hour_replace_a_wrong_duration() {
    let question = "I just ran 8 kilometres in three quarters of an hour, log it!";
    assert_eq!(corrected(question, json!({"minutes": 150})), json!({"minutes": 45}));
    let question = "Log my run: 8.2 km in an hour and five minutes, on 2025-04-19";
    assert_eq!(corrected(question, json!({"minutes": 95})), json!({"minutes": 65}));
    assert_unchanged("8 km at 6 minutes per km", json!({"minutes": 48}));
    assert_unchanged("4 km takes me 1 hour 10 minutes; set a timer for 12 km", json!({"minutes": 210}));
}

#[test]
fn the_time_to_be_at_a_place_is_an_arrival() {
    let schema = Schema::new(json!({"properties": {
        "time": {"type": "string"},
        "time_is_arrival": {"type": "boolean", "default": false},
        "arrival_transfer": {"type": "boolean"}}}));
    let schema = schema.unwrap();
    let time = json!({"time": "11:00"});
    let arrival = json!({"time": "11:00", "time_is_arrival": true});
    for text in ["I have to be in Bern by 11:00", "A train that arrives in Bern before 11:00"] {
        assert_eq!(corrected_with(&schema, text, text, time.clone()), arrival, "{text}");
    }
    for text in [
        "Leave after 9:00 and be in Bern by 11:00",
        "A train that leaves for Bern at 11:00",
        "A train to Bern at 11:00",
        "I'll be free after 11:00",
    ] {
        assert_eq!(corrected_with(&schema, text, text, time.clone()), time, "{text}");
    }
}

#[test]
fn the_earliest_time_is_not_computed() {
    let schema = Schema::new(json!({"properties": {
        "earliest": {"type": "string", "description": "Earliest start, HH:MM"}}}));
    let schema = schema.unwrap();
    let text = "We need half an hour, and nothing before 10 in the morning.";
    let call = |earliest: &str| json!({ "earliest": earliest });
    assert_eq!(corrected_with(&schema, text, text, call("09:30")), call("10:00"));
    let text = "I land at 14:00 and need 45 minutes to the station.";
    assert_eq!(corrected_with(&schema, text, text, call("14:45")), call("14:45"));
}

#[test]
fn power_and_frequency_have_units() {
    let schema = Schema::new(json!({"properties": {
        "power_watts": {"type": "number"}, "frequency_hz": {"type": "number"}}}));
    let schema = schema.unwrap();
    let text = "A heater of 1.5 kW at 2 kHz";
    let call = |watts: f64, hertz: f64| json!({"power_watts": watts, "frequency_hz": hertz});
    let expected = json!({"power_watts": 1500, "frequency_hz": 2000});
    assert_eq!(corrected_with(&schema, text, text, call(1.5, 2.0)), expected);
}
