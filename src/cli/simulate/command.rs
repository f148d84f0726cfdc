//! The command line of `simulate`: its flags, its files and its exit status.

use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::ValueEnum;
use flate2::read::GzDecoder;

use super::{Options, Output, Tally, simulate};
use crate::cli::AnswerIsNo;
use crate::cli::config::SchedulingProfile;
use crate::engine::karmada::Rules;

#[derive(clap::Args, Debug)]
pub struct Args {
    /// Files to read, one after the other; `-` is standard input, which is also the default
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Decide as Ballast does by default, or as Karmada's scheduler does
    #[arg(long, value_enum, default_value_t)]
    pub profile: SchedulingProfile,

    /// Format of the answers
    #[arg(short = 'o', long, value_enum, default_value_t)]
    pub output: Format,

    /// Add the reasons to the answers of `-o json`. Tables always have them
    #[arg(long)]
    pub trace: bool,

    /// Compare each answer with the `expect` of its case, and print only the differences. The exit
    /// status is 3 if there are any
    #[arg(long, conflicts_with = "trace")]
    pub check: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object on a line for each case
    #[default]
    Json,
    /// A table for people
    Table,
}

/// Answers every case. Fails at the end if a case could not be read.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let options = Options {
        rules: match args.profile {
            SchedulingProfile::Default => Rules::Default,
            SchedulingProfile::Karmada => Rules::Karmada,
        },
        output: match args.output {
            Format::Json => Output::Json,
            Format::Table => Output::Table,
        },
        trace: args.trace,
        check: args.check,
    };
    let standard_input = [PathBuf::from("-")];
    let files = if args.files.is_empty() { &standard_input[..] } else { &args.files };
    // Manifests of one fleet may be spread over several files. Recorded cases are independent.
    let mut text = String::new();
    for file in files {
        separate_documents(&mut text);
        if file.as_os_str() == "-" {
            io::stdin().read_to_string(&mut text).context("failed to read standard input")?;
        } else {
            text.push_str(&read_text(file).with_context(|| format!("failed to read {}", file.display()))?);
        }
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let Tally { cases, malformed, different } = simulate(&text, &options, &mut out)?;
    out.flush()?;
    if malformed > 0 {
        bail!("{malformed} could not be read");
    }
    if different > 0 {
        return Err(AnswerIsNo(format!("{different} of {cases} cases differ from what they expect")).into());
    }
    Ok(())
}

/// The first bytes of every gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Decompresses a recording if it is compressed.
fn read_text(file: &Path) -> io::Result<String> {
    let bytes = fs::read(file)?;
    let mut text = String::new();
    match bytes.starts_with(&GZIP_MAGIC) {
        true => GzDecoder::new(&*bytes).read_to_string(&mut text)?,
        false => (&*bytes).read_to_string(&mut text)?,
    };
    Ok(text)
}

/// What separates two files. JSON lines need a line break, and YAML manifests a separator that JSON
/// lines must not have.
fn separate_documents(text: &mut String) {
    if text.is_empty() {
        return;
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    if !text.trim_start().starts_with('{') {
        text.push_str("---\n");
    }
}
