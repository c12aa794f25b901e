use serde_json::json;

use super::*;

fn schema() -> Schema {
    let text = || json!({"type": "string"});
    Schema::new(json!({
        "type": "object",
        "properties": {
            "city": text(),
            "date": text(),
            "event_id": text(),
            "amount": {"type": "number"},
            "latitude": {"type": "number"},
            "unit": {"enum": ["metric", "imperial"]},
            "time": text(),
            "labels": {"type": "array", "items": {"type": "string"}},
            "ports": {"type": "array", "items": {"type": "string"}},
            "days": {"type": "array", "items": {"enum": ["mon", "tue", "wed", "thu", "fri", "sat"]}},
            "max_minutes": {"type": "integer"},
            "limit": {"type": "integer", "default": 10},
            "mode": {"enum": ["bicycling", "driving"]},
            "silent": {"type": "boolean"},
            "dry_run": {"type": "boolean"},
            "tool_flag": {"type": "boolean", "description": "Whether the event is public."},
            "head": {"type": "integer", "description": "The first lines."},
            "max_price": {"type": "integer"},
            "contact": {"type": "string", "description": "A name or an email address."},
            "sender": {"type": "string", "description": "The email address."},
            "time_zone": {"type": "string", "description": "An IANA name, such as America/Lima."},
            "tail": {"type": "integer", "description": "The last lines."},
            "max_changes": {"type": "integer"},
            "mop": {"type": "boolean", "description": "Also wet the floor."},
            "power": {"type": "boolean", "description": "The new value."},
            "all": {"type": "boolean", "description": "Hidden entries."},
            "has_gym": {"type": "boolean", "description": "Fitness centre on site."},
            "recurring": {"type": "boolean", "description": "A series."},
            "all_day": {"type": "boolean", "description": "From midnight to midnight."},
            "business_days_only": {"type": "boolean", "description": "Count only business days."},
            "sort_by": {"enum": ["time", "magnitude"]},
            "notes": text(),
            "line": text(),
            "way": {"enum": ["bicycling", "driving"]},
            "energy_unit": {"enum": ["J", "kJ"]},
            "length_unit": {"enum": ["m", "cm"]},
            "symbols": {"type": "boolean"},
            "digits": {"type": "boolean"},
        },
        "required": ["city", "date", "event_id", "amount", "latitude", "unit"],
    }))
    .unwrap()
}

fn call(arguments: Value) -> ToolCall {
    ToolCall::new("1", "tool", arguments.to_string())
}

/// Returns the first invented required argument of a call after the question `question`.
fn invented(question: &str, arguments: Value) -> Option<String> {
    KnownFacts::from_text(question).first_invented(&call(arguments), &schema())
}

/// Returns the optional arguments that are kept after the question `question`.
fn kept(question: &str, optional: Value) -> Value {
    let mut arguments =
        json!({"city": "Oslo", "date": "", "event_id": "", "amount": 0, "latitude": 0, "unit": "metric"});
    let required = arguments.clone();
    arguments.as_object_mut().unwrap().extend(optional.as_object().unwrap().clone());
    let call = call(arguments);
    let kept = KnownFacts::from_text(question).without_invented(&call, &schema());
    let kept = kept.unwrap_or(call).arguments.value_or_string();
    let kept = kept.as_object().unwrap().iter();
    kept.filter(|(name, _)| required.get(name.as_str()).is_none())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

#[test]
fn values_between_two_named_values_are_kept() {
    let days = json!({"days": ["mon", "tue", "wed", "thu"]});
    assert_eq!(kept("every day from Monday to Thursday", days.clone()), days);
    let named = json!({"days": ["mon", "thu"]});
    assert_eq!(kept("on Monday and Thursday", days), named);
    assert_eq!(
        kept("remind me to call on Monday and Thursday", json!({"days": ["mon", "tue", "wed", "thu"]})),
        named
    );
    let gap = json!({"days": ["mon", "tue", "thu"]});
    assert_eq!(kept("from Monday to Thursday", gap), named);
}

#[test]
fn empty_texts_are_kept_only_if_the_user_removes_a_text() {
    assert_eq!(kept("which of the jobs are in Oslo", json!({"contact": ""})), json!({}));
    assert_eq!(kept("Lösche den Kontakt", json!({"contact": ""})), json!({"contact": ""}));
    assert_eq!(kept("remove the contact of Oslo", json!({"contact": ""})), json!({"contact": ""}));
}

#[test]
fn short_words_and_synonyms_name_a_flag() {
    let is_kept = |question: &str, flag: &str, value: bool| {
        kept(question, json!({ flag: value })) == json!({ flag: value })
    };
    assert!(is_kept("Clean the kitchen at ten, and mop too.", "mop", true));
    assert!(!is_kept("Please clean the kitchen at ten.", "mop", true));
    assert!(is_kept("How many weekdays are there in May?", "business_days_only", true));
    assert!(!is_kept("How many hours are there in my working life?", "business_days_only", true));
    assert!(is_kept("Could you turn off the kitchen light?", "power", false));
    assert!(!is_kept("Could you dim the kitchen light?", "power", true));
    assert!(!is_kept("I have Friday off, so set the alarm for nine.", "power", false));
    assert!(is_kept("Find me a hotel in Rome that has a pool and a gym.", "has_gym", true));
    assert!(!is_kept("It's your turn to dim the kitchen light.", "power", true));
    assert!(!is_kept("Please list all of the files.", "all", true));
    assert!(is_kept("Remind me to water the plants every Friday.", "recurring", true));
    assert!(!is_kept("Remind me to water the plants on Friday.", "recurring", true));
    assert!(!is_kept("Add lunch with all of the team on the first day of May.", "all_day", true));
    assert!(is_kept("Add the fair as an all-day event on the first of May.", "all_day", true));
}

#[test]
fn the_messages_of_the_user_decide_about_the_language() {
    let user = "Staubsauge die K\u{fc}che um zehn und wisch auch";
    let facts = KnownFacts::from_texts(
        &format!("You are a helpful assistant. Today is Tuesday.\n{user}"),
        &[user.to_owned()],
    );
    assert!(!facts.words.is_english());
}

#[test]
fn a_negation_is_a_zero() {
    let changes = json!({"max_changes": 0});
    assert_eq!(kept("Trains to Oslo, and I don't want to change", changes.clone()), changes);
    assert_eq!(kept("Trains to Oslo, but not on Monday", changes.clone()), json!({}));
    assert_eq!(kept("Trains to Oslo, the number of changes is not important", changes.clone()), json!({}));
    assert_eq!(kept("Trains to Oslo with a change", changes), json!({}));
}

#[test]
fn only_a_word_that_other_languages_lack_makes_a_text_english() {
    for english in [
        "Show me the log",
        "How much is it",
        "Which trains are there",
        "I\u{2019}d love a jazz playlist",
        "Remind me to call Ben",
        "Add milk to my shopping list",
        "Create a task for Monday",
    ] {
        assert!(KnownWords::new(english).is_english(), "{english}");
    }
    for other in [
        "Bestil et bord for to personer og find en menu",
        "Mach die Show an",
        "ingresso para o show a partir de amanh\u{e3}",
        "a-t-elle gagn\u{e9} en un an",
        "een show of een film",
        "Send en besked til Ben og find en tid",
        "Erinnere mich an das Black Friday Angebot",
        "Mostrami le fatture create a maggio",
        "Bestill to plasser for show p\u{e5} turn",
    ] {
        assert!(!KnownWords::new(other).is_english(), "{other}");
    }
}

#[test]
fn an_order_needs_a_word_for_it() {
    let order = json!({"sort_by": "magnitude"});
    let question = "Were there any earthquakes of magnitude 5 in the last 30 days";
    assert_eq!(kept(question, order.clone()), json!({}));
    assert_eq!(kept(&format!("{question}, the highest magnitude first?"), order.clone()), order);
    assert_eq!(kept("Which ones had at least the magnitude 5?", order.clone()), json!({}));
    assert_eq!(kept("Show me the earthquakes that are listed by magnitude", order.clone()), order);
    assert_eq!(kept("Erdbeben der Magnitude 5", order.clone()), order);
}

#[test]
fn a_note_that_repeats_other_arguments_is_removed() {
    let log = |note: &str| json!({"max_minutes": 45, "head": 1850, "notes": note});
    let question = "Log a bike ride of 45 minutes and 1,850 metres, my knee hurt after 45 minutes";
    let bike = log("I rode a bike for 45 minutes and 1,850 metres.");
    assert_eq!(kept(question, bike), json!({"max_minutes": 45, "head": 1850}));
    for note in ["Knee pain after 45 minutes", "Hurt knee", "A bike ride of 45 minutes and 1,850 metres"] {
        assert_eq!(kept(question, log(note)), log(note), "{note}");
    }
}

#[test]
fn an_enumeration_is_kept_over_a_free_text_with_the_same_value() {
    for name in ["mode", "way"] {
        let copies = json!({"line": "bicycling", name: "bicycling"});
        assert_eq!(kept("Is there any line for bicycling in Oslo?", copies), json!({name: "bicycling"}));
    }
}

#[test]
fn units_may_have_another_name() {
    let unit = json!({"energy_unit": "kJ"});
    assert_eq!(kept("How many kilojoules does it take?", unit.clone()), unit);
    assert_eq!(kept("How much energy does it take?", unit), json!({}));
    let unit = json!({"length_unit": "cm"});
    assert_eq!(kept("How many centimeters is it?", unit.clone()), unit);
    assert!(!KnownWords::new("I'm unsure").has_unit("m"));
    for (value, text) in [("sms", "text me the code"), ("gb", "one gigabyte"), ("mph", "70 miles per hour")] {
        assert!(KnownFacts::from_text(text).mentions_name(value), "{value}");
    }
}

#[test]
fn a_time_zone_needs_its_name_or_its_description() {
    let described = json!({"description": "IANA name of the zone"});
    for (name, schema) in [
        ("time_zone", &Value::Null),
        ("userTimezone", &Value::Null),
        ("user_tz", &Value::Null),
        ("TZ", &Value::Null),
        ("from_zone", &described),
    ] {
        assert!(is_time_zone(name, schema), "{name}");
    }
    let parking = json!({"description": "A zone for parking in Indiana"});
    assert!(!is_time_zone("zone", &parking) && !is_time_zone("from_zone", &Value::Null));
}

#[test]
fn a_word_with_a_negating_prefix_is_another_word() {
    let facts = KnownFacts::from_text("could you lock the garage");
    assert!(facts.mentions_name("lock") && facts.mentions_name("locking") && facts.mentions_name("padlock"));
    assert!(!facts.mentions_name("unlock"));
    assert!(KnownFacts::from_text("invoices that have not been paid").mentions_name("unpaid"));
}

#[test]
fn a_negation_belongs_to_the_flag_that_the_user_names() {
    let flags = json!({"symbols": false, "digits": false});
    let question = "I need a password without any symbols in it";
    assert_eq!(kept(question, flags), json!({"symbols": false}));
    let flags = json!({"symbols": true, "digits": false});
    assert_eq!(kept("I need a password with symbols, but without numbers", flags.clone()), flags);
    // The user may describe a flag in other words.
    let flag = json!({"digits": false});
    assert_eq!(kept("I need a password without any numerals in it", flag.clone()), flag);
}

#[test]
fn number_words_permit_no_zero() {
    assert_eq!(kept("write the binary number 101", json!({"head": 0, "tail": 16})), json!({"tail": 16}));
    assert_eq!(kept("round it to no decimal places", json!({"head": 0})), json!({"head": 0}));
    assert_eq!(kept("the last two weeks", json!({"head": 14})), json!({"head": 14}));
}

#[test]
fn flag_without_a_word_of_its_name_is_unclear() {
    let schema = Schema::new(json!({
        "type": "object",
        "properties": {"include_hidden": {"type": "boolean", "description": "Include hidden files"}},
    }))
    .unwrap();
    let property = schema.properties().next().unwrap();
    let is_unclear = |text: &str| KnownFacts::from_text(text).lacks_name_of_flag("list_files", &property);
    assert!(is_unclear("show me all the files"));
    assert!(!is_unclear("show me all the hidden files"));
    assert!(!is_unclear("show me the files, but not the old ones"));
}

#[test]
fn a_pair_of_ports_is_no_time() {
    let ports = json!({"ports": ["6380:6379"]});
    assert_eq!(kept("map port 6380 to 6379", ports.clone()), ports);
    assert_eq!(kept("map the port", ports), json!({}));
}

#[test]
fn a_limit_must_be_in_the_question() {
    assert_eq!(kept("a room on 2025-10-10", json!({"max_price": 1000})), json!({}));
    assert_eq!(kept("one of the cheapest", json!({"max_price": 1000})), json!({}));
    assert_eq!(kept("a car for at most $18,000", json!({"max_price": 0})), json!({}));
    // The word `one` is no quantity of which 60 is another unit.
    assert_eq!(kept("one of the cheapest", json!({"head": 60})), json!({}));
    assert_eq!(kept("one of the cheapest", json!({"head": 1})), json!({"head": 1}));
    assert_eq!(kept("in 1 minute", json!({"head": 60})), json!({"head": 60}));
    assert_eq!(kept("in half an hour", json!({"max_minutes": 30})), json!({"max_minutes": 30}));
    let price = json!({"max_price": 18_000});
    assert_eq!(kept("a car for at most $18,000", price.clone()), price);
}

#[test]
fn a_name_is_no_email_address() {
    assert_eq!(kept("Mail from Anna", json!({"sender": "Anna"})), json!({}));
    assert_eq!(kept("Mail from Anna", json!({"contact": "Anna"})), json!({"contact": "Anna"}));
    let address = json!({"sender": "anna@example.org"});
    assert_eq!(kept("Mail from anna@example.org", address.clone()), address);
}

#[test]
fn a_language_a_currency_and_a_unit_must_be_stated() {
    let schema = Schema::new(json!({
        "type": "object",
        "properties": {
            "to_currency": {"type": "string"},
            "language": {"type": "string"},
            "from_unit": {"type": "string"},
            "community": {"type": "string"},
        },
        "required": ["to_currency", "language", "from_unit", "community"],
    }));
    let schema = schema.unwrap();
    for (question, arguments, is_stated) in [
        ("Convert 100 dollars.", json!({"to_currency": "USD"}), true),
        ("Convert $100.", json!({"to_currency": "USD"}), true),
        ("Convert 100 dollars.", json!({"to_currency": "EUR"}), false),
        ("What are 100 dollars in Germany?", json!({"to_currency": "EUR"}), true),
        ("Translate it to spanish", json!({"language": "es"}), true),
        ("Translate it", json!({"language": "es"}), false),
        ("Translate it", json!({"language": "xx"}), true),
        ("Convert 15 to miles", json!({"from_unit": "km"}), false),
        ("Convert 15 km to miles", json!({"from_unit": "km"}), true),
        ("Convert 15 kilometers to miles", json!({"from_unit": "km"}), true),
        ("Who lives here?", json!({"community": "km"}), true),
    ] {
        let invented = KnownFacts::from_text(question).first_invented(&call(arguments.clone()), &schema);
        assert_eq!(invented.is_none(), is_stated, "{question} {arguments}");
    }
}

#[test]
fn a_title_and_a_text_to_translate_are_not_composed() {
    let text = json!({"type": "string"});
    let is_known = |question: &str, name: &str, value: &str, other: &str| {
        let schema = json!({"type": "object", "properties": {name: text, other: text}, "required": [name]});
        let call = call(json!({name: value}));
        let facts = KnownFacts::from_text(question);
        facts.first_invented(&call, &Schema::new(schema).unwrap()).is_none()
    };
    assert!(!is_known("Translate this into French", "text", "Hello", "target_language"));
    assert!(is_known("Translate the word hello", "text", "Hello", "target_language"));
    assert!(is_known("Send Tom a joke", "text", "Knock, knock.", "recipient"));
    assert!(!is_known("Play a nice song", "title", "Happy Birthday", "artist"));
    assert!(is_known("Play Happy Birthday", "title", "Happy Birthday", "artist"));
    // The model may have translated the words of the user.
    assert!(is_known("Spiel das Geburtstagslied für Anna", "title", "Happy Birthday", "artist"));
}

#[test]
fn the_day_of_a_month_is_no_time() {
    let schema = json!({"properties": {"time": {"type": "string"}}, "required": ["time"]});
    let schema = Schema::new(schema).unwrap();
    let is_known = |question: &str| {
        let call = call(json!({"time": "12:00"}));
        KnownFacts::from_text(question).first_invented(&call, &schema).is_none()
    };
    assert!(!is_known("A table for four on 12 May 2025"));
    assert!(is_known("A table for four on 12 May 2025 at 12 o'clock"));
    assert!(is_known("A table for four, 12 if possible"));
}

#[test]
fn a_path_must_be_in_a_conversation_about_files() {
    let schema = Schema::new(json!({
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    }));
    let schema = schema.unwrap();
    let cases = [
        ("Write a haiku about rust.", "haiku.txt", false),
        ("Show me notes.md", r"C:\Users\ada\notes.md", true),
        ("Zeig mir den Ordner Bilder", "/home/ada/bilder", true),
        ("Do you sing and/or dance?", "/songs/dance.mp3", false),
        ("What time is it in Tokyo?", "/tokyo/time.jpg", false),
        ("Write a haiku and save it to haiku.txt", "haiku.txt", true),
        ("Show me notes.md", "/home/ada/notes.md", true),
        ("Save my shopping list", "shopping_list.txt", true),
        ("List /etc/apt", "/etc/apt", true),
        ("What is in the folder photos?", "photos", true),
        ("Which files are in this directory?", ".", true),
        ("Delete that file.", "report.pdf", false),
        ("Delete that file.", "path/to/file", false),
        ("Delete path/to/file", "path/to/file", true),
    ];
    for (question, path, is_known) in cases {
        let facts = KnownFacts::from_text(question);
        let invented = facts.first_invented(&call(json!({ "path": path })), &schema);
        assert_eq!(invented.is_none(), is_known, "{question} {path}");
    }
}

#[test]
fn only_parameters_for_files_are_paths() {
    for name in ["path", "paths", "file", "filePath", "file_name", "directory_path", "source_file"] {
        assert!(is_path(name), "{name}");
    }
    for name in ["profile", "career_path", "xpath", "destination", "source", "folder", "file_count"] {
        assert!(!is_path(name), "{name}");
    }
}

#[test]
fn a_required_argument_must_be_in_the_conversation() {
    let cases = [
        ("How is the weather in Krakow?", json!({"city": "Kraków, Poland"}), true),
        ("How is the weather here?", json!({"city": "London"}), false),
        ("Delete that file.", json!({"city": "file.txt"}), false),
        ("东京天气怎么样？", json!({"city": "东京"}), true),
        ("On the 5th of March 2026", json!({"date": "2026-03-05"}), true),
        ("In the first quarter of 2026", json!({"date": "2026-03-31"}), true),
        ("Today is 2026-03-04. And tomorrow?", json!({"date": "2026-03-05"}), true),
        ("What about tomorrow?", json!({"date": "2023-04-01"}), false),
        ("Move event ev 12", json!({"event_id": "ev12"}), true),
        ("Move my yoga class", json!({"event_id": "yoga class"}), false),
        ("Move my yoga class", json!({"event_id": "12345"}), false),
        ("Turn on the Coffee machine", json!({"event_id": "coffee_machine"}), false),
        ("I am 1.68 m tall", json!({"amount": 168}), true),
        ("half an hour", json!({"amount": 30}), true),
        ("in octal", json!({"amount": 8}), true),
        ("The year is 2021. And the year before?", json!({"amount": 2020}), true),
        ("How much is my loan?", json!({"amount": 100_000}), false),
        ("The weather in Paris", json!({"latitude": 48.85}), true),
        ("the weather", json!({"latitude": 48.85}), false),
        ("the weather", json!({"unit": "imperial"}), true),
    ];
    for (question, arguments, is_known) in cases {
        assert_eq!(invented(question, arguments.clone()).is_none(), is_known, "{question} {arguments}");
    }
}

#[test]
fn an_invented_optional_argument_is_removed() {
    let cases = [
        ("Oslo at 9 pm", json!({"time": "21:00"}), json!({"time": "21:00"})),
        ("Oslo", json!({"time": "14:00"}), json!({})),
        ("Oslo before 1 pm", json!({"time": "12 pm"}), json!({})),
        ("the bug label", json!({"labels": ["bug", "feature"]}), json!({"labels": ["bug"]})),
        ("the label", json!({"labels": ["bug", "feature"]}), json!({})),
        ("Oslo", json!({"limit": 10}), json!({"limit": 10})),
        ("Oslo", json!({"limit": 20}), json!({})),
        ("five of them", json!({"limit": 5}), json!({"limit": 5})),
        ("How do I cycle there?", json!({"mode": "bicycling"}), json!({"mode": "bicycling"})),
        ("How do I get there by car?", json!({"mode": "driving"}), json!({"mode": "driving"})),
        ("How do I get there?", json!({"mode": "driving"}), json!({})),
        ("Oslo", json!({"silent": true}), json!({"silent": true})),
        ("Show me what is in Oslo", json!({"silent": true}), json!({})),
        ("Show me what is in Oslo", json!({"dry_run": true}), json!({"dry_run": true})),
        ("Show me what is in Oslo, not silently", json!({"silent": true}), json!({"silent": true})),
        ("Oslo, silently", json!({"silent": true}), json!({"silent": true})),
        ("Show this to all", json!({"tool_flag": true}), json!({})),
        ("a public event", json!({"tool_flag": true}), json!({"tool_flag": true})),
        ("the time in Munich", json!({"time_zone": "Europe/Berlin"}), json!({"time_zone": "Europe/Berlin"})),
        ("the time in Munich", json!({"time_zone": "America/Lima"}), json!({})),
        ("the time here", json!({"time_zone": "Europe/Berlin"}), json!({})),
        ("Oslo on 14 November", json!({"time": "14:00"}), json!({})),
        ("the last 5 lines", json!({"head": 5, "tail": 5}), json!({"tail": 5})),
        ("the harbour of Oslo", json!({"contact": "Oslo"}), json!({})),
        ("from Oslo to Oslo", json!({"contact": "Oslo"}), json!({"contact": "Oslo"})),
        ("the first 5 and the last 5 lines", json!({"head": 5, "tail": 5}), json!({"head": 5, "tail": 5})),
    ];
    for (question, optional, expected) in cases {
        assert_eq!(kept(question, optional), expected, "{question}");
    }
}

#[test]
fn the_model_may_choose_some_required_arguments() {
    let schema = json!({
        "type": "object",
        "properties": {
            "unit": {"$ref": "#/$defs/Unit"},
            "content": {"type": "string"},
            "max_results": {"type": "integer"},
        },
        "required": ["unit", "content", "max_results"],
        "$defs": {"Unit": {"oneOf": [{"const": "c"}, {"const": "f"}]}},
    });
    let call = call(json!({"unit": "f", "content": "Red flakes on iron", "max_results": 20}));
    let facts = KnownFacts::from_text("Write a haiku");
    assert_eq!(facts.first_invented(&call, &Schema::new(schema).unwrap()), None);
}

#[test]
fn the_symbol_of_a_stock_may_replace_its_name() {
    let schema = json!({
        "type": "object",
        "properties": {"symbol": {"type": "string"}, "owner": {"type": "string"}},
        "required": ["symbol", "owner"],
    });
    let call = call(json!({"symbol": "MSFT", "owner": "ABCD"}));
    let facts = KnownFacts::from_text("the price of Microsoft");
    assert_eq!(facts.first_invented(&call, &Schema::new(schema).unwrap()).unwrap(), "owner");
}

#[test]
fn a_value_that_a_tool_finds_must_be_known() {
    let schema = Schema::new(json!({
        "type": "object",
        "properties": {"symbol": {"type": "string"}, "latitude": {"type": "number"}},
        "required": ["symbol", "latitude"],
    }))
    .unwrap();
    let call = call(json!({"symbol": "VLO", "latitude": 36.7}));
    let question = "the price of Vellmar and the height of Ronda";
    let mut facts = KnownFacts::from_text(question);
    assert_eq!(facts.first_invented(&call, &schema), None);
    facts.lookups.symbols = true;
    assert_eq!(facts.first_invented(&call, &schema).as_deref(), Some("symbol"));
    facts.lookups = Lookups { symbols: false, coordinates: true };
    assert_eq!(facts.first_invented(&call, &schema).as_deref(), Some("latitude"));
    let mut facts = KnownFacts::from_text("VLO at 36.7 degrees");
    facts.lookups = Lookups { symbols: true, coordinates: true };
    assert_eq!(facts.first_invented(&call, &schema), None);
}

#[test]
fn arguments_that_the_schema_needs_are_not_removed() {
    let schema = json!({
        "type": "object",
        "properties": {"from": {"type": "string"}, "to": {"type": "string"}},
        "anyOf": [{"required": ["from"]}, {"required": ["to"]}],
    });
    let call = call(json!({"to": "Rome"}));
    assert!(KnownFacts::from_text("hi").without_invented(&call, &Schema::new(schema).unwrap()).is_none());
}

#[test]
fn a_short_value_is_no_part_of_a_word() {
    let facts = KnownFacts::from_text("I'm looking for a shirt. It's for me.");
    for size in ["S", "M"] {
        assert!(!facts.mentions_name(size), "{size}");
    }
    assert!(KnownFacts::from_text("A shirt in size M").mentions_name("M"));
}

#[test]
fn the_names_of_other_parameters_mention_no_flag() {
    let schema = json!({"properties": {
        "song": {"type": "string"},
        "repeat": {"type": "boolean", "description": "Whether to play the song in a loop."},
        "files": {"type": "array"},
        "pets": {"type": "integer"},
        "pets_allowed": {"type": "boolean", "description": "Only listings that allow pets."},
        "delete_originals": {"type": "boolean", "description": "Whether to delete the files afterwards."},
    }});
    let schema = Schema::new(schema).unwrap();
    let kept = |question: &str, arguments: Value| {
        let call = ToolCall::new("1", "play_music", arguments.to_string());
        let facts = KnownFacts::from_text(question);
        facts.without_invented(&call, &schema).unwrap_or(call).arguments.value_or_string().as_ref().clone()
    };
    let song = || json!({"song": "Yesterday", "repeat": true});
    assert_eq!(kept("Please play the song Yesterday", song()), json!({"song": "Yesterday"}));
    assert_eq!(kept("Please play the song Yesterday in a loop", song()), song());
    let pets = || json!({"pets_allowed": true});
    assert_eq!(kept("I need a flat where I can bring pets", pets()), pets());
    let files = || json!({"files": ["a.txt"], "delete_originals": true});
    assert_eq!(kept("Zip the files a.txt and b.txt into c.zip", files()), json!({"files": ["a.txt"]}));
    assert_eq!(kept("Zip a.txt and delete the original", files()), files());
}

#[test]
fn the_language_of_a_stated_text_is_kept() {
    let schema = Schema::new(json!({"properties": {"source_language": {"type": "string"}}})).unwrap();
    let kept = |question: &str| {
        let call = ToolCall::new("1", "translate", json!({"source_language": "de"}).to_string());
        KnownFacts::from_text(question).without_invented(&call, &schema).is_none()
    };
    assert!(kept("Translate the German sentence \"Das Wetter\" into French and print it"));
    assert!(!kept("Translate \"Good day\" into Spanish and German, and print it"));
}

#[test]
fn a_train_number_may_have_two_words() {
    let invented_id = |name: &str, question: &str, number: &str| {
        let schema = json!({"properties": {name: {"type": "string"}}, "required": [name]});
        let schema = Schema::new(schema).unwrap();
        let call = ToolCall::new("1", "reserve_seat", json!({ name: number }).to_string());
        KnownFacts::from_text(question).first_invented(&call, &schema).is_some()
    };
    let invented = |question: &str, number: &str| invented_id("train_number", question, number);
    assert!(invented_id("order_id", "Cancel order 17", "order 17"));
    assert!(!invented("A window seat on TGV 9713", "TGV 9713"));
    assert!(invented("A window seat on the train at nine", "TGV 9713"));
    assert!(invented("A window seat on the fast train", "fast train"));
}

#[test]
fn an_optional_single_person_and_a_duration_of_a_range_are_kept() {
    let schema = Schema::new(json!({"properties": {
        "adults": {"type": "integer"}, "duration_minutes": {"type": "integer"}}}));
    let schema = schema.unwrap();
    let kept = |question: &str, arguments: Value| {
        let call = ToolCall::new("1", "create", arguments.to_string());
        KnownFacts::from_text(question).without_invented(&call, &schema).is_none()
    };
    assert!(kept("A hotel in Porto, just me", json!({"adults": 1})));
    assert!(!kept("A hotel in Porto", json!({"adults": 1})));
    assert!(!kept("A hotel in Porto, just me", json!({"duration_minutes": 1})));
    assert!(kept("A review from 14:00 to 16:00 in room 204", json!({"duration_minutes": 120})));
    assert!(!kept("A review at 14:00 in room 204", json!({"duration_minutes": 120})));
}
