//! Parsing of structured answers.

use std::iter;

use haft_core::{
    Schema,
    content::Content,
    schema::{RepairPolicy, parse_json, parse_json_object, repair},
};
use serde_json::{Map, Value};

use super::schema::RESPONSE;
use crate::{
    RunConfig,
    dialect::{find_json_object, split_thinking, strip_fence},
};

/// Normalizes `content`, the arguments of a call to `finish` that is followed by an extraction of
/// the outputs. Arguments without a value become `{}`. A string becomes the JSON object that it
/// contains, or text.
pub(crate) fn finish_arguments(content: Vec<Content>) -> Vec<Content> {
    let empty = || vec![Content::json(Value::Object(Map::new()))];
    match content.as_slice() {
        [Content::Json { value: Value::Null }] => empty(),
        [Content::Json { value: Value::String(text) }] if text.trim().is_empty() => empty(),
        [Content::Json { value: Value::String(text) }] => match parse_json_object(text) {
            Some(object) => vec![Content::json(Value::Object(object))],
            None => vec![Content::text(text)],
        },
        _ => content,
    }
}

/// Parses `content`, an answer of the model, as a JSON object, repairs common mistakes, and
/// validates the object against `schema`, the outputs of `config`. Reasoning before the answer, in
/// a `<think>` block, is ignored. The error text is sent to the model.
pub(crate) fn parse_answer(
    config: &RunConfig,
    schema: &Schema,
    content: &[Content],
) -> Result<Value, String> {
    let text = || split_thinking(&content.iter().map(Content::as_text).collect::<Vec<_>>().join("\n")).text;
    let value = match (content, &config.output_property) {
        ([Content::Json { value }], _) => Ok(value.clone()),
        (_, None) => find_json_object(&text(), |_| true).map(Value::Object).ok_or_else(String::new),
        (_, Some(_)) => Err(text()),
    };
    if let Some(property) = &config.output_property {
        let written = value.clone().unwrap_or_else(Value::String);
        if let Some(outputs) = candidates(property, written).find_map(|it| repaired(schema, it).ok()) {
            return Ok(outputs);
        }
    }
    let value = value.or_else(|text| find_json_object(&text, |_| true).map(Value::Object).ok_or(text));
    let Ok(value) = value else {
        return Err(format!("The answer must be one JSON object of this schema: {}", schema.as_value()));
    };
    let inner = unwrapped(config, &value).cloned();
    repaired(schema, value).or_else(|violations| {
        inner.and_then(|inner| repaired(schema, inner).ok()).ok_or_else(|| {
            format!("The answer does not have the form that it must have:\n{violations}\nGive it again.")
        })
    })
}

/// Returns the object in `value` if the single member of `value` is an object with the name
/// [`RESPONSE`]. Models copy this wrapper from earlier answers that are not objects.
fn unwrapped<'v>(config: &RunConfig, value: &'v Value) -> Option<&'v Value> {
    let members = value.as_object().filter(|it| config.output_property.is_none() && it.len() == 1)?;
    members.get(RESPONSE).filter(|inner| inner.is_object())
}

/// Repairs and validates `value`. The error is the list of violations.
fn repaired(schema: &Schema, value: Value) -> Result<Value, String> {
    let (value, _repairs) = repair(schema, value, RepairPolicy::Default);
    schema.validate(&value).map_err(|violations| violations.to_string())?;
    Ok(value)
}

/// Returns the possible meanings of `written`, an answer that should be an object with the member
/// `property`, in order of preference. Models often omit the object, use another key such as
/// `answer`, or write the answer as text.
fn candidates(property: &str, written: Value) -> impl Iterator<Item = Value> {
    let spelled = written.as_str().and_then(|text| {
        let text = strip_fence(text.trim());
        parse_json(text).ok().or_else(|| find_json_object(text, |_| true).map(Value::Object))
    });
    let wrap = |value| Value::Object(Map::from_iter([(property.to_owned(), value)]));
    spelled.into_iter().chain([written]).flat_map(move |value| {
        let renamed = value.as_object().filter(|members| members.len() == 1);
        let renamed = renamed.and_then(|members| members.values().next()).cloned().map(wrap);
        let object = Some(value.clone()).filter(Value::is_object);
        object.into_iter().chain(iter::once(wrap(value))).chain(renamed)
    })
}
