//! Reports on standard error the work of a command before its output.

use std::io::{IsTerminal, Write};
use std::time::Instant;

use super::rights::ROLE;
use ballast_api::karmada::work::v1alpha2::BINDINGS;
use ballast_attach::ReflectorScope;
use ballast_rebalance::record::CLUSTERS;
use ballast_watch::View;

/// One sentence, and on a terminal a line below it with the progress of reading.
pub struct ProgressLine {
    started: Instant,
    is_terminal: bool,
    shown: String,
}

impl ProgressLine {
    pub fn begin(url: &str) -> ProgressLine {
        let line = ProgressLine {
            started: Instant::now(),
            is_terminal: std::io::stderr().is_terminal(),
            shown: String::new(),
        };
        tell(&format!(
            "{url} is a Karmada without Ballast: reading it into this command, which writes nothing there\n"
        ));
        line
    }

    pub fn show(&mut self, view: &View) {
        let text = format!("read {}", counted(view));
        if self.is_terminal && text != self.shown {
            tell(&format!("\r\u{1b}[2K{text}"));
            self.shown = text;
        }
    }

    pub fn end(&mut self, view: &View) {
        if self.is_terminal {
            tell(&format!("\r\u{1b}[2Kread {} in {:.1} s\n", counted(view), self.started.elapsed().as_secs_f32()));
            self.shown.clear();
        }
    }
}

/// Prints how much is read, if that is not everything.
pub fn tell_bounds(scope: &ReflectorScope) {
    let namespace = scope.namespace.as_deref().unwrap_or_default();
    let without: Vec<&str> = scope.without.iter().map(|kind| kind.as_str()).collect();
    let without = match without.is_empty() {
        true => String::new(),
        false => format!(", and without {}", without.join(" and ")),
    };
    tell(&format!(
        "your rights end at namespace {namespace}: the answer is about what is there alone{without}; {ROLE} has the \
         rights for all\n"
    ));
}

impl Drop for ProgressLine {
    /// Ends a started line, whatever is printed next.
    fn drop(&mut self) {
        if !self.shown.is_empty() {
            tell("\n");
        }
    }
}

fn tell(text: &str) {
    // Standard error may be closed; the progress is then lost.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Returns the number of clusters and bindings read so far.
pub fn objects(view: &View) -> usize {
    bindings(view) + view.count(CLUSTERS, None)
}

fn bindings(view: &View) -> usize {
    BINDINGS.into_iter().map(|kind| view.count(kind, None)).sum()
}

/// Returns a text such as `1,200 bindings and 3 clusters`.
fn counted(view: &View) -> String {
    format!("{} and {}", count(bindings(view), "binding"), count(view.count(CLUSTERS, None), "cluster"))
}

fn count(number: usize, singular: &str) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    format!("{text} {singular}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_read_them() {
        let told = [0, 1, 999, 1_000, 12_345, 100_000, 1_234_567].map(|number| count(number, "binding"));
        let expected =
            ["0 bindings", "1 binding", "999 bindings", "1,000 bindings", "12,345 bindings", "100,000 bindings"];
        assert_eq!(told[..6], expected);
        assert_eq!(told[6], "1,234,567 bindings");
    }
}
