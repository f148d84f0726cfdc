//! Compares the output of a command with the output on a page, ignoring parts that differ in each
//! run.

use std::sync::LazyLock;

use regex::Regex;

use super::page::Varies;

/// The mark of omitted lines on a page.
const LEFT_OUT: [&str; 2] = ["...", "[…]"];

/// Patterns of varying text, with their replacements.
static VARYING: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let rules = [
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
        (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UID"),
        (r"\b[0-9a-f]{32}\b", "SUM"),
        (r"127\.0\.0\.1:\d{4,5}\b", "127.0.0.1:PORT"),
        (r"\b(\d+[ydhms])+\b", "AGE"),
        (r"\b\d+\.\d+ s\b", "N s"),
        (r"-undo-[a-z0-9]{5}\b", "-undo-ID"),
        (r"\b(\w*[rR]evision:?) \W?\d+\W?", "$1 N"),
        // `ballast history` begins with the revision.
        (r"^\d+ TIME", "N TIME"),
        (r"\bkill -9 \d+", "kill -9 N"),
    ];
    rules.into_iter().map(|(rule, stands)| (Regex::new(rule).unwrap(), stands)).collect()
});

static NUMBER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\d+(\.\d+)?").unwrap());

/// Lines of background programs, at varying times: a server's readiness, and the progress of a
/// rebalance.
static BESIDE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(ballast is ready at .*|Planning|(Planned|Running) \d+ of \d+ moves done, \d+ in progress)$").unwrap()
});

/// Returns the lines without alignment spaces.
pub fn even<'t>(lines: impl Iterator<Item = &'t str>, varies: Varies) -> Vec<String> {
    let even = |line: &str| {
        let mut line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        if BESIDE.is_match(&line) {
            return None;
        }
        for (rule, stands) in VARYING.iter() {
            line = rule.replace_all(&line, *stands).into_owned();
        }
        if varies.numbers {
            line = NUMBER.replace_all(&line, "N").into_owned();
        }
        (!line.is_empty()).then_some(line)
    };
    let mut lines: Vec<String> = lines.filter_map(even).collect();
    if varies.order {
        lines.sort();
    }
    lines
}

pub fn leaves_out(shown: &[String]) -> bool {
    shown.iter().any(|line| LEFT_OUT.contains(&line.trim()))
}

/// Returns whether `got` matches the page: between omitted parts, lines must be consecutive.
pub fn is_shown(got: &[String], shown: &[String]) -> bool {
    let parts: Vec<&[String]> = shown.split(|line| LEFT_OUT.contains(&line.as_str())).collect();
    let [first, rest @ ..] = parts.as_slice() else { unreachable!("a split has a first part") };
    let Some(mut left) = got.strip_prefix(*first) else { return false };
    let Some((last, middle)) = rest.split_last() else { return left.is_empty() };
    for part in middle {
        let Some(at) = (0..=left.len()).find(|at| left[*at..].starts_with(part)) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

#[test]
fn parts_between_what_is_left_out_come_in_their_order() {
    let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let got = lines("a b c d e");
    for shown in ["a b c d e", "a ... e", "... c ...", "... d e", "a ... c ... e", "a b ..."] {
        assert!(is_shown(&got, &lines(shown)), "{shown}");
    }
    for shown in ["a b c d", "b ... e", "a ... d c ... e", "... d", "a ... e ... d ..."] {
        assert!(!is_shown(&got, &lines(shown)), "{shown}");
    }
}

#[test]
fn times_ages_ports_and_ids_are_evened_out_and_counts_are_not() {
    let even = |line: &str, numbers| even([line].into_iter(), Varies { numbers, order: false }).join("\n");
    assert_eq!(even("  member1  True   2y223d  8/32", false), "member1 True AGE 8/32");
    assert_eq!(even("https://127.0.0.1:7443 2026-11-26T15:30:14Z", false), "https://127.0.0.1:PORT TIME");
    assert_eq!(even("        12  2026-11-26T15:30:14Z   4s  x", false), "N TIME AGE x");
    assert_eq!(even("revision: \"3048\"", false), "revision: N");
    assert_eq!(even("2 of 3 over", true), "N of N over");
    assert_eq!(even("Planned    0 of 1 moves done, 0 in progress", false), "");
}
