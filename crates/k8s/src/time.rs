//! `metav1.Time`: RFC 3339 in whole seconds, UTC (R52).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An instant in whole seconds since 1970, UTC. Parses RFC 3339 with any offset, and drops
/// fractions of a second. Displays as `2006-01-02T15:04:05Z`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    seconds: i64,
}

#[cfg(feature = "schema")]
impl utoipa::PartialSchema for Time {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, Type};
        use utoipa::openapi::{KnownFormat, SchemaFormat};

        let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
        ObjectBuilder::new().schema_type(Type::String).format(Some(format)).into()
    }
}

#[cfg(feature = "schema")]
impl utoipa::ToSchema for Time {
    fn name() -> std::borrow::Cow<'static, str> {
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time".into()
    }
}

/// The seconds of the years 0000 to 9999, which jiff formats as Kubernetes does.
const YEARS_OF_FOUR_DIGITS: std::ops::RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

impl Time {
    /// Returns the instant at these seconds, clamped to the years -9999 to 9999, which RFC 3339 can
    /// represent.
    pub fn from_seconds(seconds: i64) -> Time {
        let (min, max) = (jiff::Timestamp::MIN.as_second(), jiff::Timestamp::MAX.as_second());
        Time { seconds: seconds.clamp(min, max) }
    }

    pub const fn seconds(self) -> i64 {
        self.seconds
    }

    pub fn plus_seconds(self, seconds: i64) -> Time {
        Time::from_seconds(self.seconds.saturating_add(seconds))
    }
}

impl FromStr for Time {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Time, jiff::Error> {
        let instant: jiff::Timestamp = text.parse()?;
        // Rounds towards the past, as dropping the digits after the point does.
        let seconds = instant.as_second() - i64::from(instant.subsec_nanosecond() < 0);
        Ok(Time::from_seconds(seconds))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instant = jiff::Timestamp::from_second(self.seconds).expect("clamped when made");
        match YEARS_OF_FOUR_DIGITS.contains(&self.seconds) {
            // jiff's own formatting takes a fraction of the time, and every write formats a few
            // times.
            true => write!(f, "{instant}"),
            false => write!(f, "{}", instant.strftime("%Y-%m-%dT%H:%M:%SZ")),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r52_offsets_are_normalised_and_fractions_dropped() {
        let time: Time = "2024-04-17T17:04:05.987+02:00".parse().unwrap();
        assert_eq!(time.to_string(), "2024-04-17T15:04:05Z");
        assert_eq!(serde_json::to_string(&time).unwrap(), "\"2024-04-17T15:04:05Z\"");
    }

    #[test]
    fn text_without_a_date_or_an_offset_is_refused() {
        for text in ["", "15:04:05Z", "2024-04-17T15:04:05", "yesterday"] {
            assert!(text.parse::<Time>().is_err(), "{text:?}");
        }
    }
}
