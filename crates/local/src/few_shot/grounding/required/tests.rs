use haft_core::{Message, model::ChatRequest};
use serde_json::json;

use super::*;

/// Returns the first required argument that the question `question` lacks, of a call to `tool` with
/// the required arguments `arguments`. `properties` are the schemas of the arguments that are no
/// texts.
fn lacking(question: &str, tool: &str, arguments: Value, properties: Value) -> Option<String> {
    let names: Vec<_> = arguments.as_object().unwrap().keys().cloned().collect();
    let mut schemas = Map::new();
    for name in &names {
        let schema = properties.get(name).cloned().unwrap_or_else(|| json!({"type": "string"}));
        schemas.insert(name.clone(), schema);
    }
    let schema = Schema::new(json!({"type": "object", "properties": schemas, "required": names})).unwrap();
    let call = ToolCall::new("1", tool, arguments.to_string());
    let facts = KnownFacts::from_text(question);
    facts.first_invented(&call, &schema).or_else(|| facts.first_unstated(&call, &schema))
}

/// Returns `true` if the question `question` lacks `number`, a number or a list of numbers, for the
/// required parameter `name`.
fn lacks_number(question: &str, name: &str, number: &Value) -> bool {
    let properties = json!({name: {"type": ["integer", "array"]}});
    lacking(question, "tool", json!({name: number}), properties).is_some()
}

fn lacking_text(question: &str, arguments: Value) -> Option<String> {
    lacking(question, "tool", arguments, json!({}))
}

#[test]
fn two_ends_need_two_values() {
    let flight = || json!({"origin": "Oslo", "destination": "Oslo"});
    assert_eq!(lacking_text("Find flights to Oslo.", flight()).as_deref(), Some("destination"));
    assert_eq!(lacking_text("Find scenic flights from Oslo to Oslo.", flight()), None);
    assert_eq!(lacking_text("Start and end are the same place, Oslo.", flight()), None);
    let accounts = json!({"from_account": "checking", "to_account": "checking"});
    assert_eq!(lacking_text("Move money from checking.", accounts).as_deref(), Some("to_account"));
    // These are no two ends.
    assert_eq!(lacking_text("Call mom", json!({"title": "Call mom", "name": "Call mom"})), None);
}

#[test]
fn one_day_is_a_period_unless_it_is_marked_as_an_end() {
    let days = || json!({"start_date": "2025-08-04", "end_date": "2025-08-04"});
    assert_eq!(lacking_text("I'm off on 2025-08-04.", days()), None);
    assert_eq!(lacking_text("I'm off starting on 2025-08-04.", days()).as_deref(), Some("end_date"));
    assert_eq!(lacking_text("I'm away until August 4, 2025.", days()).as_deref(), Some("end_date"));
    assert_eq!(lacking_text("Block 2025-08-04 from 9 to 5.", days()), None);
    // A stay has at least one night.
    let stay = json!({"check_in": "2025-08-04", "check_out": "2025-08-04"});
    assert_eq!(lacking_text("A hotel on 2025-08-04.", stay).as_deref(), Some("check_out"));
    let times = json!({"start_time": "14:00", "end_time": "14:00"});
    assert_eq!(lacking_text("A meeting at 2 pm", times).as_deref(), Some("end_time"));
}

#[test]
fn a_date_in_the_year_of_another_day_is_invented() {
    let stay = || json!({"check_in": "2025-08-04", "check_out": "2025-08-09"});
    assert_eq!(lacking_text("A hotel from 2025-08-04 for 2 guests", stay()).as_deref(), Some("check_out"));
    for question in ["A hotel from 2025-08-04, five nights", "A hotel from 2025-08-04 to the 9th"] {
        assert_eq!(lacking_text(question, stay()), None, "{question}");
    }
    let quarter = json!({"first_day": "2025-01-01", "last_day": "2025-03-31"});
    assert_eq!(lacking_text("The sales of Q1 2025", quarter), None);
}

#[test]
fn two_quantities_need_two_numbers() {
    let number = || json!({"type": "number"});
    let properties = || json!({"rate": number(), "years": number(), "width": number(), "height": number()});
    let loan = |question: &str| lacking(question, "loan", json!({"rate": 5, "years": 5}), properties());
    assert_eq!(loan("What does a loan over 5 years cost?").as_deref(), Some("years"));
    assert_eq!(loan("What does a loan at 5% over five years cost?"), None);
    assert_eq!(loan("5 and 5"), None);
    let loan = json!({"n": 5, "k": 5});
    assert_eq!(
        lacking("How many orders do 5 books have?", "tool", loan, json!({"n": number(), "k": number()})),
        None
    );
    let players = json!({"min_players": 4, "max_players": 4});
    let properties_of_players = json!({"min_players": number(), "max_players": number()});
    assert_eq!(lacking("A game for 4", "games", players, properties_of_players), None);
    let area = lacking("The area of a square of 5 m", "area", json!({"width": 5, "height": 5}), properties());
    assert_eq!(area, None);
}

#[test]
fn a_message_needs_a_content() {
    let message = |question: &str, text: &str| {
        let arguments = json!({"recipient": "Martin", "text": text});
        lacking(question, "send_message", arguments, json!({}))
    };
    for question in ["Send Martin a message.", "Write to Martin", "Please send something to Martin!"] {
        assert_eq!(message(question, "Hello Martin!").as_deref(), Some("text"), "{question}");
    }
    assert_eq!(message("Apologize to Martin for the delay.", "I'm sorry that I'm late."), None);
    assert_eq!(message("Schreib Martin, dass ich krank bin.", "Ich bin krank."), None);
    assert_eq!(message("Tell Martin: hello Martin!", "Hello Martin!"), None);
    // The result of a tool may be the content.
    let schema = Schema::new(json!({
        "type": "object",
        "properties": {"recipient": {"type": "string"}, "text": {"type": "string"}},
        "required": ["recipient", "text"],
    }));
    let (schema, arguments) = (schema.unwrap(), json!({"recipient": "Martin", "text": "It is warm"}));
    let call = ToolCall::new("1", "send_message", arguments.to_string());
    let mut facts = KnownFacts::from_text("Today is Monday. Write to Martin. 18 degrees");
    facts.user_words = KnownWords::new("Write to Martin.");
    assert!(facts.lacks_argument(&call, &schema));
    facts.has_results = true;
    assert!(!facts.lacks_argument(&call, &schema));
    // An earlier message of the user may have the content.
    let messages = ["Tell Martin that it is warm.", "Please send it."].map(Message::user);
    assert!(!KnownFacts::new(&ChatRequest::new(messages)).lacks_argument(&call, &schema));
    let poem = json!({"path": "poem.txt", "content": "Roses are red"});
    assert_eq!(lacking("Write to poem.txt", "write_file", poem, json!({})), None);
}

#[test]
fn a_code_that_a_service_gave_must_be_in_the_conversation() {
    let invented = |question: &str, name: &str, value: &str, description: &str| {
        let properties = json!({name: {"type": "string", "description": description}});
        lacking(question, "tool", json!({name: value}), properties).is_some()
    };
    let code = "Code of the booking, such as HB-1234.";
    assert!(invented("Please cancel my booking.", "booking_code", "HB-1234", code));
    assert!(!invented("Please cancel HB 1234.", "booking_code", "HB-1234", code));
    assert!(invented("Use my coupon.", "code", "my_coupon", "Code of the coupon."));
    assert!(invented("Assign the login issue", "issue_key", "LOGIN-1", ""));
    assert!(!invented("Close ticket 45 of the WEB project", "issue_key", "WEB-45", ""));
    assert!(!invented("Check it", "code", "fn main() {}", "Source code to check for issues."));
    // The model knows or composes other codes.
    assert!(!invented("The capital of France?", "country_code", "FR", "ISO 3166 code"));
    assert!(!invented("Print all primes", "code", "print(primes)", "The Python code to execute."));
}

#[test]
fn some_numbers_must_be_stated_even_if_they_are_one() {
    assert!(lacks_number("Book a double room.", "nights", &json!(1)));
    assert!(!lacks_number("Book a room for a night.", "nights", &json!(1)));
    assert!(lacks_number("Book me a table.", "party_size", &json!(1)));
    assert!(lacks_number("Restore an earlier version.", "version", &json!(1)));
    assert!(lacks_number("Split the bill between four of us.", "total", &json!(100)));
    assert!(!lacks_number("Order a pizza.", "quantity", &json!(1)));
    assert!(!lacks_number("An alarm at 7.", "minute", &json!(0)));
    assert!(!lacks_number("A timer of two hours", "minutes", &json!(0)));
}

#[test]
fn the_parts_of_a_date_are_no_quantities() {
    assert!(lacks_number("A table for 2026-07-04 at 19:30, please.", "party_size", &json!(2026)));
    assert!(lacks_number("A table for July 4, 2026", "people", &json!(4)));
    assert!(!lacks_number("A table for 4 on July 4, 2026", "people", &json!(4)));
    assert!(!lacks_number("A table for four on July 4, 2026", "people", &json!(4)));
    assert!(!lacks_number("The games of July 4, 2026", "year", &json!(2026)));
    assert!(!lacks_number("One copy, on May 1, 2026", "copies", &json!(1)));
}

#[test]
fn a_list_of_numbers_needs_a_number_of_the_conversation() {
    let lacks = |question: &str| {
        let properties = json!({"x": {"type": "array", "items": {"type": "number"}}});
        lacking(question, "correlation", json!({"x": [1, 2, 3]}), properties).is_some()
    };
    assert!(lacks("What is a correlation?"));
    assert!(!lacks("The correlation of 1, 2 and 3"));
}

#[test]
fn equal_numbers_of_everyday_requests_are_kept() {
    let number = || json!({"type": "number"});
    for (question, arguments) in [
        ("Show me line 42 of main.rs.", json!({"start_line": 42, "end_line": 42})),
        ("What happened on the 5th of May?", json!({"month": 5, "day": 5})),
        ("What is the chance that all 10 flips are heads?", json!({"trials": 10, "successes": 10})),
        ("What is 12 multiplied by itself?", json!({"first": 12, "second": 12})),
        ("Could you resize it to 512 px on each side?", json!({"width": 512, "height": 512})),
        ("How big is a box of 2 m by 2 m?", json!({"width_cm": 200, "depth_cm": 200})),
        ("What are 7% over seven years?", json!({"rate": 7, "years": 7})),
        ("Quadrat mit 5 cm", json!({"breite": 5, "laenge": 5})),
    ] {
        let names = arguments.as_object().unwrap().keys().map(|name| (name.clone(), number()));
        let properties = Value::Object(names.collect());
        assert_eq!(lacking(question, "tool", arguments, properties), None, "{question}");
    }
}

#[test]
fn equal_ends_of_everyday_requests_are_kept() {
    let zones = json!({"source_timezone": "America/Los_Angeles", "target_timezone": "America/Los_Angeles"});
    let hire = json!({
        "pickup_location": "Munich", "return_location": "Munich",
        "pickup_date": "2026-05-03", "return_date": "2026-05-07",
    });
    for (question, arguments) in [
        ("It is 3 pm in San Francisco. What time is it in Seattle?", zones),
        ("I need a car in Munich from May 3 to 7, 2026.", hire),
        ("Plan a loop from Zermatt.", json!({"start": "Zermatt", "end": "Zermatt"})),
        (
            "It is 2 May 2026. Block my calendar from tomorrow 9 am until 5 pm",
            json!({"start_date": "2026-05-03", "end_date": "2026-05-03"}),
        ),
    ] {
        assert_eq!(lacking_text(question, arguments), None, "{question}");
    }
}

#[test]
fn only_the_last_question_marks_the_end_of_a_period() {
    let schema = Schema::new(json!({
        "type": "object",
        "properties": {"start_date": {"type": "string"}, "end_date": {"type": "string"}},
        "required": ["start_date", "end_date"],
    }));
    let day = json!({"start_date": "2025-08-04", "end_date": "2025-08-04"});
    let call = ToolCall::new("1", "request_leave", day.to_string());
    let lacks = |question: &str| {
        let system = Message::system("The office is open from Monday to Friday.");
        let request = ChatRequest::new([system, Message::user(question)]);
        KnownFacts::new(&request).lacks_argument(&call, schema.as_ref().unwrap())
    };
    assert!(!lacks("I'm off on 2025-08-04."));
    assert!(lacks("I'm off from 2025-08-04."));
}

#[test]
fn numbers_of_everyday_requests_are_kept() {
    for (question, name, number) in [
        ("How much is a dollar in euros?", "amount", json!(1)),
        ("Mute the TV.", "volume", json!(0)),
        ("Move 0 dollars? No, nothing.", "amount", json!(0)),
        ("Laptops under 1000 dollars", "min_price", json!(0)),
        ("Show me the errors of the last hour.", "hours", json!(1)),
        ("A room in Berlin tonight", "nights", json!(1)),
        ("A night in Rome, please", "nights", json!(1)),
        ("A car for a day", "duration", json!(1)),
        ("A table for just me", "party_size", json!(1)),
        ("I dine on my own. Get me a table.", "party_size", json!(1)),
        ("A table for one at 7 pm", "party_size", json!(1)),
        ("Find me a flight to Oslo.", "passengers", json!(1)),
        ("Two dozen eggs for December 24", "quantity", json!(24)),
        ("Remind me in a couple of hours", "minutes", json!(120)),
        ("I take it twice a day", "interval_hours", json!(12)),
        ("From July 12 for a week", "nights", json!(7)),
        ("An alarm at 8 pm on May 20", "hour", json!(20)),
        ("An alarm at 7 on weekdays", "days", json!([1, 2, 3, 4, 5])),
        ("Make the lamp red.", "rgb_color", json!([255, 0, 0])),
        ("The inverse of the identity matrix", "matrix", json!([[1, 0], [0, 1]])),
    ] {
        assert!(!lacks_number(question, name, &number), "{question}");
    }
}

#[test]
fn a_time_is_no_number_of_persons() {
    for (question, number) in [
        ("A table tomorrow at 7 pm", 7),
        ("A table at 19:30", 19),
        ("The cheapest one, at 7", 1),
        ("A table for just me and my wife", 1),
    ] {
        assert!(lacks_number(question, "guests", &json!(number)), "{question}");
    }
}

#[test]
fn a_month_or_a_day_in_another_language_may_be_derived() {
    let day = || json!({"start_date": "2025-05-01"});
    assert_eq!(lacking_text("Current date: 2025-06-15. How much did I spend in May?", day()), None);
    assert_eq!(
        lacking_text("Heute ist der 15.06.2025. Ein Tisch für morgen", json!({"date": "2025-06-16"})),
        None
    );
}

#[test]
fn a_title_does_not_use_up_the_content() {
    let issue = json!({"repo": "web", "title": "Login button broken", "body": "The login button is broken."});
    assert_eq!(
        lacking("Create an issue in web: login button broken", "create_issue", issue, json!({})),
        None
    );
    let post = json!({"channel": "random", "message": "Hello, world!"});
    let lacks = |question: &str| lacking(question, "post", post.clone(), json!({}));
    assert_eq!(lacks("Can you post something in #random?").as_deref(), Some("message"));
}

#[test]
fn a_number_of_another_unit_is_invented() {
    assert!(lacks_number("Log my swim, I did 1.5 km.", "ml", &json!(1500)));
    assert!(!lacks_number("Log 1.5 liters of water.", "ml", &json!(1500)));
    assert!(!lacks_number("Log 1500.", "ml", &json!(1500)));
    assert!(!lacks_number("A loan for two years", "term_months", &json!(24)));
    assert!(!lacks_number("Runs of at least 5 km", "distance_min", &json!(5)));
    // 4.1 is not 1, but 7 days are a week.
    assert!(lacks_number("What is the monthly rate at 4.1 % interest?", "years", &json!(1)));
    assert!(!lacks_number("A loan for 12 months", "years", &json!(1)));
    assert!(!lacks_number("I'm away for 7 days.", "weeks", &json!(1)));
    assert!(!lacks_number("A table for 1, please", "guests", &json!(1)));
}

#[test]
fn a_name_that_the_model_made_up_is_invented() {
    let rename = |question: &str, name: &str| {
        lacking_text(question, json!({"path": "/Photos/IMG_2044.jpg", "new_name": name}))
    };
    let question = "Please rename the file /Photos/IMG_2044.jpg";
    assert_eq!(rename(question, "IMG_2045.jpg").as_deref(), Some("new_name"));
    assert_eq!(rename("Rename /Photos/IMG_2044.jpg to beach 12.jpg", "beach_12.jpg"), None);
    let bucket = |question: &str, name: &str| lacking_text(question, json!({ "name": name }));
    assert!(bucket("Make a new private bucket.", "my-private-bucket").is_some());
    assert!(bucket("Make the bucket my-private-bucket.", "my-private-bucket").is_none());
    assert!(lacking_text("When does it leave?", json!({"flight_number": "leave"})).is_some());
}

#[test]
fn a_code_with_capitals_must_be_stated_or_known() {
    let code = |question: &str, name: &str, value: &str| lacking_text(question, json!({ name: value }));
    assert!(code("File a new bug: search crashes", "project", "WEB").is_some());
    assert!(code("File a new bug in WEB: search crashes", "project", "WEB").is_none());
    assert!(code("How is the weather in France?", "country", "FR").is_none());
    assert!(code("I need a weekly ticket.", "zone", "A").is_some());
    assert!(code("I need a weekly ticket for zone A.", "zone", "A").is_none());
    assert!(code("Convert 350 Swiss francs for me.", "to_currency", "USD").is_some());
    assert!(code("Convert 350 Swiss francs for my trip to Japan.", "to_currency", "JPY").is_none());
}

#[test]
fn texts_of_everyday_requests_are_kept() {
    for (question, name, text) in [
        ("Set an alarm for 7 tomorrow", "time", "7:00 AM"),
        ("Today is Saturday, 3 May 2025. Remind me tomorrow.", "date", "4 May 2025"),
        ("Show me the history for the last month", "period", "1 month"),
        ("Convert 25 degrees Celsius to Fahrenheit", "from_unit", "C"),
        ("What is the stock price of Visa?", "symbol", "V"),
        ("What is the derivative of 3x^2 + 2x?", "variable", "x"),
        ("What is the price of bitcoin?", "coin", "BTC"),
        ("When do the Lakers play?", "league", "NBA"),
        ("I want size m", "size", "M"),
    ] {
        assert_eq!(lacking_text(question, json!({ name: text })), None, "{question}");
    }
}

#[test]
fn rates_and_symbols_have_no_unit() {
    for (question, name, number) in [
        ("The potential energy of 5 kg at 10 meters", "m", 5),
        ("How long do I need at 60 km/h?", "speed_km_h", 60),
        ("500 mg per day", "dose_mg_per_day", 500),
        ("A room for 100 pounds a night", "price_per_night", 100),
        ("Book a one-hour meeting.", "duration_hours", 1),
        ("Give it one star.", "rating", 1),
        ("Restore the first version.", "version", 1),
    ] {
        assert!(!lacks_number(question, name, &json!(number)), "{question}");
    }
    for question in ["A room for 7 nights", "A room from July 1", "The cheapest one"] {
        assert!(lacks_number(question, "guests", &json!(1)), "{question}");
    }
}

#[test]
fn a_composed_text_without_a_file_is_the_answer() {
    let schema = |names: [&str; 2]| {
        let [path, content] = names.map(|name| json!({ name: {"type": "string"} }));
        let mut properties = path.as_object().unwrap().clone();
        properties.extend(content.as_object().unwrap().clone());
        Schema::new(json!({"type": "object", "properties": properties, "required": names})).unwrap()
    };
    let write = schema(["path", "content"]);
    let wants_text = |question: &str, schema: &Schema| KnownFacts::from_text(question).wants_text(schema);
    for question in ["Write a haiku about rust.", "Write a short poem about the sea."] {
        assert!(wants_text(question, &write), "{question}");
        assert!(!wants_text(question, &schema(["path", "destination"])), "{question}");
        assert!(!wants_text(question, &schema(["recipient", "content"])), "{question}");
    }
    for question in [
        "Save a haiku about the sea.",
        "Write a haiku to a file.",
        "Write a haiku to the haiku.txt",
        "Write a haiku to the folder ~/poems",
        "Write a haiku about the sea to \"poems\"",
        "Search for the haiku in src",
        "Write a haiku to the readme",
        "Schreib einen Draft nach haiku",
    ] {
        assert!(!wants_text(question, &write), "{question}");
    }
    let messages = ["I want to write to haiku.txt.", "Write a haiku about the sea."].map(Message::user);
    assert!(!KnownFacts::new(&ChatRequest::new(messages)).wants_text(&write));
}
