//! Flags about the retention of the log's history.

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::GoDuration;
use ballast_k8s::Quantity;
use ballast_watch::Limits;

/// A shorter history would end watches that reconnect after a short interruption.
const HISTORY_MIN: Duration = Duration::from_secs(60);
const HISTORY_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A smaller history would be removed before watches have read it.
const BYTES_MIN: u64 = 16 << 20;

#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct HistoryArgs {
    /// Retention of old states of objects: for `asOf`, for lists of old states, and for watches
    /// that resume. It is shorter if there are more changes than --history-max-changes;
    /// ballast_store_history_seconds reports it
    #[arg(long, env = "BALLAST_HISTORY", default_value = "1h", value_parser = history)]
    pub history: GoDuration,

    /// Maximum number of changes that the log keeps, regardless of their age. Default: four for
    /// each object, and at least 200000
    #[arg(long, env = "BALLAST_HISTORY_MAX_CHANGES", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1_000..))]
    pub history_max_changes: Option<u32>,

    /// Maximum bytes that the log keeps in addition to the newest states, such as 512Mi or 2Gi.
    /// Above it, the oldest changes are removed first; ballast_store_history_bytes reports the size
    #[arg(long, env = "BALLAST_HISTORY_MAX_BYTES", default_value = "2Gi", value_parser = bytes)]
    pub history_max_bytes: ByteCount,
}

/// A number of bytes, parsed from a quantity such as `512Mi`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteCount {
    text: String,
    pub(crate) bytes: u64,
}

impl Serialize for ByteCount {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl HistoryArgs {
    /// Returns the limits of the log's history.
    pub fn limits(&self) -> Limits {
        let limits =
            Limits { log_age_max: self.history.0, log_bytes_max: self.history_max_bytes.bytes, ..Limits::default() };
        match self.history_max_changes {
            None => limits,
            Some(most) => {
                let log_rows_max = most as usize;
                Limits { log_rows_max, log_rows_per_object: 0, ..limits }
            }
        }
    }
}

/// Parses a number of bytes that is at least 16 MiB.
pub(super) fn bytes(text: &str) -> Result<ByteCount, String> {
    at_least(BYTES_MIN, text).ok_or_else(|| "give a number of bytes of at least 16Mi, such as 512Mi".to_owned())
}

/// Parses the bytes of a namespace, at least 1 MiB.
pub(super) fn namespace_bytes(text: &str) -> Result<ByteCount, String> {
    at_least(1 << 20, text).ok_or_else(|| "give a number of bytes of at least 1Mi, such as 256Mi".to_owned())
}

fn at_least(least: u64, text: &str) -> Option<ByteCount> {
    let read = text.parse::<Quantity>().ok().and_then(|quantity| u64::try_from(quantity.units()).ok());
    read.filter(|bytes| *bytes >= least).map(|bytes| ByteCount { text: text.to_owned(), bytes })
}

fn history(text: &str) -> Result<GoDuration, String> {
    let read = text.parse::<GoDuration>().ok().filter(|history| (HISTORY_MIN..=HISTORY_MAX).contains(&history.0));
    read.ok_or_else(|| "give a duration from 1m to 8760h, such as 24h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_is_bounded_by_time_and_by_what_is_there_or_by_a_number() {
        let given = |history: &str, most| HistoryArgs {
            history: self::history(history).unwrap(),
            history_max_changes: most,
            history_max_bytes: bytes("512Mi").unwrap(),
        };
        let by_load = given("24h", None).limits();
        assert_eq!(by_load.log_age_max, Duration::from_secs(24 * 60 * 60));
        assert_eq!((by_load.log_rows(1_000), by_load.log_rows(1_000_000)), (200_000, 4_000_000));
        assert_eq!(by_load.log_bytes_max, 512 << 20);
        let by_number = given("90m", Some(5_000)).limits();
        assert_eq!((by_number.log_rows(1_000), by_number.log_rows(1_000_000)), (5_000, 5_000));
    }

    #[test]
    fn a_quota_of_bytes_is_a_quantity() {
        assert_eq!(bytes("2Gi").unwrap().bytes, 2 << 30);
        assert_eq!(bytes("16777216").unwrap().bytes, 16 << 20);
        for bad in ["", "1Mi", "-2Gi", "2 GB", "a lot"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_history_is_neither_a_moment_nor_forever() {
        for good in ["1m", "24h", "8760h"] {
            assert!(history(good).is_ok(), "{good}");
        }
        for bad in ["", "0s", "59s", "8761h", "-1h", "1d", "forever"] {
            assert!(history(bad).is_err(), "{bad}");
        }
    }
}
