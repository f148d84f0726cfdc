//! The command line of `simulate`: its flags, its files and its exit status.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;
use flate2::read::GzDecoder;

use super::{Options, Output, Patch, Tally, simulate};
use crate::cli::AnswerIsNo;
use crate::cli::output;
use ballast_engine::karmada::Rules;
use ballast_node::UsageError;
use ballast_node::config::SchedulingProfile;
use ballast_rebalance::suggestion::with_suggestion;

#[derive(clap::Args, Debug)]
pub struct Args {
    /// Files to read, one after the other, or folders with .yaml, .yml and .json files; `-` is
    /// standard input, which is also the default
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Scheduling profile: decide like Ballast by default, or like Karmada's scheduler
    #[arg(long, alias = "profile", value_enum, value_name = "PROFILE", default_value_t)]
    pub scheduling_profile: SchedulingProfile,

    /// Merge this patch into every object of a resource, or into one, before any decision:
    /// `clusters=status.yaml`, `clusters/member1=status.yaml`
    #[arg(long = "patch", value_name = "RESOURCE[/NAME]=FILE")]
    pub patches: Vec<String>,

    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t)]
    pub output: Format,

    /// Add the reasons to the output of `-o json`. Tables always contain them
    #[arg(long)]
    pub trace: bool,

    /// Compare each result with the `expect` of its case, and print only the differences. The exit
    /// status is 3 if there are any
    #[arg(long, conflicts_with = "trace")]
    pub check: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object on a line for each case
    #[default]
    Json,
    /// For each binding how it was decided. FREE: the replicas that the cluster has capacity for,
    /// by the source FROM; WEIGHT: its share when replicas were divided; BEFORE, AFTER: replicas;
    /// WHY NOT: the reason why it was not chosen
    Table,
    /// Counts, and the replicas of each cluster before and after
    Summary,
    /// For each binding that moves, the leaving and arriving replicas
    Diff,
}

/// Decides every case. Returns an error at the end if a case could not be parsed.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut options = Options {
        rules: match args.scheduling_profile {
            SchedulingProfile::Default => Rules::Default,
            SchedulingProfile::Karmada => Rules::Karmada,
        },
        output: match args.output {
            Format::Json => Output::Json,
            Format::Table => Output::Table,
            Format::Summary => Output::Summary,
            Format::Diff => Output::Diff,
        },
        trace: args.trace,
        check: args.check,
        patches: args.patches.iter().map(|text| patch(text)).collect::<Result<_, _>>()?,
        files: Vec::new(),
    };
    let standard_input = [PathBuf::from("-")];
    let files = if args.files.is_empty() { &standard_input[..] } else { &args.files };
    // Manifests of one fleet may be spread over several files. Recorded cases are independent.
    let mut text = String::new();
    for file in &with_folders(files)? {
        separate_documents(&mut text);
        let name = if file.as_os_str() == "-" { "standard input".to_owned() } else { file.display().to_string() };
        options.files.push((text.len(), name));
        if file.as_os_str() == "-" {
            io::stdin().read_to_string(&mut text).context("failed to read standard input")?;
        } else {
            text.push_str(&read_text(file).with_context(|| format!("failed to read {}", file.display()))?);
        }
    }
    let is_void = |line: &str| matches!(line.trim(), "" | "---") || line.trim_start().starts_with('#');
    if text.lines().all(is_void) {
        let fault = "there is no input: give manifests or recorded cases with -f, or on standard input";
        return Err(UsageError(fault.to_owned()).into());
    }
    let mut out = output::buffered();
    let Tally { cases, malformed, different, unplaced, remarks, ignored } = simulate(&text, &options, &mut out)?;
    out.flush()?;
    let mut remarks = remarks;
    if !ignored.is_empty() {
        let ignored = ignored.join(", ");
        remarks.push(format!(
            "ignored, because simulate reads only clusters, bindings, triggers and rebalances: {ignored}"
        ));
    }
    for remark in remarks {
        // If standard error is closed, the exit status still shows the result.
        let _closed = writeln!(io::stderr(), "{remark}");
    }
    if malformed > 0 {
        return Err(UsageError(format!("{malformed} of {cases} could not be read")).into());
    }
    if different > 0 {
        return Err(AnswerIsNo(format!("{different} of {cases} cases differ from what they expect")).into());
    }
    if unplaced > 0 {
        return Err(AnswerIsNo(format!("{unplaced} of {cases} bindings fit nowhere")).into());
    }
    Ok(())
}

/// Returns the files, with each folder replaced by its manifests, by name. Like kubectl, it skips
/// subfolders.
fn with_folders(files: &[PathBuf]) -> Result<Vec<PathBuf>, UsageError> {
    let mut all = Vec::new();
    for file in files {
        if !file.is_dir() {
            all.push(file.clone());
            continue;
        }
        let unreadable = |error: io::Error| UsageError(format!("failed to read {}: {error}", file.display()));
        let entries = fs::read_dir(file).map_err(unreadable)?;
        let mut found =
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
        let is_manifest = |path: &Path| {
            path.is_file()
                && path.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known))
        };
        found.retain(|path| is_manifest(path));
        found.sort();
        if found.is_empty() {
            return Err(UsageError(format!("{} has no .yaml, .yml or .json files", file.display())));
        }
        all.extend(found);
    }
    Ok(all)
}

/// Parses a text such as `clusters/member1=status.yaml`.
fn patch(text: &str) -> Result<Patch, UsageError> {
    let wrong = || UsageError(format!("--patch {text:?}: write RESOURCE=FILE or RESOURCE/NAME=FILE"));
    let (target, file) = text.split_once('=').ok_or_else(wrong)?;
    let (resource, name) = match target.split_once('/') {
        Some((resource, name)) => (resource, Some(name.to_owned())),
        None => (target, None),
    };
    let singulars = [
        ("cluster", "clusters"),
        ("resourcebinding", "resourcebindings"),
        ("rb", "resourcebindings"),
        ("clusterresourcebinding", "clusterresourcebindings"),
        ("crb", "clusterresourcebindings"),
    ];
    let resource = resource.to_lowercase();
    let plural = singulars.iter().find(|(one, many)| resource == *one || resource == *many).map(|(_, many)| *many);
    let Some(plural) = plural else {
        let fault = format!("--patch {text:?}: RESOURCE is clusters, resourcebindings or clusterresourcebindings");
        return Err(UsageError(with_suggestion(fault, &resource, singulars.iter().map(|(_, many)| *many))));
    };
    let read = || -> anyhow::Result<serde_json::Value> {
        let text = read_text(Path::new(file)).with_context(|| format!("failed to read {file}"))?;
        serde_saphyr::from_str(&text).with_context(|| format!("{file} is not a patch"))
    };
    Ok(Patch { resource: plural.to_owned(), name, patch: read().map_err(UsageError::because)? })
}

/// The magic number of gzip files.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Reads a recording, and decompresses it if it is compressed.
fn read_text(file: &Path) -> io::Result<String> {
    let bytes = fs::read(file)?;
    let mut text = String::new();
    match bytes.starts_with(&GZIP_MAGIC) {
        true => GzDecoder::new(&*bytes).read_to_string(&mut text)?,
        false => (&*bytes).read_to_string(&mut text)?,
    };
    Ok(text)
}

/// Appends a separator of two files. JSON lines need a line break, and YAML manifests a separator
/// that JSON lines must not have.
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
