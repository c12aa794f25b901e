//! Kinds of media types.

/// Returns `media_type` in lower case and without parameters.
pub(crate) fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns `true` for JSON and for types with the suffix `+json` (RFC 6839, section 3.1).
pub(crate) fn is_json(media_type: &str) -> bool {
    let essence = essence(media_type);
    essence == "application/json" || essence == "text/json" || essence.ends_with("+json")
}

/// Returns `true` for types whose content is text, such as `text/csv` and `application/xml`.
pub(crate) fn is_text(media_type: &str) -> bool {
    let essence = essence(media_type);
    essence.starts_with("text/")
        || essence.ends_with("+xml")
        || essence.ends_with("+yaml")
        || matches!(
            essence.as_str(),
            "application/xml"
                | "application/yaml"
                | "application/x-yaml"
                | "application/graphql"
                | "application/javascript"
                | "application/sql"
                | "application/toml"
                | "application/x-ndjson"
                | "application/jsonl"
                | "application/json-seq"
                | "application/x-sh"
        )
}
