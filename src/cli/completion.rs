//! `ballast completion`, and the dynamic completions of its scripts: commands and flags come from
//! the definition of the command line, and the names of contexts, clusters, workloads and
//! rebalances from the kubeconfig and the server on the line.
//!
//! Completion prints no messages: without a response in time, nothing is completed.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use serde_json::Value;

use super::arguments;
use super::operator::CommonArgs;
use super::operator::names::means_kind;
use super::operator::server::Server;
use super::output::print;

/// The variable that a script sets to the name of its shell.
const ASKED_BY: &str = "BALLAST_COMPLETE";
/// Timeout of the server. The shell is blocked in the meantime.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Maximum number of objects that are read for one completion. Further names are not completed.
const OBJECTS_MAX: usize = 5_000;

const CLUSTERS: [&str; 2] =
    ["/apis/cluster.karmada.io/v1alpha1/clusters", "/apis/cluster.kubernetes-fleet.io/v1/memberclusters"];
const WORK: &str = "/apis/work.karmada.io/v1alpha2";
const BALLAST: &str = "/apis/ballast.dev/v1alpha1";
/// Commands with an argument that names an unfinished rebalance.
const STEERING: [&str; 4] = ["pause", "resume", "abort", "approve"];

/// Returns the completion candidates.
type Names = fn() -> Vec<CompletionCandidate>;

/// The completed names, by the flag or argument in the definition.
const COMPLETED: [(&str, Names); 10] = [
    ("context", contexts),
    ("clusters", clusters),
    ("placed_on", clusters),
    ("not_placed_on", clusters),
    ("suppose_lost", clusters),
    ("suppose_untainted", clusters),
    ("workload", workloads),
    ("workloads", workloads),
    ("exclude", workloads),
    ("rebalance", rebalances),
];

#[derive(clap::Args, Debug)]
pub struct CompletionArgs {
    /// The shell; in bash: `source <(ballast completion bash)`
    #[arg(value_parser = ["bash", "elvish", "fish", "powershell", "zsh"])]
    shell: String,
}

pub fn run(args: &CompletionArgs) -> anyhow::Result<()> {
    let shells = Shells::builtins();
    let shell = shells.completer(&args.shell).context("the parser takes no other shell")?;
    let mut script = Vec::new();
    shell.write_registration(ASKED_BY, "ballast", "ballast", "ballast", &mut script)?;
    if args.shell == "zsh" {
        // As a file of `fpath`, the script is the body of a function, which the first completion
        // calls.
        script.extend_from_slice(b"[[ $funcstack[1] == _ballast ]] && _clap_dynamic_completer_ballast \"$@\"\n");
    }
    print(&String::from_utf8(script).context("a script is text")?)
}

/// Handles a completion request of a shell. Returns false if this is a normal run of the program.
pub fn is_answered() -> bool {
    let asked = CompleteEnv::with_factory(definition).var(ASKED_BY).bin("ballast");
    let folder = std::env::current_dir().ok();
    match asked.try_complete(std::env::args_os(), folder.as_deref()) {
        Ok(is_answered) => is_answered,
        Err(error) => error.exit(),
    }
}

/// Returns the definition with the completers of its names.
fn definition() -> Command {
    arguments::definition(&[]).mut_subcommands(|command| {
        let talks_to_a_server = command.get_arguments().any(|arg| arg.get_id() == "context");
        command.mut_args(|arg| {
            let found = COMPLETED.iter().find(|(id, _)| arg.get_id() == id);
            match found.filter(|_| talks_to_a_server) {
                Some((_, names)) => arg.add(ArgValueCandidates::new(names)),
                None => arg,
            }
        })
    })
}

fn contexts() -> Vec<CompletionCandidate> {
    let found = line().scope.server.contexts().unwrap_or_default();
    found.into_iter().map(CompletionCandidate::new).collect()
}

fn clusters() -> Vec<CompletionCandidate> {
    ask(async |server| {
        let mut names = BTreeSet::new();
        for path in CLUSTERS {
            names.extend(objects(server, path).await.iter().filter_map(name));
        }
        names.into_iter().map(CompletionCandidate::new).collect()
    })
}

/// Returns candidates such as `deployment/web`, or only names after the word `deployment`.
fn workloads() -> Vec<CompletionCandidate> {
    let typed = line().before;
    ask(async |server| {
        let mut names = BTreeSet::new();
        for path in [server.collection(WORK, "resourcebindings"), format!("{WORK}/clusterresourcebindings")] {
            let bindings = objects(server, &path).await;
            names.extend(bindings.iter().filter_map(|binding| {
                let resource = &binding["spec"]["resource"];
                let (kind, name) = (resource["kind"].as_str()?, resource["name"].as_str()?);
                let is_named = typed.iter().any(|word| means_kind(word, kind));
                Some(if is_named { name.to_owned() } else { format!("{}/{name}", kind.to_lowercase()) })
            }));
        }
        names.into_iter().map(CompletionCandidate::new).collect()
    })
}

/// Returns the rebalances with their phases, the newest first.
fn rebalances() -> Vec<CompletionCandidate> {
    let steers = line().command.is_some_and(|command| STEERING.contains(&&*command));
    ask(async |server| {
        let mut found = Vec::new();
        for path in [server.collection(BALLAST, "rebalances"), format!("{BALLAST}/clusterrebalances")] {
            found.extend(objects(server, &path).await);
        }
        let phase = |object: &Value| object["status"]["phase"].as_str().unwrap_or("Planning").to_owned();
        found.retain(|object| !steers || !matches!(&*phase(object), "Completed" | "Aborted"));
        found.sort_by_key(|object| object["metadata"]["creationTimestamp"].as_str().map(str::to_owned));
        let candidates = found
            .iter()
            .rev()
            .filter_map(|object| Some(CompletionCandidate::new(name(object)?).help(Some(phase(object).into()))));
        candidates.collect()
    })
}

/// Queries the server on the line. Empty if it does not respond in time.
fn ask(names: impl AsyncFnOnce(&Server) -> Vec<CompletionCandidate>) -> Vec<CompletionCandidate> {
    let asked = async {
        let server = Server::open_any(&line().scope).await.ok()?;
        Some(names(&server).await)
    };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    let answer = runtime.block_on(async { tokio::time::timeout(ANSWER_WITHIN, asked).await });
    answer.ok().flatten().unwrap_or_default()
}

/// Lists the objects of a collection. Empty if it is not served, or forbidden.
async fn objects(server: &Server, path: &str) -> Vec<Value> {
    let mut found = Vec::new();
    // An interrupted list yields the names before the interruption.
    let _ended = server
        .list_pages(path, &[], |page| found.extend(page.into_iter().take(OBJECTS_MAX.saturating_sub(found.len()))))
        .await;
    found
}

fn name(object: &Value) -> Option<String> {
    object["metadata"]["name"].as_str().map(str::to_owned)
}

/// The parts of the typed line that select the server, and the objects on it.
struct Line {
    command: Option<String>,
    /// The words between the command and the incomplete word.
    before: Vec<String>,
    scope: CommonArgs,
}

fn line() -> Line {
    // A script passes the words after `--`. The first of them is the program.
    read(std::env::args().skip_while(|word| word != "--").skip(2).collect())
}

/// Parses an incomplete line: of its flags, only the ones that select the server and the scope.
fn read(words: Vec<String>) -> Line {
    let flags = CommonArgs::augment_args(Command::new("ballast"));
    let mut kept = vec!["ballast".to_owned()];
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        let (flag, has_value) = match word.split_once('=') {
            Some((flag, _)) => (flag, true),
            None => (word.as_str(), false),
        };
        let is_named = |arg: &&clap::Arg| {
            let long = flag.strip_prefix("--").is_some_and(|flag| arg.get_long() == Some(flag));
            long || flag.strip_prefix('-').is_some_and(|flag| arg.get_short().is_some_and(|it| flag == it.to_string()))
        };
        let Some(found) = flags.get_arguments().find(is_named) else { continue };
        if has_value || !found.get_action().takes_values() {
            kept.push(word.clone());
        } else if let Some(value) = rest.next() {
            kept.extend([word.clone(), value.clone()]);
        }
    }
    let parsed = flags.try_get_matches_from(kept);
    let scope = parsed.and_then(|matches: ArgMatches| CommonArgs::from_arg_matches(&matches)).unwrap_or_default();
    let mut words = words.into_iter();
    let command = words.next();
    let _being_typed = words.next_back();
    Line { command, before: words.collect(), scope }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_line(line: &str) -> Line {
        read(line.split(' ').map(str::to_owned).collect())
    }

    #[test]
    fn a_line_that_is_not_complete_says_which_server_and_scope_it_means() {
        let Line { command, scope, .. } = read_line("why --context lab -n shop --output=json --at");
        assert_eq!(command.as_deref(), Some("why"));
        assert_eq!((scope.server.context.as_deref(), scope.namespace.as_deref()), (Some("lab"), Some("shop")));
        let Line { scope, .. } = read_line("rebalance -A --kubeconfig=k --placed-on member1,");
        assert!(scope.all_namespaces && scope.server.kubeconfig.is_some_and(|path| path.ends_with("k")));
        // A flag at the end has no value yet.
        assert_eq!(read_line("top --context").scope.server.context, None);
    }

    #[test]
    fn every_name_that_is_completed_is_in_the_definition() {
        let definition = definition();
        for (id, _) in COMPLETED {
            let mut arguments = definition.get_subcommands().flat_map(Command::get_arguments);
            assert!(arguments.any(|arg| arg.get_id() == id), "{id}");
        }
        definition.debug_assert();
    }
}
