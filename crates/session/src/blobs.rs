//! Large strings in stored JSON. They are stored once for each content, and the JSON has empty
//! strings in their place.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The size from which a string is stored apart, in bytes.
const MIN_BYTES: usize = 4096;

/// A large string, taken out of its JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Blob {
    pub(crate) place: BlobPlace,
    pub(crate) data: Vec<u8>,
}

/// The place of a large string.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BlobPlace {
    /// The JSON Pointer of the string.
    pub(crate) at: String,
    /// The SHA-256 of the data, in lowercase hexadecimal digits.
    pub(crate) hash: String,
    /// `true` if the string is the Base64 form of the data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) base64: bool,
}

/// Takes the large strings out of `value`.
pub(crate) fn take_blobs(value: &mut Value) -> Vec<Blob> {
    let mut blobs = Vec::new();
    take(value, &mut String::new(), &mut blobs);
    blobs
}

fn take(value: &mut Value, path: &mut String, blobs: &mut Vec<Blob>) {
    match value {
        Value::String(text) if text.len() >= MIN_BYTES => {
            let text = std::mem::take(text);
            let decoded = STANDARD.decode(&text).ok().filter(|data| STANDARD.encode(data) == text);
            let base64 = decoded.is_some();
            let data = decoded.unwrap_or_else(|| text.into_bytes());
            let hash = hash(&data);
            blobs.push(Blob { place: BlobPlace { at: path.clone(), hash, base64 }, data });
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                inside(path, &index.to_string(), |path| take(item, path, blobs));
            }
        }
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                // RFC 6901, section 3.
                let name = name.replace('~', "~0").replace('/', "~1");
                inside(path, &name, |path| take(member, path, blobs));
            }
        }
        _ => {}
    }
}

fn inside(path: &mut String, name: &str, visit: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push('/');
    path.push_str(name);
    visit(path);
    path.truncate(length);
}

/// Puts the string with the content `data` back into `value`.
pub(crate) fn put_blob(value: &mut Value, place: &BlobPlace, data: Vec<u8>) -> Result<(), String> {
    let text = if place.base64 { Ok(STANDARD.encode(data)) } else { String::from_utf8(data) };
    let text = text.map_err(|_| format!("the blob {} is not UTF-8", place.hash))?;
    let missing = || format!("there is no value at {}", place.at);
    *value.pointer_mut(&place.at).ok_or_else(missing)? = Value::String(text);
    Ok(())
}

fn hash(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn large_strings_come_back() {
        let text = "a long text ".repeat(1000);
        let image = STANDARD.encode([7; 9000]);
        let value = json!({"a/b": [{"~": text}, "short"], "data": image, "text": {"": image}});
        let mut small = value.clone();
        let blobs = take_blobs(&mut small);
        assert_eq!(small, json!({"a/b": [{"~": ""}, "short"], "data": "", "text": {"": ""}}));
        assert_eq!(blobs.iter().map(|blob| blob.data.len()).collect::<Vec<_>>(), [12_000, 9000, 9000]);
        assert_eq!(blobs[1].place.hash, blobs[2].place.hash);
        for Blob { place, data } in blobs {
            put_blob(&mut small, &place, data).unwrap();
        }
        assert_eq!(small, value);
    }
}
