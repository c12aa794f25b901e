use super::*;

fn rest_after(question: &str, part: &str, values: &[&str]) -> String {
    let mut question = OpenQuestion::new(question);
    let values: Vec<_> = values.iter().map(|value| (*value).to_owned()).collect();
    question.advance_past(part, &values);
    question.text
}

#[test]
fn the_rest_of_a_list_stays_open() {
    let lights = "Turn off the lights in the kitchen, the hallway and the bathroom";
    assert_eq!(rest_after(lights, lights, &["kitchen", "off"]), ", the hallway and the bathroom");
    assert_eq!(rest_after(lights, lights, &["kitchen", "bathroom"]), "");
    assert_eq!(rest_after("Rain in Hanoi and Lahore?", "Rain in Hanoi", &["hanoi"]), " and Lahore?");
    let both = "Lock the back door and heat the upper floor to 18 degrees";
    assert_eq!(rest_after(both, both, &["upper_floor", "18"]), "Lock the back door");
    assert_eq!(rest_after("What is 17 plus 25?", "17 plus 25", &["17", "25"]), "?");
}

#[test]
fn a_need_begins_with_its_sentence() {
    let question = OpenQuestion::new("Hello there. Which album is the second one on?");
    assert_eq!(question.with_sentence_start("the second one"), "Which album is the second one");
    assert_eq!(question.with_sentence_start("not in it"), "not in it");
}

#[test]
fn a_need_for_a_result_waits() {
    assert!(refers_to_result("multiply the result by 6"));
    assert!(!refers_to_result("summarize the resulting text"));
}
