//! The JSON form of a run: `{"version": 1, "head": {…}, "transcript": {…}}`.

use haft_core::{Transcript, Value};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::SerializeStruct as _};

use super::{Head, Run, ids::CallIds, queued::Placed};

impl Run {
    /// The version of the JSON form that this build writes.
    pub const VERSION: u32 = 1;
}

impl Serialize for Run {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut form = serializer.serialize_struct("Run", 3)?;
        form.serialize_field("version", &Self::VERSION)?;
        form.serialize_field("head", &self.head)?;
        form.serialize_field("transcript", &self.transcript)?;
        form.end()
    }
}

impl<'de> Deserialize<'de> for Run {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Form {
            version: u32,
            // Another version may have another shape: nothing else is read before the version is known.
            #[serde(default)]
            head: Value,
            #[serde(default)]
            transcript: Value,
        }
        let form = Form::deserialize(deserializer)?;
        if form.version != Self::VERSION {
            return Err(D::Error::custom(format_args!(
                "run format {} is not known here, only {}: read it with the version of haft that wrote it",
                form.version,
                Self::VERSION
            )));
        }
        let transcript = Transcript::deserialize(form.transcript).map_err(D::Error::custom)?;
        let head = Head::deserialize(form.head).map_err(D::Error::custom)?;
        let (ids, placed) = (CallIds::of(transcript.messages()), Placed::default());
        Ok(Self { transcript, head, ids, placed })
    }
}
