//! Ages in kubectl's format: `5s`, `3m20s`, `2h`, `5d` (TA3).

/// Formats an age in seconds with one or two units, as kubectl does.
pub fn human_duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    match seconds {
        // Clocks of two machines may differ by a second. A larger difference is an error.
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds / MINUTE, "m", seconds % MINUTE, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(seconds / HOUR, "h", seconds / MINUTE % 60, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(seconds / DAY, "d", seconds / HOUR % 24, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(seconds / YEAR, "y", seconds / DAY % 365, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

fn two(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit}{small}{small_unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ta3_ages_read_as_kubectl_writes_them() {
        let (minute, hour, day, year) = (60, 3600, 86_400, 365 * 86_400);
        for (seconds, expected) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (1, "1s"),
            (119, "119s"),
            (2 * minute, "2m"),
            (3 * minute + 20, "3m20s"),
            (10 * minute - 1, "9m59s"),
            (10 * minute + 30, "10m"),
            (3 * hour - 1, "179m"),
            (3 * hour, "3h"),
            (3 * hour + minute, "3h1m"),
            (8 * hour - 1, "7h59m"),
            (8 * hour + minute, "8h"),
            (48 * hour - 1, "47h"),
            (2 * day, "2d"),
            (2 * day + hour, "2d1h"),
            (8 * day - 1, "7d23h"),
            (8 * day + hour, "8d"),
            (2 * year - 1, "729d"),
            (2 * year, "2y"),
            (2 * year + day, "2y1d"),
            (8 * year - 1, "7y364d"),
            (8 * year + day, "8y"),
        ] {
            assert_eq!(human_duration(seconds), expected, "{seconds}");
        }
    }
}
