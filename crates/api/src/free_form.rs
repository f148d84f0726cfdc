//! A JSON object of any shape, kept as text.
//!
//! A typed binding contains one for each cluster that reports a status. The text is many times
//! smaller than a tree.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use ballast_resource::schema::mark::Opaque;

/// A JSON object, kept as the text that was read.
#[derive(Clone, Debug)]
pub struct FreeForm(Box<RawValue>);

impl FreeForm {
    /// Parses the object. Each call parses it again.
    pub fn value(&self) -> Value {
        serde_json::from_str(self.0.get()).expect("it was JSON when it was read")
    }

    /// Returns the JSON text, unchanged.
    pub fn text(&self) -> &str {
        self.0.get()
    }
}

impl From<&Value> for FreeForm {
    fn from(value: &Value) -> FreeForm {
        FreeForm(serde_json::value::to_raw_value(value).expect("a tree of JSON can be written"))
    }
}

impl PartialEq for FreeForm {
    /// Compares the values: white space and the order of keys do not matter.
    fn eq(&self, other: &FreeForm) -> bool {
        self.text() == other.text() || self.value() == other.value()
    }
}

impl Serialize for FreeForm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FreeForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FreeForm, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(FreeForm)
    }
}

impl PartialSchema for FreeForm {
    fn schema() -> RefOr<Schema> {
        Opaque::schema()
    }
}

impl ToSchema for FreeForm {}
