//! Durations in Go's format: `1m30s`, `1.5h`, `500ms`, `0`.

use std::time::Duration;

/// Parses a duration with an optional sign, as Go does. A negative duration becomes zero.
pub fn parse_signed(text: &str) -> Option<Duration> {
    match text.strip_prefix(['+', '-']) {
        None => parse(text),
        Some("") => None,
        Some(amount) => parse(amount).map(|it| if text.starts_with('-') { Duration::ZERO } else { it }),
    }
}

/// Parses a duration without a sign.
pub fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c| !is_digit(c))?);
        let (unit, remaining) = after.split_at(after.find(is_digit).unwrap_or(after.len()));
        let unit_seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * unit_seconds;
        rest = remaining;
    }
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_sums_of_numbers_with_units() {
        for (text, expected) in [
            ("5s", Some(5_000)),
            ("1m30s", Some(90_000)),
            ("0.5s", Some(500)),
            ("500ms", Some(500)),
            ("0", Some(0)),
            ("", Some(0)),
            ("5", None),
            ("s", None),
            ("-1s", None),
            ("1d", None),
        ] {
            assert_eq!(parse(text).map(|it| it.as_millis()), expected, "{text}");
        }
    }

    #[test]
    fn li1_a_negative_duration_counts_as_zero() {
        for (text, expected) in
            [("5s", Some(5_000)), ("-1s", Some(0)), ("+1s", Some(1_000)), ("-", None), ("-x", None), ("--1s", None)]
        {
            assert_eq!(parse_signed(text).map(|it| it.as_millis()), expected, "{text}");
        }
    }
}
