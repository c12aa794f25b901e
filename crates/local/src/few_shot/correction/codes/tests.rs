use super::*;

#[test]
fn a_path_begins_as_in_the_question() {
    let question = "Pack /home/ana/a.txt and \"/home/ana/b.txt\" with src/main.rs and ../home/c.txt";
    let items = ["home/ana/a.txt", "/home/ana/b.txt", "home/ana/b.txt"].map(Value::from);
    let paths = json!(["/home/ana/a.txt", "/home/ana/b.txt", "/home/ana/b.txt"]);
    assert_eq!(absolute_paths(&items, question), Some(paths));
    for text in ["src/main.rs", "a.txt", "home/c.txt", "home/ben/a.txt", ""] {
        assert_eq!(absolute_path(text, question), None, "{text}");
    }
    assert_eq!(absolute_paths(&[json!("src/main.rs")], question), None);
}

#[test]
fn the_letters_before_a_number_are_those_of_the_question() {
    let question = "Is the ICE 578 late, and the bus M29?";
    assert_eq!(designation("IC 578", question), Some(json!("ICE 578")));
    for text in ["B29", "ICE 578", "IC 579", "the IC 578", "578"] {
        assert_eq!(designation(text, question), None, "{text}");
    }
    assert_eq!(designation("IC 578", "ICE 578 or RE 578"), None);
}
