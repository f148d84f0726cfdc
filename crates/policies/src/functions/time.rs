//! Timestamps and durations.

use std::sync::LazyLock;

use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};
use regex::Regex;

use super::super::fault::Fault;
use super::super::value::Value;
use super::standard::one;
use super::{Outcome, Table};

/// The syntax of a timestamp in Go. jiff accepts other forms as well.
static RFC_3339: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:[0-5]\d([.,]\d+)?(Z|[+-]\d\d:\d\d)$";
    Regex::new(pattern).expect("it is well formed")
});

pub const GLOBALS: Table = &[
    ("timestamp", |_, args| match one(args)? {
        Value::Timestamp(time) => Ok(Value::Timestamp(*time)),
        Value::String(text) => {
            let read = text.as_str().parse::<Timestamp>().ok().filter(|_| RFC_3339.is_match(text.as_str()));
            read.map(Value::Timestamp).ok_or_else(|| Fault::no_conversion("google.protobuf.Timestamp"))
        }
        Value::Int(seconds) => {
            Timestamp::from_second(*seconds).map(Value::Timestamp).map_err(|_| Fault::new("timestamp overflow"))
        }
        _ => Err(Fault::no_overload()),
    }),
    ("duration", |_, args| match one(args)? {
        Value::Duration(span) => Ok(Value::Duration(*span)),
        Value::String(text) => {
            let none = || Fault::no_conversion("google.protobuf.Duration");
            parse_duration(text.as_str()).map(Value::Duration).ok_or_else(none)
        }
        Value::Int(nanos) => Ok(Value::Duration(SignedDuration::from_nanos(*nanos))),
        _ => Err(Fault::no_overload()),
    }),
];

pub const METHODS: Table = &[
    ("getFullYear", |_, args| part(args, |time| i64::from(time.year()))),
    ("getMonth", |_, args| part(args, |time| i64::from(time.month()) - 1)),
    ("getDate", |_, args| part(args, |time| i64::from(time.day()))),
    ("getDayOfMonth", |_, args| part(args, |time| i64::from(time.day()) - 1)),
    ("getDayOfWeek", |_, args| part(args, |time| i64::from(time.weekday().to_sunday_zero_offset()))),
    ("getDayOfYear", |_, args| part(args, |time| i64::from(time.day_of_year()) - 1)),
    ("getHours", |_, args| match args {
        [Value::Duration(span)] => Ok(Value::Int(span.as_hours())),
        _ => part(args, |time| i64::from(time.hour())),
    }),
    ("getMinutes", |_, args| match args {
        [Value::Duration(span)] => Ok(Value::Int(span.as_mins())),
        _ => part(args, |time| i64::from(time.minute())),
    }),
    ("getSeconds", |_, args| match args {
        [Value::Duration(span)] => Ok(Value::Int(span.as_secs())),
        _ => part(args, |time| i64::from(time.second())),
    }),
    ("getMilliseconds", |_, args| match args {
        [Value::Duration(span)] => Ok(Value::Int(i64::from(span.subsec_millis()))),
        _ => part(args, |time| i64::from(time.millisecond())),
    }),
];

/// Returns a part of a timestamp, in UTC or in the zone of the second argument.
fn part<'a>(args: &[Value<'a>], read: impl Fn(&Zoned) -> i64) -> Outcome<'a> {
    let (time, zone) = match args {
        [Value::Timestamp(time)] => (time, TimeZone::UTC),
        [Value::Timestamp(time), Value::String(name)] => (time, zone(name.as_str())?),
        _ => return Err(Fault::no_overload()),
    };
    Ok(Value::Int(read(&time.to_zoned(zone))))
}

/// Parses the name of a zone of the database, or an offset such as `-07:00`.
fn zone(name: &str) -> Result<TimeZone, Fault> {
    let unknown = || Fault::new(format!("unknown time zone {name}"));
    let Some((hours, minutes)) = name.split_once(':') else { return TimeZone::get(name).map_err(|_| unknown()) };
    let (hours, minutes): (i32, i32) = (hours.parse().map_err(|_| unknown())?, minutes.parse().map_err(|_| unknown())?);
    let minutes = if name.starts_with('-') { -minutes } else { minutes };
    let offset = Offset::from_seconds(hours.saturating_mul(3600) + minutes.saturating_mul(60));
    offset.map(TimeZone::fixed).map_err(|_| unknown())
}

/// Parses a duration as Go does: `1h30m`, `-1.5s`, `100ms`.
pub fn parse_duration(text: &str) -> Option<SignedDuration> {
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    let mut nanos: i128 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.bytes().position(|byte| !byte.is_ascii_digit() && byte != b'.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let (unit, factor): (&str, i128) =
            [("ns", 1), ("us", 1_000), ("µs", 1_000), ("μs", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)]
                .into_iter()
                .chain([("m", 60_000_000_000), ("h", 3_600_000_000_000)])
                .find(|(unit, _)| after.starts_with(unit) && !(*unit == "m" && after.starts_with("ms")))?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()?.into() };
        nanos = nanos.checked_add(whole.checked_mul(factor)?)?;
        let mut scale = factor;
        for digit in fraction.bytes() {
            scale /= 10;
            nanos += i128::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?) * scale;
        }
        rest = &after[unit.len()..];
    }
    let nanos = i64::try_from(if is_negative { -nanos } else { nanos }).ok()?;
    Some(SignedDuration::from_nanos(nanos))
}
