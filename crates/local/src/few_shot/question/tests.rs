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
fn the_numbers_of_a_point_are_no_items() {
    let points = "the distance between the points (2, -3) and (7, 9)";
    assert_eq!(rest_after(points, points, &["2", "-3", "7", "9"]), "");
    assert_eq!(rest_after(points, points, &["(2, -3)"]), " and (7, 9)");
    assert_eq!(first_of("(2, -3), (7, 9)", &[", "]), Some("(2, -3)".len()));
    assert_eq!(first_of("(or 2, 3)", &[", "]), Some("(or 2".len()));
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

/// Returns the items for which calls follow the call for the need `part`, which has `values`.
fn items_after(question: &str, part: &str, values: &[&str]) -> Vec<String> {
    let mut question = OpenQuestion::new(question);
    let values: Vec<_> = values.iter().map(|value| (*value).to_owned()).collect();
    question.advance_past(part, &values);
    let mut items = Vec::new();
    while let Some(item) = question.next_item().map(str::to_owned) {
        question.advance_past(&item, &[item.to_lowercase()]);
        items.push(item);
    }
    items
}

#[test]
fn items_with_a_common_head_are_a_list() {
    let doors = "Lock the front door, the back door and the garage door.";
    let part = "Lock the front door, the back door and the garage door";
    assert_eq!(items_after(doors, part, &["front", "lock"]), ["the back door", "the garage door"]);
    let rates = "Get the rate in the European population and in the East Asian one.";
    let mut question = OpenQuestion::new(rates);
    question.set_alternatives(vec!["east asian".to_owned(), "african".to_owned()]);
    question.advance_past(rates.trim_end_matches('.'), &["european".to_owned()]);
    assert_eq!(question.next_item(), Some("in the East Asian one"));
    let lines = "Are the red line and the green line running normally at the moment?";
    assert_eq!(items_after(lines, "Are the red line", &["red"]), ["the green line"]);
}

#[test]
fn other_arguments_may_follow_a_list() {
    let tables = "Show the tables of Serie B and Serie A for the 2021-22 season.";
    assert_eq!(items_after(tables, "Show the tables of Serie B", &["serie b", "2021-22"]), ["Serie A"]);
    let food = "How many calories are in 150 g of salmon and in 200 g of brown rice?";
    assert_eq!(items_after(food, food, &["salmon", "150"]), ["in 200 g of brown rice"]);
    let tickets = "Move DEV-301 and DEV-304 to in review and mark DEV-299 as done.";
    let part = "Move DEV-301 and DEV-304 to in review";
    assert_eq!(items_after(tickets, part, &["dev-301", "in review"]), ["DEV-304 to in review"]);
    let distances = "How far is it from Denver to Boulder, and from Denver to Colorado Springs?";
    let part = "How far is it from Denver to Boulder";
    assert_eq!(items_after(distances, part, &["denver", "boulder"]), ["from Denver to Colorado Springs"]);
    let message = "Send a message to Anna and one to Ben saying 'Dinner at 7'";
    assert_eq!(items_after(message, message, &["anna", "dinner at 7"]), ["one to Ben"]);
    let euros = "Convert 500 dollars to euros, British pounds and Swiss francs.";
    let part = "British pounds and Swiss francs";
    assert_eq!(items_after(euros, part, &["500", "usd", "gbp"]), ["Swiss francs"]);
    let read = "Mark messages 118 and 121 as read, please.";
    assert_eq!(items_after(read, "Mark messages 118 and 121 as read", &["118", "121"]), [""; 0]);
    let seats = "Book seats for Tom and Sara to Bern";
    assert_eq!(items_after(seats, seats, &["tom", "sara", "bern"]), [""; 0]);
    assert_eq!(items_after("Fly from Rome to Oslo on Monday", "Fly", &["rome", "oslo"]), [""; 0]);
}

#[test]
fn a_clause_may_follow_the_last_item() {
    let flights = "For both LH454 and BA117, check the flight status on August 14, 2025.";
    let part = flights.trim_end_matches('.');
    assert_eq!(items_after(flights, part, &["lh454", "2025-08-14"]), ["BA117"]);
    let sections = "Pull up sections 107 and 512 of Title 17 of the U.S. Code.";
    assert_eq!(items_after(sections, sections.trim_end_matches('.'), &["17", "107"]), ["512"]);
    let list = "Read a.txt, b.txt and c.txt, then sum them up";
    assert_eq!(items_after(list, "Read a.txt, b.txt and c.txt", &["a.txt"]), ["b.txt", "c.txt"]);
    let points = "Evaluate 3x^2 - 4x + 7 at x = 2, at x = -1 and at x = 0.5.";
    let part = points.trim_end_matches('.');
    assert_eq!(items_after(points, part, &["3", "-4", "7", "2"]), ["at x = -1", "at x = 0.5"]);
    let mut doors = OpenQuestion::new("Lock the front door and the patio door, but unlock the garage.");
    doors.advance_past("Lock the front door and the patio door", &["front".to_owned()]);
    doors.advance_past("the patio door", &["patio".to_owned()]);
    assert_eq!((doors.next_item(), doors.next_request()), (None, Some("unlock the garage")));
    let mut towns =
        OpenQuestion::new("A forecast for Rome and one for Portland, Oregon, both in Celsius. Hi");
    towns.advance_past("A forecast for Rome", &["rome".to_owned()]);
    assert_eq!(towns.next_item(), Some("one for Portland"));
    towns.advance_past("one for Portland", &["portland".to_owned()]);
    assert_eq!((towns.next_item(), towns.text()), (None, ". Hi"));
    let museums = "When do the Louvre and the Prado open on May 23, 2026?";
    let part = museums.trim_end_matches('?');
    assert_eq!(items_after(museums, part, &["louvre", "2026-05-23"]), ["the Prado open"]);
    let law = OpenQuestion::new("Find section 5 of the U.S. Code. Then call Ben.");
    assert_eq!(law.parts(), ["Find section 5 of the U.S. Code", "Then call Ben"]);
    let trip = OpenQuestion::new("Fly to the U.S. Then call Ben.");
    assert_eq!(trip.parts(), ["Fly to the U.S", "Then call Ben"]);
}

#[test]
fn a_list_may_precede_the_request() {
    let boxes = "I have two boxes, one measuring 60 x 40 x 30 cm and the other 80 x 50 x 45 cm. What is the \
                 weight of each?";
    let part = "What is the weight of each";
    assert_eq!(items_after(boxes, part, &["60", "40", "30"]), ["the other 80 x 50 x 45 cm"]);
    let tickets = "My tickets are QX-4 and QX-7. Refund them. Then call Ben.";
    let mut question = OpenQuestion::new(tickets);
    question.advance_past("Refund them", &["qx-4".to_owned()]);
    assert_eq!((question.next_item(), question.text()), (Some("QX-7"), " and QX-7. Then call Ben."));
    let runs = "I ran 10 km in 48 minutes. What are my times over 5 km, 15 km and 42.2 km?";
    let part = "I ran 10 km in 48 minutes";
    assert_eq!(items_after(runs, part, &["10", "48", "5"]), ["15 km", "42.2 km"]);
    let files = "/a/b.pdf, /a/c.png, /a/d.txt - how big is each of these files?";
    let part = "how big is each of these files";
    assert_eq!(items_after(files, part, &["/a/b.pdf"]), ["/a/c.png", "/a/d.txt"]);
    let part = "I ran 10 km in 48 minutes";
    let other = "I ran 10 km in 48 minutes. What is the weather in Rome and Oslo?";
    assert_eq!(items_after(other, part, &["10", "48"]), [""; 0]);
    assert_eq!(items_after("I like Rome and Oslo. Call Ben", "Call Ben", &["ben"]), [""; 0]);
}

#[test]
fn a_clause_with_other_times_needs_a_call() {
    let alarms = "Wake Ben at 7 am and wake Anna at 8 am";
    assert_eq!(rest_after(alarms, alarms, &["ben", "07:00"]), " and wake Anna at 8 am");
    let table = "Book a table at Luigi's for 4 people and make it 8 pm";
    assert_eq!(rest_after(table, table, &["luigi's", "4", "20:00"]), "");
}

#[test]
fn items_with_a_call_are_not_repeated() {
    let mut question =
        OpenQuestion::new("I weigh 70 kg and am 180 cm tall. What is that in pounds and inches?");
    question.advance_past("I weigh 70 kg", &["70".to_owned(), "kilogram".to_owned(), "pound".to_owned()]);
    let values = ["180", "centimeter", "inch"].map(str::to_owned);
    question.advance_past("that in pounds and inches", &values);
    assert_eq!((question.next_item(), question.text()), (None, "?"));
}

#[test]
fn a_short_sentence_continues_the_question_before_it() {
    let elliptical = |question: &str, part: &str| {
        let mut question = OpenQuestion::new(question);
        question.advance_past(part, &[]);
        question.elliptical_sentence().map(str::to_owned)
    };
    let text = "How much will I have after 5 years? And after 10 years? Thanks!";
    assert_eq!(elliptical(text, "How much will I have after 5 years").as_deref(), Some("And after 10 years"));
    let text = "Is it warm in Rome? What about Oslo?";
    assert_eq!(elliptical(text, "Is it warm in Rome").as_deref(), Some("What about Oslo"));
    let text = "Turn on the light. Also turn off the fan.";
    assert_eq!(elliptical(text, "Turn on the light"), None);
}

#[test]
fn an_apposition_is_no_item() {
    let no_items = |question: &str, value: &str| {
        let part = question.trim_end_matches(['.', '?']);
        assert_eq!(items_after(question, part, &[value]), [""; 0], "{question}");
    };
    no_items("Send 50 dollars to Anna, Ben's sister.", "anna");
    no_items("Book a table at Luigi's, the Italian place on Main Street.", "luigi's");
    no_items("What's the weather in Austin, Texas?", "austin");
    no_items("Navigate to 12 Main Street, Springfield", "12 main street");
    no_items("What's the weather in Rome and what's on my calendar?", "rome");
    let rate = "What is the rate between dollars and pounds?";
    assert_eq!(items_after(rate, rate.trim_end_matches('?'), &["usd", "gbp"]), [""; 0]);
}

#[test]
fn lines_are_requests() {
    let text = "Hi! Can you:\n- email Bob that I'm late\n- add milk to my list\n* check the weather";
    let mut question = OpenQuestion::new(text);
    question.advance_past("email Bob that I'm late", &["bob".to_owned()]);
    assert_eq!(question.next_request(), Some("add milk to my list"));
    let mut then = OpenQuestion::new("Email Tom the report soon then archive the thread, please.");
    then.advance_past("Email Tom the report", &["tom".to_owned()]);
    assert_eq!(then.next_request(), Some("archive the thread"));
}

#[test]
fn negations_and_quotations_are_no_requests() {
    let next = |text: &str, part: &str| {
        let mut question = OpenQuestion::new(text);
        question.advance_past(part, &[]);
        question.next_request().map(str::to_owned)
    };
    assert_eq!(next("Turn off the light. Don't lock the door.", "Turn off the light"), None);
    let quotation = "Text Anna \"I am late. Order a pizza and lock the door.\"";
    assert_eq!(next(quotation, "Text Anna \"I am late"), None);
    let skipped = |text: &str, need: &str| OpenQuestion::new(text).skipped_request(need);
    let email = "Don't send the email to Ben yet. Add Anna to it first.";
    assert_eq!(skipped(email, "Add Anna to it first"), None);
    let pizza = "Yesterday I ordered pizza. Book a table for tonight.";
    assert_eq!(skipped(pizza, "Book a table for tonight"), None);
}

#[test]
fn a_request_follows_a_conjunction() {
    let next = |text: &str, part: &str, values: &[&str]| {
        let mut question = OpenQuestion::new(text);
        let values: Vec<_> = values.iter().map(|value| (*value).to_owned()).collect();
        question.advance_past(part, &values);
        question.next_request().map(str::to_owned)
    };
    let area = "What is the area of the circle and the volume of the cube?";
    let volume = next(area, "What is the area of the circle", &["5"]);
    assert_eq!(volume.as_deref(), Some("the volume of the cube"));
    let whole = area.trim_end_matches('?');
    assert_eq!(next(area, whole, &["5"]).as_deref(), Some("the volume of the cube"));
    assert_eq!(next(area, whole, &["circle", "cube"]), None);
    let cart = "Add a kettle to my cart and apply the coupon A20.";
    assert_eq!(next(cart, "Add a kettle to my cart", &["kettle"]).as_deref(), Some("apply the coupon A20"));
    let doors = "Lock the doors. Then show the balance of my account.";
    let balance = next(doors, "Lock the doors", &[]);
    assert_eq!(balance.as_deref(), Some("Then show the balance of my account"));
    assert_eq!(next("Heat the hall and I am happy", "Heat the hall", &[]), None);
    assert_eq!(next("Heat the hall. It is cold here.", "Heat the hall", &[]), None);
}

#[test]
fn a_clause_about_the_same_object_needs_no_call() {
    let light = "Turn on the light in the bedroom and dim it to 30 percent";
    assert_eq!(rest_after(light, "Turn on the light in the bedroom", &["bedroom", "on", "30"]), "");
    let rest = rest_after(light, "Turn on the light in the bedroom", &["bedroom", "on"]);
    assert_eq!(rest, " and dim it to 30 percent");
    let reminder = "Remind me to buy milk and call Kim.";
    assert_eq!(rest_after(reminder, "Remind me to buy milk", &["buy milk and call kim"]), ".");
    let then = "Remind me to buy milk and call Kim. Then turn off the lights.";
    let rest = rest_after(then, "Remind me to buy milk", &["buy milk and call kim"]);
    assert_eq!(rest, ". Then turn off the lights.");
    let oven = "Turn on the oven and remind me to check on it later.";
    let rest = rest_after(oven, "Turn on the oven", &["oven", "on"]);
    assert_eq!(rest, " and remind me to check on it later.");
    assert_eq!(rest_after(reminder, "Remind me to buy milk", &["buy milk"]), " and call Kim.");
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
fn a_need_must_not_skip_a_request() {
    let skipped = |text: &str, need: &str| OpenQuestion::new(text).skipped_request(need);
    let account = "What is the balance of my account? Also list the last transactions.";
    let balance = "What is the balance of my account";
    assert_eq!(skipped(account, "list the last transactions").as_deref(), Some(balance));
    let car = "Lock my car, book an oil change and find a charger.";
    assert_eq!(skipped(car, "book an oil change").as_deref(), Some("Lock my car"));
    assert_eq!(skipped("I am cold. Heat the hall.", "Heat the hall"), None);
    assert_eq!(skipped("Hello there, heat the hall.", "heat the hall"), None);
    assert_eq!(skipped("Please heat the hall.", "heat the hall"), None);
}

#[test]
fn a_list_is_reduced_to_its_first_item() {
    let reduced = |text: &str| first_item_need(text);
    let points = "Look up the melting points of tungsten and gallium";
    assert_eq!(reduced(points).as_deref(), Some("Look up the melting points of tungsten"));
    let flights = "Are flights BA117 and VS3 on time";
    assert_eq!(reduced(flights).as_deref(), Some("Are flights BA117 on time"));
    assert_eq!(reduced("Lock the door and heat the hall"), None);
}

#[test]
fn a_need_for_a_result_waits() {
    assert!(refers_to_result("multiply the result by 6"));
    assert!(refers_to_result("put the cheapest one in my cart"));
    assert!(refers_to_result("scale the first result to 6 servings"));
    assert!(refers_to_result("create the event in the first free slot"));
    assert!(!refers_to_result("show the first 5 lines of a.txt"));
    assert!(!refers_to_result("what is the latest news"));
    assert!(!refers_to_result("summarize the resulting text"));
    assert!(refers_to_noun("alert me above that price", "Get Nvidia's stock price and "));
    assert!(refers_to_noun("reorder 5 from that supplier", "Which suppliers provide GSK-44? Then "));
    assert!(!refers_to_noun("find a concert on that day", "What's the weather on Friday and "));
}

#[test]
fn full_stops_of_abbreviations_end_no_sentence() {
    let single = |text: &str| OpenQuestion::new(text).as_single_need().is_some();
    assert!(single("Book a visit with Dr. Lee tomorrow."));
    assert!(single("Move the meeting to 3 p.m. on Friday"));
    assert!(!single("Book a visit at 3 p.m. Then call Mr. Smith"));
    for two in [
        "Drive to 12 Oak Dr. Then call Ben",
        "Set the delay to 200 ms. Then restart it",
        "Set an alarm for 3 p.m. then turn off the lights",
        "Read config.toml. then summarize main.rs",
    ] {
        assert!(!single(two), "{two}");
    }
    let mut question = OpenQuestion::new("Meet Dr. Lee at 9 a.m. with Ben. Then lock the door.");
    assert_eq!(question.parts(), ["Meet Dr. Lee at 9 a.m. with Ben", "Then lock the door"]);
    question.advance_past("Meet Dr. Lee", &["lee".to_owned()]);
    assert_eq!(question.text(), ". Then lock the door.");
    let question = OpenQuestion::new("Hello. Is Dr. Lee in on Monday?");
    assert_eq!(question.with_sentence_start("in on Monday"), "Is Dr. Lee in on Monday");
    assert_eq!(question.skipped_request("Lee in on Monday"), None);
    let question = OpenQuestion::new("Hello. Are you in at 3 p.m. on Monday?");
    assert_eq!(question.with_sentence_start("on Monday"), "Are you in at 3 p.m. on Monday");
}

#[test]
fn items_and_requests_are_found_after_quotations_and_sentences() {
    let after = |text: &str, part: &str, values: &[&str]| {
        let mut question = OpenQuestion::new(text);
        let values: Vec<_> = values.iter().map(|value| (*value).to_owned()).collect();
        question.advance_past(part, &values);
        let item = question.next_item().map(str::to_owned);
        item.or_else(|| question.next_request().map(str::to_owned))
    };
    let words = "Look up both \"ephemeral\" and \"laconic\" for me.";
    assert_eq!(after(words, words, &["ephemeral"]).as_deref(), Some("laconic"));
    let phrases = "Translate 'good night' and 'see you' into French";
    assert_eq!(after(phrases, phrases, &["good night", "french"]).as_deref(), Some("see you"));
    let mass = "I need the mass of H2SO4 as well as that of NaOH.";
    assert_eq!(after(mass, mass, &["h2so4"]).as_deref(), Some("NaOH"));
    let shares = "What are Apple and Microsoft shares trading at right now?";
    assert_eq!(after(shares, shares, &["aapl"]).as_deref(), Some("Microsoft shares trading"));
    assert_eq!(after(shares, shares, &["aapl", "msft"]), None);
    let doors = "Can you lock the front door and the back door, please?";
    assert_eq!(after(doors, doors, &["front", "lock"]).as_deref(), Some("the back door"));
    let team = "Who do the Celtics play next? And how are they doing?";
    let rest = after(team, "Who do the Celtics play next?", &["celtics"]);
    assert_eq!(rest.as_deref(), Some("And how are they doing"));
    let stock = "Show the Tesla stock. Also, what's the rate of the pound?";
    assert_eq!(
        after(stock, "Show the Tesla stock", &["tesla"]).as_deref(),
        Some("what's the rate of the pound")
    );
    let files = "Read a.txt. Then delete it.";
    assert_eq!(after(files, "Read a.txt.", &["a.txt"]).as_deref(), Some("Then delete it"));
    let years = "What was the GDP of France in 2019, 2020, 2021 and 2022?";
    assert_eq!(after(years, years, &["france", "2019"]).as_deref(), Some("2020"));
    let contraction = "Translate 'good night' and 'I don't know' into French";
    assert_eq!(after(contraction, contraction, &["good night"]).as_deref(), Some("I don't know"));
    let hello = "Translate \"Hello\" and \"Thank you\" into Spanish";
    assert_eq!(after(hello, hello, &["hello", "es"]).as_deref(), Some("Thank you"));
    assert_eq!(after(hello, hello, &["hello", "spanish"]).as_deref(), Some("Thank you"));
    let texts = "Send \"see you at 7\" to Anna and \"running late\" to Ben.";
    assert_ne!(after(texts, texts, &["anna", "see you at 7"]).as_deref(), Some("running late"));
    let company = "What's Procter & Gamble trading at right now?";
    assert_eq!(after(company, company, &["pg"]), None);
    let pause = "Turn off the lights. Pause. Then call Ben.";
    assert_eq!(after(pause, "Turn off the lights", &[]), None);
    let visit = "Book a visit at 3 p.m. with Ben.";
    assert_eq!(after(visit, "Book a visit at 3 p.m.", &["15:00"]), None);
}

#[test]
fn two_dates_are_a_list() {
    let after = |text: &str, date: &str| {
        let mut question = OpenQuestion::new(text).with_today("2025-05-05".parse().ok());
        question.advance_past(text, &[date.to_owned()]);
        question.next_item().map(str::to_owned)
    };
    let moon = "What phase is the moon in on February 14, 2026 and on March 1, 2026?";
    assert_eq!(after(moon, "2026-02-14").as_deref(), Some("on March 1, 2026"));
    assert_eq!(after("Is it dry in Rome today and tomorrow?", "2025-05-05").as_deref(), Some("tomorrow"));
    assert_eq!(after("Fly to Oslo on May 6 and return on May 10.", "2025-05-06"), None);
    assert_eq!(after("Is it dry between May 6 and May 8?", "2025-05-06"), None);
    assert_eq!(after("Book a room for May 6 and write to Ben.", "2025-05-06"), None);
    assert_eq!(after("Is it dry on May 6 and in Rome?", "2025-05-06"), None);
}

#[test]
fn other_values_of_an_enumeration_are_items() {
    let after = |text: &str, values: &[&str], alternatives: &[&str]| {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let mut question = OpenQuestion::new(text);
        question.set_alternatives(texts(alternatives));
        question.advance_past(text, &texts(values));
        question.next_item().map(str::to_owned)
    };
    let prices = "Compare express and overnight prices for a package from Lima to Quito.";
    let item = after(prices, &["express", "lima", "quito"], &["overnight", "ground"]);
    assert_eq!(item.as_deref(), Some("overnight prices"));
    assert_eq!(after(prices, &["express", "lima", "quito"], &["ground"]), None);
    let email = "Write a formal and concise email to Anna about the long delay of the train";
    assert_eq!(after(email, &["formal", "anna"], &["concise"]), None);
    let rooms = "Set the living room to heat and cool the bedroom to 18 degrees";
    assert_eq!(after(rooms, &["living room", "heat"], &["cool"]), None);
    let book = "Get the express price and book a taxi from Lima to Quito.";
    assert_eq!(after(book, &["express", "lima", "quito"], &["overnight"]), None);
}

#[test]
fn the_rest_of_a_planned_item_is_no_item() {
    let mut question = OpenQuestion::new("What's the weather in Boston, MA and Austin, TX?");
    question.advance_past("What's the weather in Boston, MA", &["boston, ma".to_owned()]);
    assert_eq!(question.next_item(), Some("Austin"));
    assert!(question.is_name("Austin"));
    question.advance_past("Austin", &["austin, tx".to_owned()]);
    assert_eq!(question.next_item(), None);
    let question = OpenQuestion { text: " and wi-fi".to_owned(), ..question };
    assert!(!question.is_name("wi-fi"));
}

#[test]
fn clause_about_the_same_object_adds_to_the_request() {
    let added =
        |text: &str, need: &str| OpenQuestion::new(text).added_clause(need).map(|(_, extended)| extended);
    let light = "Turn on the light in the bedroom";
    assert_eq!(
        added("Turn on the light in the bedroom and dim it to 30 percent.", light).as_deref(),
        Some("Turn on the light in the bedroom and dim it to 30 percent")
    );
    let shop = "Find shoes under 80 dollars and show the best rated ones first. Thanks!";
    assert_eq!(
        added(shop, "Find shoes under 80 dollars").as_deref(),
        Some("Find shoes under 80 dollars and show the best rated ones first")
    );
    for other in [
        "Turn on the light in the bedroom and turn it off at ten.",
        "Turn on the light in the bedroom and then dim it.",
        "Turn on the light in the bedroom and the one in the hall.",
        "Turn on the light in the bedroom and lock the door.",
        "Turn on the light in the bedroom and do not dim it.",
        "Turn on the light in the bedroom and dim it, and lock the door.",
    ] {
        assert_eq!(added(other, light), None, "{other}");
    }
}

#[test]
fn statement_about_a_planned_argument_needs_no_call() {
    let mut question = OpenQuestion::new("Where's my food? The order number is FD-90213.");
    question.advance_past("Where's my food", &["fd-90213".to_owned()]);
    assert!(question.is_planned_statement("The order number is FD-90213"));
    assert!(!question.is_planned_statement("The order numbers are FD-90213 and FD-4"));
    assert!(!question.is_planned_statement("Cancel order FD-90213"));
    let mut price = OpenQuestion::new("A jacket costs $80 and it's 30% off. There's 8% sales tax on top.");
    price.advance_past("A jacket costs $80 and it's 30% off.", &["80".to_owned(), "30".to_owned()]);
    assert!(!price.is_planned_statement("There's 8% sales tax on top."));
    price.set_completed(["80", "30", "8"].map(str::to_owned).to_vec());
    assert!(price.is_planned_statement("There's 8% sales tax on top."));
    assert!(!price.is_planned_statement("The hat is 80, too."));
    assert!(!price.is_planned_statement("There's also a hat at $80."));
    assert!(!price.is_planned_statement("There's a hat at $80."));
    let mut tip = OpenQuestion::new("Calculate a 20% tip. The bill is $85.");
    tip.advance_past("Calculate a 20% tip", &["85".to_owned(), "20".to_owned()]);
    assert!(tip.is_planned_statement("The bill is $85"));
    let mut albums = OpenQuestion::new("Which albums has Radiohead released? Show me up to 20.");
    albums.advance_past("Which albums has Radiohead released", &["radiohead".to_owned(), "20".to_owned()]);
    assert!(albums.is_planned_statement("Show me up to 20"));
    assert!(!albums.is_planned_statement("Show me up to 30"));
    assert!(!albums.is_planned_statement("Show me up to 20 songs"));
    let text = "Send an email to Ben with the subject 'Trip' and the text 'I will be late.'";
    let mut email = OpenQuestion::new(text);
    email.advance_past("Send an email to Ben", &["ben".to_owned(), "i will be late.".to_owned()]);
    assert!(email.is_planned_statement("the text 'I will"));
    assert!(!email.is_planned_statement("text Ann 'I will be late.'"));
    assert!(!email.is_planned_statement("the subject 'Trip'"));
}

#[test]
fn a_planned_quotation_is_no_item() {
    let text = "Send an email to hr@acme.org with the subject 'Leave' and the text 'I would like to take off July 6 to 10.'";
    let mut email = OpenQuestion::new(text);
    let body = "i would like to take off july 6 to 10.";
    email.advance_past("Send an email to hr@acme.org", &["hr@acme.org", "leave", body].map(str::to_owned));
    assert_eq!(email.next_item(), None);
    assert_eq!(email.next_request(), None);
}

#[test]
fn a_question_after_a_statement_belongs_to_its_need() {
    let extended = |text: &str, need: &str| OpenQuestion::new(text).with_question_after(need.to_owned());
    let price = "A jacket costs $80 and it's 30% off. What do I pay if 8% tax is added?";
    let whole = price.trim_end_matches('?');
    assert_eq!(extended(price, "A jacket costs $80 and it's 30% off"), whole);
    assert_eq!(extended(price, "A jacket costs $80 and it's 30% off."), whole);
    for (text, need) in [
        (price, "What do I pay if 8% tax is added?"),
        (price, "A jacket costs $80"),
        ("Set a timer for 5 minutes. How much is 8% of 20?", "Set a timer for 5 minutes"),
        ("I have tickets 4 and 7. What is the price of each in week 3?", "I have tickets 4 and 7"),
        ("I ran 10 km in 48 minutes. How long do 5 km and 15 km take?", "I ran 10 km in 48 minutes"),
        (
            "Please set the hall to 21 degrees. What about 18 in the bath?",
            "Please set the hall to 21 degrees",
        ),
        ("The hall needs 21 degrees. Can you set the bath to 18?", "The hall needs 21 degrees"),
        ("The hall has 21 degrees. What is the time in 18 minutes, too?", "The hall has 21 degrees"),
        ("The flat is in Rome. What is the rent of 3 rooms?", "The flat is in Rome"),
        ("It costs $80. What is the best price?", "It costs $80"),
        ("The hall must not have 21 degrees. What about 18 there?", "The hall must not have 21 degrees"),
        ("I am in Rome. What is the weather?", "I am in Rome"),
    ] {
        assert_eq!(extended(text, need), need, "{text}");
    }
}
