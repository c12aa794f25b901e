use std::collections::BTreeMap;

use super::pages::{Page, dead_links};

#[test]
fn dead_links_of_the_book_are_found() {
    let index = "<a href=\"b/two.html#known\">x</a> <a class=\"y\" href=\"b/two.html#unknown\">x</a> \
                 <a href=\"https://example.org/gone.html\">x</a> <a href=\"#top\">x</a> <h1 id=\"top\">x</h1> \
                 <img src=\"there.png\"> <img src=\"gone.png\">";
    let two = "<h2 id=\"known\">x</h2> <a href=\"../index.html\">x</a> <a href=\"gone.html\">x</a>";
    let pages = BTreeMap::from([
        ("index.html".to_owned(), Page::parse(index)),
        ("b/two.html".to_owned(), Page::parse(two)),
    ]);
    let dead = dead_links(&pages, |file| file == "there.png");
    assert_eq!(dead, ["b/two.html: gone.html", "index.html: b/two.html#unknown", "index.html: gone.png"]);
}
