//! Selects random subtrees of a JSON document.

use fastrand::Rng;
use serde_json::Value;

/// Returns a reference to a random subtree of the document `root`.
pub(super) fn random_part<'v>(root: &'v Value, rng: &mut Rng) -> &'v Value {
    root.pointer(&random_pointer(root, rng)).unwrap_or(root)
}

/// Returns a mutable reference to a random subtree of the document `root`.
pub(super) fn random_part_mut<'v>(root: &'v mut Value, rng: &mut Rng) -> &'v mut Value {
    let pointer = random_pointer(root, rng);
    root.pointer_mut(&pointer).expect("the pointer is from this document")
}

/// Returns the value of a `$ref` that points to a random subtree of the document `root`.
pub(super) fn random_reference(root: &Value, rng: &mut Rng) -> String {
    format!("#{}", random_pointer(root, rng).replace('%', "%25"))
}

fn random_pointer(root: &Value, rng: &mut Rng) -> String {
    let mut pointers = vec![(String::new(), root)];
    let mut next = 0;
    while let Some((pointer, value)) = pointers.get(next).cloned() {
        match value {
            Value::Array(items) => {
                let inner = items.iter().enumerate();
                pointers.extend(inner.map(|(index, item)| (format!("{pointer}/{index}"), item)));
            }
            Value::Object(members) => {
                let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
                let inner = members.iter();
                pointers.extend(inner.map(|(name, it)| (format!("{pointer}/{}", escaped(name)), it)));
            }
            _ => {}
        }
        next += 1;
    }
    pointers.swap_remove(rng.usize(..pointers.len())).0
}
