use std::rc::Rc;

use haft_core::tool;

#[tool]
async fn count(words: Vec<String>) -> usize {
    let words = Rc::new(words);
    std::future::ready(()).await;
    words.len()
}

fn main() {}
