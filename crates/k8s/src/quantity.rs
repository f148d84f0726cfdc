//! Kubernetes quantities (`500m`, `1.5Gi`, `2e3`) as exact integers.
//!
//! The unit is 10⁻⁹, the finest of Kubernetes. Finer amounts are rounded away from zero, and
//! amounts beyond ±(2⁶³-1) whole units are set to that bound, as upstream does. `Notation` formats
//! an amount as Kubernetes does.

use std::fmt;
use std::str::FromStr;

/// An amount of some resource. Ordered by size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    nanos: i128,
}

/// The error for a text that is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$', but this is {0:?}"
)]
pub struct Malformed(pub Box<str>);

const NANOS: i128 = 1_000_000_000;
const LARGEST: i128 = i64::MAX as i128 * NANOS;

impl Quantity {
    pub const ZERO: Quantity = Quantity { nanos: 0 };

    /// Returns an amount of whole units, within the bounds.
    pub fn from_units(units: i64) -> Quantity {
        Quantity { nanos: (i128::from(units) * NANOS).clamp(-LARGEST, LARGEST) }
    }

    /// Returns an amount of thousandths.
    pub fn from_millis(millis: i64) -> Quantity {
        Quantity { nanos: i128::from(millis) * (NANOS / 1000) }
    }

    /// Returns the amount in whole units. Fractions are rounded away from zero.
    pub fn units(self) -> i64 {
        self.scaled(NANOS)
    }

    /// Returns the amount in thousandths, within the bounds of `i64`. Finer fractions are rounded
    /// away from zero.
    pub fn millis(self) -> i64 {
        self.scaled(NANOS / 1000)
    }

    /// Returns this amount minus `other`, within the bounds.
    pub fn minus(self, other: Quantity) -> Quantity {
        Quantity { nanos: (self.nanos - other.nanos).clamp(-LARGEST, LARGEST) }
    }

    /// Returns the sum of this amount and `other`, within the bounds.
    pub fn plus(self, other: Quantity) -> Quantity {
        Quantity { nanos: (self.nanos + other.nanos).clamp(-LARGEST, LARGEST) }
    }

    /// Returns this amount times `count`, within the bounds.
    pub fn times(self, count: i64) -> Quantity {
        Quantity { nanos: self.nanos.saturating_mul(i128::from(count)).clamp(-LARGEST, LARGEST) }
    }

    /// Returns whether the amount is one of the bounds, so that it may represent a larger one.
    pub fn is_at_bound(self) -> bool {
        self.nanos.abs() == LARGEST
    }

    /// Returns the exact amount, in units of 10⁻⁹.
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    fn scaled(self, unit: i128) -> i64 {
        let away_from_zero = if self.nanos % unit == 0 { 0 } else { self.nanos.signum() };
        let scaled = self.nanos / unit + away_from_zero;
        scaled.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}

impl FromStr for Quantity {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Quantity, Malformed> {
        parse(text).ok_or_else(|| Malformed(text.into()))
    }
}

fn parse(text: &str) -> Option<Quantity> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let number_end = unsigned.bytes().position(|b| !b.is_ascii_digit() && b != b'.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(number_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let scale = Scale::parse(suffix)?;
    let nanos = scale.apply(whole.bytes().chain(fraction.bytes()).map(|digit| digit - b'0'), fraction.len());
    Some(Quantity { nanos: if negative { -nanos } else { nanos } })
}

/// The factor of a suffix.
enum Scale {
    /// 10^n
    Ten(i32),
    /// 2^n
    Two(u32),
}

impl Scale {
    fn parse(suffix: &str) -> Option<Scale> {
        Some(match suffix {
            "" => Scale::Ten(0),
            "n" => Scale::Ten(-9),
            "u" => Scale::Ten(-6),
            "m" => Scale::Ten(-3),
            "k" => Scale::Ten(3),
            "M" => Scale::Ten(6),
            "G" => Scale::Ten(9),
            "T" => Scale::Ten(12),
            "P" => Scale::Ten(15),
            "E" => Scale::Ten(18),
            "Ki" => Scale::Two(10),
            "Mi" => Scale::Two(20),
            "Gi" => Scale::Two(30),
            "Ti" => Scale::Two(40),
            "Pi" => Scale::Two(50),
            "Ei" => Scale::Two(60),
            _ => Scale::Ten(suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
        })
    }

    /// Returns the value of these decimal digits in units of 10⁻⁹, at most [`LARGEST`]. `fraction`
    /// is the number of digits after the point.
    fn apply(&self, digits: impl Iterator<Item = u8>, fraction: usize) -> i128 {
        // A mantissa of 30 digits times 2^60 overflows. Beyond 20 significant digits it only
        // matters that the bound is reached, or that digits were dropped.
        const MANTISSA_MAX: i128 = 10_i128.pow(19);
        let (mut mantissa, mut dropped, mut inexact) = (0_i128, 0_i64, false);
        for digit in digits {
            if mantissa >= MANTISSA_MAX {
                dropped += 1;
                inexact |= digit != 0;
            } else {
                mantissa = mantissa * 10 + i128::from(digit);
            }
        }
        let mut exponent = 9 - fraction as i64 + dropped;
        match *self {
            Scale::Ten(power) => exponent += i64::from(power),
            // 10^20 * 2^60 fits into 127 bits. The powers of ten are applied after it.
            Scale::Two(power) => mantissa = mantissa.saturating_mul(1 << power),
        }
        while exponent > 0 && mantissa != 0 && mantissa < LARGEST {
            mantissa *= 10;
            exponent -= 1;
        }
        while exponent < 0 && mantissa != 0 {
            inexact |= mantissa % 10 != 0;
            mantissa /= 10;
            exponent += 1;
        }
        (mantissa + i128::from(inexact)).min(LARGEST)
    }
}

/// The notation of an amount: its set of suffixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notation {
    /// `500m`, `2k`
    #[default]
    Tens,
    /// `2Gi`
    Twos,
    /// `2e3`
    Exponent,
}

impl Notation {
    /// Returns the notation of a quantity.
    pub fn of(text: &str) -> Notation {
        match text.find(['e', 'E']) {
            _ if text.ends_with('i') => Notation::Twos,
            Some(place) if place + 1 < text.len() => Notation::Exponent,
            _ => Notation::Tens,
        }
    }

    /// Formats the amount in canonical form: no fraction, and the largest suffix that allows it. As
    /// upstream, amounts that powers of two cannot represent exactly, and small ones, are formatted
    /// with powers of ten.
    pub fn write(self, amount: Quantity) -> String {
        const TENS: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        const TWOS: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        fn reduced(mut number: i128, by: i128, steps: usize) -> (i128, usize) {
            let mut step = 0;
            while number != 0 && number % by == 0 && step + 1 < steps {
                (number, step) = (number / by, step + 1);
            }
            (number, step)
        }
        let Quantity { nanos } = amount;
        let is_whole = nanos % NANOS == 0;
        if nanos == 0 {
            return "0".to_owned();
        }
        if self == Notation::Twos && is_whole && nanos.abs() >= 1024 * NANOS {
            let (number, step) = reduced(nanos / NANOS, 1024, TWOS.len());
            return format!("{number}{}", TWOS[step]);
        }
        let (number, step) = reduced(nanos, 1000, TENS.len());
        match self {
            Notation::Exponent if step != 3 => format!("{number}e{}", (step as i64 - 3) * 3),
            _ => format!("{number}{}", TENS[step]),
        }
    }
}

impl fmt::Display for Quantity {
    /// Formats plain decimal units, with no more digits than the amount needs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.nanos.unsigned_abs() / NANOS as u128, self.nanos.unsigned_abs() % NANOS as u128);
        if self.nanos < 0 {
            f.write_str("-")?;
        }
        if rest == 0 {
            return write!(f, "{whole}");
        }
        write!(f, "{whole}.{}", format!("{rest:09}").trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    #[test]
    fn suffixes_scale_in_tens_and_in_twos() {
        for (text, millis) in [
            ("1", 1000),
            ("500m", 500),
            ("0.5", 500),
            (".5", 500),
            ("5.", 5000),
            ("1k", 1_000_000),
            ("2e3", 2_000_000),
            ("2E-3", 2),
            ("1Ki", 1_024_000),
            ("1.5Gi", 1_610_612_736_000),
            ("-250m", -250),
            ("+3", 3000),
        ] {
            assert_eq!(quantity(text).millis(), millis, "{text}");
        }
    }

    #[test]
    fn fractions_round_away_from_zero() {
        assert_eq!(quantity("1.0001").millis(), 1001);
        assert_eq!(quantity("100m").units(), 1);
        assert_eq!(quantity("-100m").units(), -1);
        assert_eq!(quantity("1n").millis(), 1);
        assert_eq!(quantity("0.0000000001").millis(), 1);
        assert_eq!(quantity("0").units(), 0);
    }

    #[test]
    fn sizes_beyond_the_bound_are_held_at_it() {
        for text in ["9223372036854775807", "9223372036854775808", "100Ei", "1e400", "99999999999999999999999999999999"]
        {
            assert_eq!(quantity(text).units(), i64::MAX, "{text}");
        }
        assert_eq!(quantity("-100Ei").units(), -i64::MAX);
        assert_eq!(quantity("1e-2147483647").units(), 1);
        assert_eq!(quantity("0e2147483647").units(), 0);
        assert_eq!(quantity("0.00000000000000000000000000000000000000001Ei").units(), 1);
        assert_eq!(quantity("9223372036854775806").units(), i64::MAX - 1);
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in
            ["", "-", ".", "1.2.3", "abc", "1x", "1 Gi", "0x10", "1ki", "1e", "1e1.5", "--1", "１", "1e99999999999"]
        {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
    }

    #[test]
    fn it_is_printed_in_plain_units() {
        assert_eq!(quantity("1500m").to_string(), "1.5");
        assert_eq!(quantity("1Ki").to_string(), "1024");
        assert_eq!(quantity("-1n").to_string(), "-0.000000001");
    }

    #[test]
    fn amounts_are_written_as_kubernetes_writes_them() {
        for (amount, notation, written) in [
            ("0.5", Notation::Tens, "500m"),
            ("2000m", Notation::Tens, "2"),
            ("12000", Notation::Tens, "12k"),
            ("1n", Notation::Tens, "1n"),
            ("-1500m", Notation::Tens, "-1500m"),
            ("3072Mi", Notation::Twos, "3Gi"),
            ("1000", Notation::Twos, "1k"),
            ("1500", Notation::Twos, "1500"),
            ("1Gi", Notation::Tens, "1073741824"),
            ("0.5", Notation::Twos, "500m"),
            ("2000", Notation::Exponent, "2e3"),
            ("20", Notation::Exponent, "20"),
            ("0", Notation::Twos, "0"),
        ] {
            assert_eq!(notation.write(quantity(amount)), written, "{amount} {notation:?}");
        }
        for (text, notation) in
            [("2Gi", Notation::Twos), ("2e3", Notation::Exponent), ("2E", Notation::Tens), ("5m", Notation::Tens)]
        {
            assert_eq!(Notation::of(text), notation, "{text}");
            assert_eq!(Notation::of(text).write(quantity(text)), text);
        }
    }

    #[test]
    fn sums_and_products_stay_within_the_bounds() {
        assert_eq!(quantity("1500m").plus(quantity("500m")).units(), 2);
        assert_eq!(quantity("250m").times(-4), quantity("-1"));
        assert!(quantity("8E").times(i64::MAX).is_at_bound() && !quantity("8E").is_at_bound());
        assert_eq!(quantity("8E").plus(quantity("8E")).units(), i64::MAX);
    }
}
