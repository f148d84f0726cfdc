//! Properties of the terminal: its width, and its support for colours.

use std::fmt::Display;
use std::io::IsTerminal;

use anstyle::{AnsiColor, Style};

/// Minimum width that tables are fitted to. Below it the terminal wraps lines.
const WIDTH_MIN: usize = 40;

#[derive(Clone, Copy, Debug, Default)]
pub struct Screen {
    /// `None`: not a terminal, so nothing is fitted.
    pub width: Option<usize>,
    pub colored: bool,
}

/// The meaning of a text, shown as a colour. A colour adds no information to the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
    Careful,
    Faint,
    Strong,
}

impl Screen {
    pub fn of_stdout(no_color: bool) -> Screen {
        let out = std::io::stdout();
        let is_terminal = out.is_terminal();
        let width = terminal_size::terminal_size_of(&out).map(|(width, _)| usize::from(width.0).max(WIDTH_MIN));
        let refused = no_color || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        Screen { width, colored: is_terminal && !refused && !is_dumb }
    }

    /// Returns whether standard output is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.width.is_some()
    }

    pub fn paint(&self, tone: Tone, text: impl Display) -> String {
        let style = match tone {
            Tone::Plain => return text.to_string(),
            _ if !self.colored => return text.to_string(),
            Tone::Good => Style::new().fg_color(Some(AnsiColor::Green.into())),
            Tone::Bad => Style::new().fg_color(Some(AnsiColor::Red.into())),
            Tone::Careful => Style::new().fg_color(Some(AnsiColor::Yellow.into())),
            Tone::Faint => Style::new().dimmed(),
            Tone::Strong => Style::new().bold(),
        };
        format!("{style}{text}{style:#}")
    }

    /// Wraps prose at the terminal's width. Further lines are indented by `indent` blanks.
    pub fn wrapped(&self, text: &str, indent: usize) -> String {
        let Some(width) = self.width else { return text.to_owned() };
        let further = " ".repeat(indent);
        let options = textwrap::Options::new(width).subsequent_indent(&further).break_words(false);
        textwrap::fill(text, options)
    }
}

/// Formats objects as JSON or YAML.
pub fn data(value: &impl serde::Serialize, is_yaml: bool) -> anyhow::Result<String> {
    Ok(if is_yaml { serde_saphyr::to_string(value)? } else { format!("{}\n", serde_json::to_string_pretty(value)?) })
}
