//! [`Document`]: an OpenAPI document as JSON, with its version and its references.

mod fetch;
mod hierarchy;
mod swagger;

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, hash_map::RandomState},
    hash::BuildHasher as _,
};

use haft_core::{Schema, schema::SchemaError, text::truncate};
use reqwest::Url;
use serde_json::Value;

use self::hierarchy::Hierarchy;
use crate::OpenApiError;

pub(crate) use fetch::{fetch, read};

/// The maximum number of consecutive references that are followed, as in `a → b → c`.
const MAX_HOPS: usize = 16;
/// The maximum nesting of a YAML document. `serde_json` limits JSON to 127 levels.
const MAX_DEPTH: usize = 127;
/// The maximum number of values in a YAML document, with the values of repeated aliases. The
/// document of GitHub has about 600,000.
const MAX_YAML_NODES: usize = 4_000_000;

/// The budget for the tools of a document, as a number of values in their schemas: a minimum, more
/// for each value in the document, and a maximum. A schema counts for each tool that refers to it.
const MIN_STEPS: usize = 200_000;
const STEPS_PER_VALUE: usize = 32;
const MAX_STEPS: usize = 16_000_000;

/// A parsed OpenAPI document.
pub(crate) struct Document {
    /// The document in the form of OpenAPI 3.
    root: Value,
    hierarchy: Hierarchy,
    /// The budget, and its rest.
    max_steps: usize,
    steps: Cell<usize>,
    /// The compiled schemas of the operations, by their hashes.
    compiled: RefCell<HashMap<u64, Schema>>,
    hasher: RandomState,
    pub(crate) dialect: Dialect,
    /// The URL from which the document was fetched.
    pub(crate) url: Option<Url>,
}

/// The dialect of the schemas in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// The extended subset of JSON Schema in Swagger 2.0 and OpenAPI 3.0.
    OpenApi30,
    /// JSON Schema 2020-12, of OpenAPI 3.1 and later.
    JsonSchema,
}

impl Document {
    /// Parses `text`, as JSON if it starts with `{`, and otherwise as YAML. A document of Swagger
    /// 2.0 is converted to OpenAPI 3.0.
    pub(crate) fn parse(text: &str, url: Option<Url>, max_bytes: usize) -> Result<Self, OpenApiError> {
        if text.len() > max_bytes {
            return Err(OpenApiError::TooLarge { limit: max_bytes });
        }
        let text = text.trim_start_matches('\u{feff}').trim_start();
        let root = if text.starts_with('{') { parse_json(text) } else { parse_yaml(text) }?;
        let (root, dialect) = match version(&root) {
            Some((_, 2)) => (swagger::to_openapi(root, url.as_ref()), Dialect::OpenApi30),
            Some((0, 3)) => (root, Dialect::OpenApi30),
            Some((1 | 2, 3)) => (root, Dialect::JsonSchema),
            _ => return Err(OpenApiError::UnsupportedVersion { found: describe_version(&root) }),
        };
        let hierarchy = Hierarchy::of(&root);
        let max_steps = (MIN_STEPS + STEPS_PER_VALUE * count_values(&root)).min(MAX_STEPS);
        let (steps, compiled, hasher) = (Cell::new(max_steps), RefCell::default(), RandomState::new());
        Ok(Self { root, hierarchy, max_steps, steps, compiled, hasher, dialect, url })
    }

    pub(crate) fn root(&self) -> &Value {
        &self.root
    }

    /// Returns `value`, or the target of its `$ref`.
    ///
    /// # Errors
    ///
    /// Fails with a description of the fault if the reference is external, circular or has no
    /// target.
    pub(crate) fn resolve<'d>(&'d self, value: &'d Value) -> Result<&'d Value, String> {
        match value.get("$ref").and_then(Value::as_str) {
            Some(reference) => Ok(self.follow(reference)?.1),
            None => Ok(value),
        }
    }

    /// Returns the JSON pointer and the value that `reference` leads to, through other references.
    ///
    /// # Errors
    ///
    /// Fails for the reasons of [`resolve`](Self::resolve).
    pub(crate) fn follow(&self, reference: &str) -> Result<(String, &Value), String> {
        let (mut pointer, mut value) = self.target(reference)?;
        for _ in 0..MAX_HOPS {
            let Some(next) = value.get("$ref").and_then(Value::as_str) else { return Ok((pointer, value)) };
            (pointer, value) = self.target(next)?;
        }
        Err("a `$ref` is circular".to_owned())
    }

    /// Counts `steps` of the work for this document.
    ///
    /// # Errors
    ///
    /// Fails with a description of the fault and its remedy if the document takes too many steps.
    pub(crate) fn spend(&self, steps: usize) -> Result<(), String> {
        match self.steps.get().checked_sub(steps) {
            Some(rest) => {
                self.steps.set(rest);
                Ok(())
            }
            None => {
                self.steps.set(0);
                Err(format!(
                    "the schemas of all operations have more than {} values, too many for a document of this \
                     size: select fewer operations",
                    self.max_steps
                ))
            }
        }
    }

    /// Compiles `schema`. Operations with equal schemas share the compiled one, because compiling
    /// takes most of the time for a large document.
    pub(crate) fn compile(&self, schema: Value) -> Result<Schema, SchemaError> {
        let hash = self.hasher.hash_one(&schema);
        if let Some(compiled) = self.compiled.borrow().get(&hash).filter(|it| *it.as_value() == schema) {
            return Ok(compiled.clone());
        }
        let compiled = Schema::new(schema)?;
        self.compiled.borrow_mut().insert(hash, compiled.clone());
        Ok(compiled)
    }

    /// Returns `true` if the schema `schema` at `pointer` stands for its subtypes: it has a
    /// discriminator, and named schemas extend it.
    pub(crate) fn is_supertype(&self, pointer: &str, schema: &Value) -> bool {
        schema.get("discriminator").is_some_and(|it| !it.is_null())
            && !self.hierarchy.subtypes(pointer).is_empty()
    }

    /// Returns `true` if the schema at `pointer` has the schema at `supertype` in its `allOf`.
    pub(crate) fn extends(&self, pointer: &str, supertype: &str) -> bool {
        self.hierarchy.extends(pointer, supertype)
    }

    /// Returns the pointers of the direct and indirect subtypes of the schema at `pointer`.
    pub(crate) fn subtypes(&self, pointer: &str) -> Vec<&str> {
        self.hierarchy.subtypes(pointer)
    }

    /// Returns the name of the schema at `pointer`. `None` if it is not a named schema.
    pub(crate) fn name_of(&self, pointer: &str) -> Option<String> {
        hierarchy::name_of(pointer)
    }

    /// Returns the pointer of the schema that `text` in the mapping of a discriminator stands for:
    /// a reference, or the name of a schema (OpenAPI 3.1.1, section 4.8.25).
    pub(crate) fn mapped_pointer(&self, text: &str) -> Option<String> {
        match self.target(text) {
            Ok((pointer, _)) => Some(pointer),
            Err(_) => hierarchy::pointers_of(text).find(|pointer| self.root.pointer(pointer).is_some()),
        }
    }

    /// Returns the JSON pointer and the value that `reference`, the value of a `$ref`, stands for.
    pub(crate) fn target(&self, reference: &str) -> Result<(String, &Value), String> {
        self.spend(1)?;
        let shown = truncate(reference, 200);
        if !reference.starts_with('#') {
            return Err(format!(
                "the reference {shown:?} is to another document, which is not fetched: bundle the documents into one"
            ));
        }
        let pointer =
            local_pointer(reference).ok_or_else(|| format!("the reference {shown:?} is not valid UTF-8"))?;
        match self.root.pointer(&pointer) {
            Some(target) => Ok((pointer, target)),
            None => Err(format!("the reference {shown:?} has no target")),
        }
    }
}

/// Returns the JSON pointer in `reference`. `None` for a reference to another document.
fn local_pointer(reference: &str) -> Option<String> {
    let fragment = reference.strip_prefix('#')?;
    Some(percent_encoding::percent_decode_str(fragment).decode_utf8().ok()?.into_owned())
}

/// Returns the number of JSON values in `value`, including `value`.
pub(crate) fn count_values(value: &Value) -> usize {
    match value {
        Value::Object(members) => 1 + members.values().map(count_values).sum::<usize>(),
        Value::Array(items) => 1 + items.iter().map(count_values).sum::<usize>(),
        _ => 1,
    }
}

fn parse_json(text: &str) -> Result<Value, OpenApiError> {
    serde_json::from_str(text)
        .map_err(|error| OpenApiError::Syntax { format: "JSON", reason: error.to_string() })
}

/// Parses `text` as YAML 1.2 with the limits of this module. An alias counts with all its values.
fn parse_yaml(text: &str) -> Result<Value, OpenApiError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: MAX_YAML_NODES,
            max_events: 2 * MAX_YAML_NODES,
            max_documents: 1,
        },
        // Values such as `no` and `on` are strings (YAML 1.2, section 10.3.2).
        strict_booleans: true,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let error = error.without_snippet().to_string();
        // This remedy is for the program, and not for the author of the document.
        let reason = error.replace(", set DuplicateKeyPolicy in Options if acceptable", "");
        OpenApiError::Syntax { format: "YAML", reason }
    })
}

/// Returns the minor and the major version of the document.
fn version(root: &Value) -> Option<(u32, u32)> {
    let declared = root.get("openapi").or_else(|| root.get("swagger"))?;
    // In YAML, `openapi: 3.1` is a number.
    let text = declared.as_str().map_or_else(|| declared.to_string(), str::to_owned);
    let mut parts = text.split('.').map(|part| part.parse().ok());
    let major = parts.next()??;
    let is_swagger = root.get("openapi").is_none();
    let minor = parts.next().flatten().unwrap_or(0);
    (is_swagger == (major == 2)).then_some((minor, major))
}

fn describe_version(root: &Value) -> String {
    let shown = |value: &Value| truncate(&value.to_string(), 40).to_owned();
    match (root.get("openapi"), root.get("swagger"), root.get("swaggerVersion"), root.get("asyncapi")) {
        (Some(version), ..) => format!("OpenAPI {} is not supported", shown(version)),
        (_, Some(version), ..) => format!("Swagger {} is not supported", shown(version)),
        (_, _, Some(version), _) => format!("Swagger {} is not supported", shown(version)),
        (_, _, _, Some(_)) => "an AsyncAPI document is not supported".to_owned(),
        _ => "the document has neither `openapi` nor `swagger`".to_owned(),
    }
}

#[cfg(test)]
mod tests;
