//! [`Hierarchy`]: the schemas of a document that extend others with `allOf`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The objects with the named schemas of a document: OpenAPI 3 and Swagger 2.0.
const CONTAINERS: [&str; 2] = ["/components/schemas", "/definitions"];

/// The named schemas that have another named schema in their `allOf`.
#[derive(Default)]
pub(super) struct Hierarchy {
    /// The JSON pointers of the direct subtypes, by the pointers of their supertypes.
    subtypes: BTreeMap<String, Vec<String>>,
}

impl Hierarchy {
    pub(super) fn of(root: &Value) -> Self {
        let mut subtypes: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for container in CONTAINERS {
            let schemas = root.pointer(container).and_then(Value::as_object).into_iter().flatten();
            for (name, schema) in schemas {
                let members = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
                let references = members.filter_map(|it| it.get("$ref")?.as_str());
                let supertypes: BTreeSet<_> = references.filter_map(super::local_pointer).collect();
                for supertype in supertypes {
                    subtypes.entry(supertype).or_default().push(named_pointer(container, name));
                }
            }
        }
        Self { subtypes }
    }

    /// Returns `true` if the schema at `pointer` has the schema at `supertype` in its `allOf`.
    pub(super) fn extends(&self, pointer: &str, supertype: &str) -> bool {
        self.subtypes.get(supertype).is_some_and(|subtypes| subtypes.iter().any(|it| it == pointer))
    }

    /// Returns the pointers of the direct and indirect subtypes of the schema at `pointer`, in the
    /// order of the document.
    pub(super) fn subtypes(&self, pointer: &str) -> Vec<&str> {
        let (mut found, mut seen): (Vec<&str>, BTreeSet<&str>) = (Vec::new(), BTreeSet::from([pointer]));
        let mut next = 0;
        let mut current = pointer;
        loop {
            let direct = self.subtypes.get(current).into_iter().flatten();
            found.extend(direct.map(String::as_str).filter(|subtype| seen.insert(subtype)));
            let Some(subtype) = found.get(next) else { return found };
            current = subtype;
            next += 1;
        }
    }
}

/// Returns the name of the schema at `pointer`. `None` if it is not a named schema.
pub(super) fn name_of(pointer: &str) -> Option<String> {
    let (container, name) = pointer.rsplit_once('/')?;
    CONTAINERS.contains(&container).then(|| name.replace("~1", "/").replace("~0", "~"))
}

/// Returns the pointers that a named schema with `name` may have.
pub(super) fn pointers_of(name: &str) -> impl Iterator<Item = String> {
    CONTAINERS.into_iter().map(move |container| named_pointer(container, name))
}

fn named_pointer(container: &str, name: &str) -> String {
    format!("{container}/{}", name.replace('~', "~0").replace('/', "~1"))
}
