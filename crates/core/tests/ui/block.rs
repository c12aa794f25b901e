#![allow(unused)]

use haft_core::{Toolset, tools};

#[derive(Default)]
struct Counter(i64);

#[tools(prefix = "counter")]
impl Counter {
    #[tool]
    fn add(&mut self, n: i64) -> i64 {
        self.0 += n;
        self.0
    }

    #[tool]
    fn take(self) -> i64 {
        self.0
    }

    #[tool(name = "take")]
    fn again(&self, word: &str) -> i64 {
        self.0
    }
}

struct Empty;

#[tools]
impl Empty {
    fn nothing(&self) {}
}

struct Generic<T>(T);

#[tools]
impl<T> Generic<T> {
    #[tool]
    fn get(&self) -> i64 {
        1
    }
}

#[tools]
impl Default for Empty {
    fn default() -> Self {
        Self
    }
}

#[tools]
fn function() {}

struct Without;

fn main() {
    let tools = Toolset::new().with_tools(Counter::default()).with_tools(Without);
}
