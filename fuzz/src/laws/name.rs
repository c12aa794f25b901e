use std::collections::{HashMap, HashSet};

use haft_core::ToolName;

/// Checks the conversion of untrusted names to tool names. The input contains one name per line.
///
/// - Each name is converted to a valid tool name.
/// - The conversion is deterministic, and different names give different tool names.
/// - A valid name does not change, unless it looks like a converted name, which ends with `_` and
///   12 hexadecimal digits.
///
/// # Panics
///
/// Panics if the law is violated.
pub fn check_name(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let foreign: HashSet<_> = text.split('\n').collect();
    let mut taken = HashMap::new();
    for foreign in foreign {
        let name = ToolName::sanitize(foreign);
        assert!(is_valid(name.as_str()), "{foreign:?} became {name}");
        assert_eq!(ToolName::new(foreign).is_ok(), is_valid(foreign), "{foreign:?}");
        assert_eq!(ToolName::sanitize(foreign), name);
        assert_eq!(ToolName::new(name.as_str()).as_ref(), Ok(&name));
        let stays = name == foreign;
        assert_eq!(
            stays,
            is_valid(foreign) && !ends_like_a_mapped_name(foreign),
            "{foreign:?} became {name}"
        );
        // A server could list a name that looks like a converted name. The listed name must change,
        // because it could collide with the converted name of another server's tool.
        assert!(stays || ToolName::sanitize(name.as_str()) != name, "{foreign:?} became {name}");
        if let Some(other) = taken.insert(name.clone(), foreign) {
            panic!("{foreign:?} and {other:?} became {name}");
        }
    }
}

fn is_valid(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|it| it.is_ascii_alphanumeric() || b"_-".contains(&it))
}

fn ends_like_a_mapped_name(name: &str) -> bool {
    let is_digit = |it: u8| it.is_ascii_digit() || (b'a'..=b'f').contains(&it);
    name.rsplit_once('_').is_some_and(|(_, hash)| hash.len() == 12 && hash.bytes().all(is_digit))
}
