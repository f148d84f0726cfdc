//! Tables that fit the terminal: names to the left, numbers to the right, and long texts wrapped in
//! their column. Without a terminal, the width is unlimited.
//!
//! Numbers cannot be wrapped. If the terminal is too narrow, a table with many of them omits
//! columns and names them below.

use unicode_width::UnicodeWidthStr;

use super::screen::{Screen, Tone};

/// Blanks between two columns.
const GAP: usize = 2;
/// Minimum width of a column.
const NARROWEST: usize = 8;
/// Columns of names. A wrapped name cannot be copied, so these keep their width, even if the lines
/// exceed the width of the terminal.
const NAMES: [&str; 5] = ["CLUSTER", "WORKLOAD", "NAME", "NAMESPACE", "REBALANCE"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

#[derive(Clone)]
pub struct Table {
    columns: Vec<(String, Side)>,
    rows: Vec<Vec<Cell>>,
    /// The columns that are omitted on a narrow terminal, the least important one first.
    spare: Vec<&'static str>,
}

#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    tone: Tone,
}

/// Returns a cell with text from objects, without control characters, which could change the
/// terminal.
pub fn cell(text: impl ToString) -> Cell {
    let text = text.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    Cell { text, tone: Tone::Plain }
}

impl Cell {
    pub fn tone(self, tone: Tone) -> Cell {
        Cell { tone, ..self }
    }
}

impl Table {
    pub fn new(columns: &[(&str, Side)]) -> Table {
        let columns = columns.iter().map(|(name, side)| ((*name).to_owned(), *side)).collect();
        Table { columns, rows: Vec::new(), spare: Vec::new() }
    }

    /// Sets the columns that are omitted on a narrow terminal, the least important one first.
    pub fn with_spare(self, columns: &[&'static str]) -> Table {
        Table { spare: columns.to_vec(), ..self }
    }

    pub fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// Removes columns that are empty in all rows.
    pub fn without_empty_columns(mut self) -> Table {
        for index in (0..self.columns.len()).rev() {
            if self.rows.iter().all(|row| row[index].text.is_empty()) {
                self.remove(index);
            }
        }
        self
    }

    fn remove(&mut self, index: usize) {
        self.columns.remove(index);
        self.rows.iter_mut().for_each(|row| drop(row.remove(index)));
    }

    /// Formats the table. Each line starts with two blanks.
    pub fn on(&self, screen: Screen) -> String {
        let mut table = self.clone();
        let mut left_out = Vec::new();
        for name in &self.spare {
            if screen.width.is_none_or(|width| table.wide(&table.widths(screen.width)) <= width) {
                break;
            }
            if let Some(index) = table.columns.iter().position(|(column, _)| column == name) {
                table.remove(index);
                left_out.push(*name);
            }
        }
        let mut text = table.lines(screen);
        if !left_out.is_empty() {
            let told = format!("The terminal is too narrow for {}.", left_out.join(", "));
            text = format!("{text}{}\n", screen.paint(Tone::Faint, screen.wrapped(&told, 2)));
        }
        text
    }

    /// Returns the width of the lines with these columns.
    fn wide(&self, widths: &[usize]) -> usize {
        GAP * widths.len() + widths.iter().sum::<usize>()
    }

    fn lines(&self, screen: Screen) -> String {
        let widths = self.widths(screen.width);
        let mut text = String::new();
        let head = self.columns.iter().map(|(name, _)| cell(name).tone(Tone::Faint)).collect();
        for row in std::iter::once(&head).chain(&self.rows) {
            self.write_row(row, &widths, screen, &mut text);
        }
        text
    }

    fn widths(&self, available: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|(name, _)| name.width()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.text.width());
            }
        }
        let Some(available) = available else { return widths };
        // The widest column is narrowed first.
        while self.wide(&widths) > available {
            let shrinkable = widths.iter().enumerate().filter(|(at, _)| {
                let (name, side) = &self.columns[*at];
                *side == Side::Left && !NAMES.contains(&&**name)
            });
            let Some((widest, _)) =
                shrinkable.filter(|(_, width)| **width > NARROWEST).max_by_key(|(_, width)| **width)
            else {
                break;
            };
            widths[widest] -= 1;
        }
        widths
    }

    fn write_row(&self, row: &[Cell], widths: &[usize], screen: Screen, text: &mut String) {
        let wrapped: Vec<Vec<String>> = row
            .iter()
            .zip(widths)
            .map(|(cell, &width)| match cell.text.width() <= width {
                true => vec![cell.text.clone()],
                false => textwrap::wrap(&cell.text, width).into_iter().map(|line| line.into_owned()).collect(),
            })
            .collect();
        let lines = wrapped.iter().map(Vec::len).max().unwrap_or_default().max(1);
        for number in 0..lines {
            let mut line = String::new();
            for (at, cell_lines) in wrapped.iter().enumerate() {
                let part = cell_lines.get(number).map_or("", String::as_str);
                let blank = " ".repeat(widths[at].saturating_sub(part.width()));
                let painted = screen.paint(row[at].tone, part);
                let (before, after) = match self.columns[at].1 {
                    _ if part.is_empty() => ("", &*blank),
                    Side::Left => ("", &*blank),
                    Side::Right => (&*blank, ""),
                };
                line.push_str(&" ".repeat(GAP));
                line.push_str(before);
                line.push_str(if part.is_empty() { "" } else { &painted });
                line.push_str(after);
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&[("CLUSTER", Side::Left), ("FREE", Side::Right), ("NOTE", Side::Left)]);
        table.row(vec![cell("member1"), cell(12), cell("")]);
        table.row(vec![cell("member10"), cell(3), cell("a taint that nobody tolerates is in the way")]);
        table
    }

    #[test]
    fn numbers_stand_below_each_other_and_no_line_ends_with_blanks() {
        let expected = "  CLUSTER   FREE  NOTE\n  member1     12\n  \
                        member10     3  a taint that nobody tolerates is in the way\n";
        assert_eq!(table().on(Screen::default()), expected);
    }

    #[test]
    fn a_narrow_terminal_wraps_the_widest_column_and_no_line_is_wider() {
        let shown = table().on(Screen { width: Some(40), colored: false });
        assert!(shown.lines().all(|line| line.width() <= 40), "{shown}");
        let words: Vec<&str> = shown.split_whitespace().collect();
        assert!(words.ends_with(&["is", "in", "the", "way"]), "{shown}");
    }

    #[test]
    fn ng4_a_name_is_never_broken() {
        let name = "prod-eu-west-1-payments-blue-cluster-07";
        let mut table = Table::new(&[("CLUSTER", Side::Left), ("NOTE", Side::Left)]);
        table.row(vec![cell(name), cell("it has been lost for a while and nothing new goes there")]);
        let shown = table.on(Screen { width: Some(40), colored: false });
        assert!(shown.lines().nth(1).unwrap().contains(name), "{shown}");
    }

    #[test]
    fn a_terminal_that_is_too_narrow_for_the_numbers_goes_without_some_and_says_so() {
        let mut table = Table::new(&[("CLUSTER", Side::Left), ("REPLICAS", Side::Right), ("SINCE", Side::Right)])
            .with_spare(&["SINCE", "REPLICAS"]);
        table.row(vec![cell("member1"), cell("1234567890"), cell("2026-11-22T21:52:15Z")]);
        let all = table.on(Screen { width: Some(45), colored: false });
        assert!(all.contains("21:52:15Z") && !all.contains("narrow"), "{all}");
        let shown = table.on(Screen { width: Some(40), colored: false });
        let expected = "  CLUSTER    REPLICAS\n  member1  1234567890\nThe terminal is too narrow for SINCE.\n";
        assert_eq!(shown, expected);
        assert!(table.on(Screen::default()).contains("21:52:15Z"), "a file takes all");
    }

    #[test]
    fn control_characters_of_objects_do_not_reach_the_terminal() {
        let mut table = Table::new(&[("NAME", Side::Left)]);
        table.row(vec![cell("a\u{1b}[2Jb\nc")]);
        assert_eq!(table.on(Screen::default()), "  NAME\n  a [2Jb c\n");
    }
}
