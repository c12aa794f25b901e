//! The JSON form of a run: `{"version": 2, "data": {…}, "transcript": {…}}`.

use haft_core::Transcript;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, Error as _},
    ser::SerializeStruct as _,
};
use serde_json::Value;

use super::{Run, RunError, data::RunData};

impl Run {
    /// The version of the JSON form of a run. Other versions cannot be read.
    pub const VERSION: u32 = 2;

    /// Returns the run without its transcript, for programs that store messages separately and only
    /// append new ones. The size of the [`DetachedRun`] does not depend on the length of the
    /// conversation.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{Message, Transcript};
    /// use haft_react::{Run, run::DetachedRun, RunConfig};
    ///
    /// let run = Run::new(&RunConfig::default(), "What is 17 plus 25?".into())?;
    /// let detached = serde_json::to_string(&run.detached())?;
    /// let messages: Vec<_> = run.transcript().messages().iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    ///
    /// let detached: DetachedRun = serde_json::from_str(&detached)?;
    /// let messages = messages.iter().map(|message| serde_json::from_str(message));
    /// let transcript = messages.collect::<Result<Transcript, _>>()?;
    /// assert_eq!(Run::from_detached(detached, transcript)?, run);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn detached(&self) -> DetachedRun {
        DetachedRun { message_count: self.transcript.len(), data: self.data.clone() }
    }

    /// Restores a run from its [`DetachedRun`] and its transcript.
    ///
    /// # Errors
    ///
    /// Fails if the number of messages in `transcript` has changed since `detached` was created.
    pub fn from_detached(detached: DetachedRun, transcript: Transcript) -> Result<Self, RunError> {
        let DetachedRun { message_count: messages, data } = detached;
        if messages != transcript.len() {
            return Err(RunError::OtherTranscript { messages, found: transcript.len() });
        }
        Ok(Self::from_parts(data, transcript))
    }
}

/// A [`Run`] without its transcript. [`Run::from_detached`] restores the run. The JSON form of this
/// type contains the [version](Run::VERSION) of the format.
#[derive(Clone, Debug, PartialEq)]
pub struct DetachedRun {
    /// The number of messages in the transcript when the run was detached.
    message_count: usize,
    data: RunData,
}

impl DetachedRun {
    /// Returns the number of messages that the transcript had when the run was detached.
    pub fn message_count(&self) -> usize {
        self.message_count
    }
}

impl Serialize for Run {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut form = serializer.serialize_struct("Run", 3)?;
        form.serialize_field("version", &Self::VERSION)?;
        form.serialize_field("data", &self.data)?;
        form.serialize_field("transcript", &self.transcript)?;
        form.end()
    }
}

impl<'de> Deserialize<'de> for Run {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut form = SavedJson::read(Value::deserialize(deserializer)?, "run", ["data", "transcript"])
            .map_err(D::Error::custom)?;
        let transcript: Transcript = form.take("transcript").map_err(D::Error::custom)?;
        Ok(Self::from_parts(form.take("data").map_err(D::Error::custom)?, transcript))
    }
}

impl Serialize for DetachedRun {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut form = serializer.serialize_struct("DetachedRun", 3)?;
        form.serialize_field("version", &Run::VERSION)?;
        form.serialize_field("messages", &self.message_count)?;
        form.serialize_field("data", &self.data)?;
        form.end()
    }
}

impl<'de> Deserialize<'de> for DetachedRun {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut form =
            SavedJson::read(Value::deserialize(deserializer)?, "detached run", ["messages", "data"])
                .map_err(D::Error::custom)?;
        let messages = form.take("messages").map_err(D::Error::custom)?;
        Ok(Self { message_count: messages, data: form.take("data").map_err(D::Error::custom)? })
    }
}

/// The JSON object of a saved [`Run`] or [`DetachedRun`]. Its version is [`Run::VERSION`].
struct SavedJson(Value);

impl SavedJson {
    /// Checks that `value` has the version [`Run::VERSION`]. Does not read the other fields of
    /// `value`, because they may differ in other versions. `what` is the name of the saved data and
    /// `fields` are the names of its other fields. Both are only used in error texts.
    fn read(value: Value, what: &str, fields: [&str; 2]) -> Result<Self, String> {
        let [one, other] = fields;
        let Some(version) = value.get("version").and_then(Value::as_u64) else {
            return Err(format!(
                "a saved {what} is an object with a number `version`, `{one}` and `{other}`; this is not one"
            ));
        };
        if version != u64::from(Run::VERSION) {
            return Err(format!(
                "{what} format {version} is not known here, only {}: read it with the version of haft that wrote it",
                Run::VERSION
            ));
        }
        Ok(Self(value))
    }

    /// Moves the value of `field` out of the object and deserializes it. The error text contains
    /// the path to the faulty value.
    fn take<T: DeserializeOwned>(&mut self, field: &str) -> Result<T, String> {
        let value = self.0.get_mut(field).map(Value::take).unwrap_or_default();
        serde_path_to_error::deserialize(value).map_err(|error| {
            let path = error.path().to_string();
            let place = if path == "." { field.to_owned() } else { format!("{field}.{path}") };
            format!("at `{place}`: {}", error.into_inner())
        })
    }
}
