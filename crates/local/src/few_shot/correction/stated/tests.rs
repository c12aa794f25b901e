use super::*;

fn corrected(question: &str, properties: Value, arguments: Value) -> Value {
    let schema = Schema::new(json!({ "properties": properties })).unwrap();
    let mut arguments = arguments.as_object().unwrap().clone();
    let values = TextValues::new(question, None);
    set_duration_of_range(&schema, &mut arguments, &values);
    set_single_person(&schema, &mut arguments, question, &values);
    add_named_items(&schema, &mut arguments, question);
    Value::Object(arguments)
}

#[test]
fn a_range_of_times_gives_the_duration() {
    let properties = json!({
        "start_time": {"type": "string"},
        "duration_minutes": {"type": "integer", "default": 60}});
    let event = |minutes: i64| json!({"start_time": "14:00", "duration_minutes": minutes});
    let after = |question: &str, given: Value| corrected(question, properties.clone(), given);
    assert_eq!(after("Add a review from 14:00 to 16:00 in room 204", event(60)), event(120));
    assert_eq!(after("Add a review, 2pm - 3:30pm", json!({"start_time": "14:00"})), event(90));
    for question in [
        "Add a review at 14:00 and remind me at 16:00",
        "Add a review from 14:00 to 16:00 with a talk of 60 minutes",
        "Add a review at 14:00 on 2026-03-05",
        "Add a review from 15:00 to 16:00",
        "Add a night shift from 14:00 to 6:00",
        "Book a massage between 14:00 and 16:00",
    ] {
        assert_eq!(after(question, event(60)), event(60), "{question}");
    }
}

#[test]
fn a_range_of_times_gives_no_other_duration() {
    let range = "Add a review from 14:00 to 16:00";
    let minutes = |name: &str| json!({"start": {"type": "string"}, "end": {"type": "string"}, name: {"type": "integer"}});
    let start = json!({"start": "14:00"});
    let unchanged = |question: &str, name: &str, arguments: Value| {
        assert_eq!(corrected(question, minutes(name), arguments.clone()), arguments, "{question}, {name}");
    };
    // The call has the end, and the duration may be another one.
    unchanged(range, "duration_minutes", json!({"start": "14:00", "end": "16:00"}));
    unchanged(range, "duration_minutes", json!({}));
    unchanged(range, "break_duration_minutes", start.clone());
    unchanged(range, "start_minutes", start);
    unchanged("Cut the clip from 00:30 to 01:00", "duration_seconds", json!({"start": "00:30"}));
}

#[test]
fn a_single_person_replaces_another_number() {
    let properties = json!({"adults": {"type": "integer", "default": 2}, "children": {"type": "integer"}});
    let after = |question: &str, given: Value| corrected(question, properties.clone(), given);
    let one = json!({"adults": 1});
    assert_eq!(after("A hotel in Porto, just me.", json!({})), one);
    assert_eq!(after("A hotel in Porto, just me.", json!({"adults": 2})), one);
    assert_eq!(
        after("A hotel in Porto for two adults, not just me.", json!({"adults": 2})),
        json!({"adults": 2})
    );
    assert_eq!(
        after("A hotel in Porto for 3 adults, I hate being alone", json!({"adults": 3})),
        json!({"adults": 3})
    );
    let three = json!({"adults": 3});
    assert_eq!(after("A hotel in Porto, but it is not just for me.", three.clone()), three);
    let limit = json!({"max_adults": {"type": "integer", "default": 4}});
    assert_eq!(corrected("A hotel in Porto, just me.", limit, json!({})), json!({}));
    let two = json!({"adults": 2});
    assert_eq!(after("A room for a talk on unjust measures.", two.clone()), two);
    assert_eq!(after("A hotel in Porto for just me and my wife.", two.clone()), two);
    let none = json!({"adults": 1, "children": 0});
    assert_eq!(after("A hotel in Porto, just me.", none.clone()), none);
    assert_eq!(after("A hotel in Porto.", json!({"adults": 2})), json!({"adults": 2}));
}

#[test]
fn all_named_items_are_in_the_list() {
    let properties = json!({
        "diets": {"type": "array", "items": {"enum": ["vegetarian", "vegan", "gluten_free", "free", "halal"]}},
        "cuisine": {"type": "string"}});
    let after = |question: &str, given: Value| corrected(question, properties.clone(), given);
    let question = "Restaurants with vegan and gluten-free food";
    let given = json!({"diets": ["gluten_free"]});
    assert_eq!(after(question, given.clone()), json!({"diets": ["vegan", "gluten_free"]}));
    assert_eq!(after("gluten-free, but not vegan", given.clone()), given);
    let instead = "Gluten-free food instead of vegan food";
    assert_eq!(after(instead, given.clone()), given);
    let other = json!({"diets": ["vegetarian"]});
    assert_eq!(after(question, other.clone()), other);
    assert_eq!(after(question, json!({})), json!({}));
    assert_eq!(after("food for vegans and gluten-free", given.clone()), given);
    assert_eq!(after("I don't want vegan, gluten-free is fine", given.clone()), given);
    let inferred = json!({"diets": ["vegan", "halal"]});
    assert_eq!(after("vegetarian, vegan and gluten-free food", inferred.clone()), inferred);
    let whole = json!({"states": {"type": "array", "items": {"enum": ["open", "all"]}}});
    let open = json!({"states": ["open"]});
    assert_eq!(corrected("Show all open issues", whole, open.clone()), open);
    let days = json!({"days": {"type": "array", "items": {"enum": ["monday", "tuesday"]}}});
    let monday = json!({"days": ["monday"]});
    assert_eq!(corrected("every Monday, starting on Tuesday", days, monday.clone()), monday);
}
