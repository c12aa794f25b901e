use haft_core::tool;

struct Counter(i64);

impl Counter {
    #[tool]
    fn add(&mut self, n: i64) -> i64 {
        self.0 += n;
        self.0
    }
}

fn main() {}
