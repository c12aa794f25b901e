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
fn an_open_item_requires_a_call() {
    let requires_call = |text: &str, values: &[&str]| {
        let mut question = OpenQuestion::new(text);
        let values: Vec<_> = values.iter().map(|value| (*value).to_owned()).collect();
        question.advance_past(text, &values);
        question.requires_call()
    };
    assert!(requires_call("Rain in Hanoi, Lahore and Quito", &["hanoi"]));
    assert!(requires_call("Is tofu or tempeh better", &["tempeh"]));
    assert!(!requires_call("Write to Anna or Bob", &["anna"]));
    let mut protein = OpenQuestion::new("What has more protein, 100 g of tofu or 100 g of tempeh?");
    protein.advance_past(&protein.text.clone(), &["tempeh".to_owned(), "100".to_owned()]);
    assert_eq!(protein.next_item(), Some("100 g of tofu"));
    let mut files = OpenQuestion::new("Delete a.txt and keep b.txt");
    files.advance_past(&files.text.clone(), &["a.txt".to_owned()]);
    assert_eq!(files.next_item(), None);
    let mut door = OpenQuestion::new("Lock the door and heat the hall");
    door.advance_past(&door.text.clone(), &["hall".to_owned()]);
    assert_eq!((door.requires_call(), door.next_item()), (true, None));
    assert!(!requires_call("Rain in Hanoi and Lahore", &["lahore", "hanoi"]));
    assert!(!requires_call("Rain in Hanoi", &["hanoi"]));
    let mut stocks = OpenQuestion::new("The prices of Apple, Tesla and Nvidia, please?");
    let mut items = Vec::new();
    stocks.advance_past("The prices of Apple, Tesla and Nvidia", &["aapl".to_owned()]);
    while let Some(item) = stocks.next_item().map(str::to_owned) {
        stocks.advance_past(&item, &[]);
        items.push(item);
    }
    assert_eq!(items, ["Tesla", "Nvidia"]);
    let mut question = OpenQuestion::new("Lock the door and heat the hall");
    question.advance_past("Lock the door", &[]);
    assert!(!question.requires_call());
    question.require_call();
    assert!(question.requires_call());
}

#[test]
fn a_question_has_parts() {
    let parts = |text: &str| OpenQuestion::new(text).parts();
    assert_eq!(parts("Skip it and turn it up to 60"), ["Skip it", "turn it up to 60"]);
    assert_eq!(parts("I am cold. Heat the hall, please!"), ["I am cold", "Heat the hall"]);
    assert_eq!(parts("Close the blinds, start a timer"), ["Close the blinds", "start a timer"]);
    assert_eq!(parts("Fly to Boston, MA on May 22, 2026"), [""; 0]);
    assert_eq!(parts("Rain in Hanoi and Lahore?"), [""; 0]);
}

#[test]
fn a_single_sentence_is_a_need() {
    let need = |text: &str| OpenQuestion::new(text).as_single_need();
    assert_eq!(need("What time is it in Tokyo?").as_deref(), Some("What time is it in Tokyo"));
    assert_eq!(need("And in  Madrid?").as_deref(), Some("And in Madrid"));
    let others =
        ["Hello!", "Rain in Hanoi and Lahore?", "I am cold. Heat the hall.", "Hi, heat the hall", ""];
    for text in others {
        assert_eq!(need(text), None, "{text}");
    }
    assert_eq!(need(&"a long question ".repeat(20)), None);
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
