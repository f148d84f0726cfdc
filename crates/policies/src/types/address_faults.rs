//! The reasons why a text is not an IP address, with the messages of Go's `netip.ParseAddr`.

/// A reason, with the rest of the text from the position of the error.
type Why<'a> = (&'static str, Option<&'a str>);

/// Returns the full message for a text that is not an address.
pub fn why_no_address(text: &str) -> String {
    let (why, rest) = match text.find(['.', ':', '%']).map(|at| &text[at..=at]) {
        Some(".") => of_v4(text),
        Some(":") => of_v6(text),
        Some(_) => ("missing IPv6 address", None),
        None => ("unable to parse IP", None),
    };
    match rest {
        Some(rest) => format!("ParseAddr({text:?}): {why} (at {rest:?})"),
        None => format!("ParseAddr({text:?}): {why}"),
    }
}

fn of_v4(text: &str) -> Why<'_> {
    let mut rest = text;
    for field in 0.. {
        let digits = rest.len() - rest.trim_start_matches(|it: char| it.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        if number.len() > 1 && number.starts_with('0') {
            return ("IPv4 field has octet with leading zero", None);
        }
        if !number.is_empty() && number.parse::<u8>().is_err() {
            return ("IPv4 field has value >255", None);
        }
        let Some(next) = after.strip_prefix('.') else {
            if !after.is_empty() {
                return ("unexpected character", Some(after));
            }
            return (if field < 3 { "IPv4 address too short" } else { "unable to parse IP" }, None);
        };
        if number.is_empty() || next.is_empty() {
            return ("IPv4 field must have at least one digit", Some(after));
        }
        if field == 3 {
            return ("IPv4 address too long", None);
        }
        rest = next;
    }
    ("unable to parse IP", None)
}

fn of_v6(text: &str) -> Why<'_> {
    let (mut fields, mut has_gap) = (0, text.starts_with("::"));
    let mut rest = text.strip_prefix("::").unwrap_or(text);
    while fields < 8 && !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|it: char| it.is_ascii_hexdigit()).len();
        if digits > 4 {
            return ("each group must have 4 or less digits", Some(rest));
        }
        if digits == 0 {
            return ("each colon-separated field must have at least one digit", Some(rest));
        }
        if rest[digits..].starts_with('.') {
            if !has_gap && fields != 6 {
                return ("embedded IPv4 address must replace the final 2 fields of the address", Some(rest));
            }
            if fields > 6 {
                return ("too many hex fields to fit an embedded IPv4 at the end of the address", Some(rest));
            }
            return of_v4(rest);
        }
        fields += 1;
        rest = &rest[digits..];
        let Some(next) = rest.strip_prefix(':') else {
            if !rest.is_empty() {
                return ("unexpected character, want colon", Some(rest));
            }
            break;
        };
        if next.is_empty() {
            return ("colon must be followed by more characters", Some(rest));
        }
        rest = next;
        if let Some(next) = rest.strip_prefix(':') {
            if has_gap {
                return ("multiple :: in address", Some(rest));
            }
            (has_gap, rest) = (true, next);
        }
    }
    match rest.is_empty() {
        false => ("trailing garbage after address", Some(rest)),
        true if has_gap => ("the :: must expand to at least one field of zeros", None),
        true => ("address string too short", None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ad20_a_text_that_is_no_address_is_refused_in_the_words_of_go() {
        for (text, why) in [
            ("10.0.0.300", "IPv4 field has value >255"),
            ("10.0.0.01", "IPv4 field has octet with leading zero"),
            ("10.0.0", "IPv4 address too short"),
            ("10.0.0.1.2", "IPv4 address too long"),
            ("10..0.1", "IPv4 field must have at least one digit (at \".0.1\")"),
            ("10.0.0.x", "unexpected character (at \"x\")"),
            ("x", "unable to parse IP"),
            ("", "unable to parse IP"),
            ("%eth0", "missing IPv6 address"),
            ("1:2:3", "address string too short"),
            ("1::2::3", "multiple :: in address (at \":3\")"),
            ("12345::", "each group must have 4 or less digits (at \"12345::\")"),
            ("1:2:3:4:5:6:7:8:9", "trailing garbage after address (at \"9\")"),
            ("1::2:g", "each colon-separated field must have at least one digit (at \"g\")"),
            ("1:", "colon must be followed by more characters (at \":\")"),
        ] {
            assert_eq!(why_no_address(text), format!("ParseAddr({text:?}): {why}"));
        }
    }
}
