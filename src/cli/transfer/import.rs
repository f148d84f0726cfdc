//! `ballast import`: copies the objects of an API server or of files, unchanged, into the log of a
//! stopped server.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::comparison::{Comparison, StoredState, differing_members};
use super::kinds;
use super::log::{self, States, Write};
use super::profiles;
use super::report::{KindCounts, Named, Report, Unknown};
use super::source::{Api, Files, Source};
use crate::cli::AnswerIsNo;
use crate::cli::operator::{CommonArgs, Format, block_on};
use crate::cli::output::print;
use crate::cli::screen::Screen;
use ballast_api::karmada::cluster::v1alpha1::Cluster;
use ballast_base::clock::{Clock, SystemClock};
use ballast_k8s::{Document, Key, Revision};
use ballast_node::kubeconfig::KubeconfigArgs;
use ballast_node::{UsageError, tables};
use ballast_resource::ResourceKind;
use ballast_store::{self as store, Bounds, OfflineLog, Settings, Store};

#[derive(clap::Args, Debug)]
#[command(group = clap::ArgGroup::new("source").required(true))]
pub struct ImportArgs {
    /// Kubeconfig of the API server to read from
    #[arg(long, value_name = "KUBECONFIG", group = "source")]
    pub from: Option<PathBuf>,

    /// Context of the kubeconfig to use, instead of its current one
    #[arg(long, value_name = "NAME", conflicts_with = "from_file")]
    pub context: Option<String>,

    /// File or folder to read, in the format of `ballast export` or `kubectl get -o yaml`; `-` is
    /// standard input
    #[arg(long, value_name = "PATH", group = "source")]
    pub from_file: Option<PathBuf>,

    /// The database of the stopped server, as for `serve`
    #[arg(long, env = "BALLAST_DATABASE_URL", default_value = "sqlite://ballast.db")]
    pub database_url: String,

    /// File with the password of the PostgreSQL user (otherwise PGPASSFILE or the URL)
    #[arg(long, env = "BALLAST_DATABASE_PASSWORD_FILE")]
    pub database_password_file: Option<PathBuf>,

    /// Create Clusters from the ClusterProfiles of another cluster manager, instead of importing
    /// objects unchanged
    #[arg(long)]
    pub cluster_profiles: bool,

    /// Only compare, and write nothing. The exit status is 3 if something differs
    #[arg(long)]
    pub dry_run: bool,

    /// Remove the objects of imported kinds that the source does not have
    #[arg(long)]
    pub prune: bool,

    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t)]
    pub output: Format,
}

pub fn run(args: ImportArgs) -> anyhow::Result<()> {
    check_database(&args.database_url)?;
    block_on(import(args))
}

/// Checks the database of an import or export.
pub(super) fn check_database(url: &str) -> Result<(), UsageError> {
    store::check_url(url).map_err(|error| UsageError(format!("--database-url: {error}")))?;
    match url {
        "memory:" => {
            Err(UsageError("--database-url memory: is gone when the process ends; name a database".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Returns flags for the server that the kubeconfig names.
pub(super) fn as_named(kubeconfig: &Path, context: Option<&str>) -> CommonArgs {
    let (kubeconfig, context) = (Some(kubeconfig.to_owned()), context.map(str::to_owned));
    CommonArgs { server: KubeconfigArgs { kubeconfig, context, ..KubeconfigArgs::default() }, ..CommonArgs::default() }
}

pub(super) fn opening_failed(url: &str, error: store::Error) -> anyhow::Error {
    match error {
        error @ store::Error::Misplaced { .. } => {
            UsageError(format!("--database-url {}: {error}", store::shown(url))).into()
        }
        error => anyhow::Error::new(error).context(format!("failed to open {}", store::shown(url))),
    }
}

async fn import(args: ImportArgs) -> anyhow::Result<()> {
    let (served, all) = kinds::all();
    let kinds = if args.cluster_profiles { vec![kinds::profiles()] } else { all };
    let mut source = match (&args.from, &args.from_file) {
        (Some(kubeconfig), _) => {
            let api = Api::open(&as_named(kubeconfig, args.context.as_deref()), &kinds).await?;
            Source::Api(Box::new(api))
        }
        (None, Some(path)) => Source::Files(Files::read(path, &kinds)?),
        (None, None) => return Err(UsageError("give --from or --from-file".to_owned()).into()),
    };
    let (url, shown) = (&args.database_url, store::shown(&args.database_url));
    let settings = Settings { password_file: args.database_password_file.clone(), ..Settings::default() };
    let tables = tables::tables(&served);
    if args.dry_run {
        // A dry run creates no file, and takes the lead from no process.
        let is_missing = url.strip_prefix("sqlite://").is_some_and(|path| !Path::new(path).exists());
        let opened = store::open_with(if is_missing { "memory:" } else { url }, &tables, &settings).await;
        let store = opened.map_err(|error| opening_failed(url, error))?;
        let plan = ImportPlan::make(&mut source, &kinds, &*store, &args).await?;
        store.close().await?;
        print(&plan.report.text(args.output, "ONLY HERE", Screen::of_stdout(false))?)?;
        return match plan.report.is_equal() {
            true => Ok(()),
            false => Err(AnswerIsNo(format!("the source and {shown} differ")).into()),
        };
    }
    let name = format!("ballast-import-{}", SystemClock.uuid());
    let log = OfflineLog::open(url, &tables, &settings, name).await.map_err(|error| opening_failed(url, error))?;
    let done = log.during(ImportPlan::carry_out(&mut source, &kinds, &log, &args)).await;
    let closed = log.close().await;
    let (report, written, last) = done.with_context(|| format!("another process has taken {shown}"))??;
    closed.with_context(|| format!("failed to close {shown}"))?;
    print(&report.text(args.output, "ONLY HERE", Screen::of_stdout(false))?)?;
    if args.output == Format::Table {
        print(&format!("Objects written: {written}; {shown} is at revision {last}\n"))?;
    }
    match report.sum(|tally| tally.refused) {
        0 => Ok(()),
        refused => anyhow::bail!("objects refused: {refused}; all others are there"),
    }
}

/// The planned writes of an import, and its report.
struct ImportPlan {
    states: States,
    writes: Vec<Write>,
    /// The revision that the log is raised to before anything is written.
    lift: Option<Revision>,
    report: Report,
}

impl ImportPlan {
    async fn carry_out(
        source: &mut Source,
        kinds: &[kinds::Versions],
        log: &OfflineLog,
        args: &ImportArgs,
    ) -> anyhow::Result<(Report, usize, Revision)> {
        let ImportPlan { mut states, writes, lift, report } =
            ImportPlan::make(source, kinds, log.store(), args).await?;
        let count = writes.len();
        let written = async {
            // First, so that everything written is later than the revisions that clients have seen.
            if let Some(to) = lift {
                log.bump_revision(to).await?;
                states.bounds = Bounds { last: to, compacted: to };
            }
            log::write(log, &states, writes, SystemClock.now_ms()).await
        };
        let last = written.await;
        let last = last.context("the import broke off; what was written stays, and running it again finishes it")?;
        Ok((report, count, last))
    }

    async fn make(
        source: &mut Source,
        kinds: &[kinds::Versions],
        store: &dyn Store,
        args: &ImportArgs,
    ) -> anyhow::Result<ImportPlan> {
        let states = States::read(store).await.context("failed to read the database")?;
        let mut plan = ImportPlan { states, writes: Vec::new(), lift: None, report: Report::default() };
        if args.cluster_profiles {
            plan.make_clusters(source, kinds, store, args.prune).await?;
            return Ok(plan.with_remarks(source, args));
        }
        for kind in kinds {
            let row = kind.stored();
            let Some(comparison) = source.compare(kind, &plan.states.by_key).await? else {
                if source.tells_what_is_not_served() {
                    plan.report.not_served.push(row.resource.to_string());
                }
                continue;
            };
            plan.tell(row, &comparison);
            plan.take(comparison, store, args.prune).await?;
        }
        plan.lift_above(source, args.dry_run);
        Ok(plan.with_remarks(source, args))
    }

    fn with_remarks(mut self, source: &Source, args: &ImportArgs) -> ImportPlan {
        self.report.remarks.splice(0..0, source.left_out());
        let only_here = self.report.sum(|tally| tally.only_there);
        if only_here > 0 && !args.prune {
            self.report.remarks.push(format!("Only here, and left alone without --prune: {only_here}"));
        }
        self
    }

    /// Plans the Clusters for another manager's profiles.
    async fn make_clusters(
        &mut self,
        source: &mut Source,
        kinds: &[kinds::Versions],
        store: &dyn Store,
        prune: bool,
    ) -> anyhow::Result<()> {
        let row = ResourceKind::of::<Cluster>();
        let mut profiles = Vec::new();
        for kind in kinds {
            profiles.extend(source.profiles(kind).await?);
        }
        let clusters = log::objects_of(store, row.resource).await?;
        let (mut comparison, own) = profiles::compare(&row, profiles, &self.states.by_key, clusters);
        if own > 0 {
            self.report.remarks.push(format!("Left out, because Ballast itself has written them: {own} profiles"));
        }
        self.tell(&row, &comparison);
        if prune && !comparison.only_here.is_empty() {
            let in_use = log::clusters_in_use(store).await?;
            let (held, free) =
                std::mem::take(&mut comparison.only_here).into_iter().partition(|(key, _)| in_use.contains(&*key.name));
            comparison.only_here = free;
            self.delete_held(held, store).await?;
        }
        self.take(comparison, store, prune).await
    }

    /// Deletes Clusters that bindings are placed on, like a client would (D49): after the next
    /// start of a server it moves the bindings away, and then the finalizer releases the Cluster.
    async fn delete_held(&mut self, clusters: Vec<(Key, StoredState)>, store: &dyn Store) -> anyhow::Result<()> {
        let revisions: Vec<Revision> = clusters.iter().map(|(_, state)| state.revision).collect();
        let mut objects = log::at(store, &revisions).await?;
        for (key, state) in clusters {
            let object = objects.remove(&state.revision).unwrap_or_default();
            if let Some(deleted) = profiles::deleted(object, SystemClock.now()) {
                self.writes.push(Write::Put(key, Some(state), Document::new(deleted)));
            }
        }
        Ok(())
    }

    /// Raises the log above the versions of the source. Clients that stay connected during the
    /// switch watch from such a version, which must be in the past of the log, or they would wait
    /// for unrelated revisions.
    fn lift_above(&mut self, source: &Source, is_dry_run: bool) {
        let seen = source.seen();
        if let Some(version) = &seen.strange {
            let what = "what watched there has to be restarted, or it may wait in silence";
            self.report.remarks.push(format!("The source has a version that is no revision, {version}: {what}"));
        }
        if seen.latest == Revision::ZERO {
            return;
        }
        let Bounds { last, compacted } = self.states.bounds;
        let reaches_back = match source {
            // Its clients will use this server, so the past of this log must not contain what they
            // have seen.
            Source::Api(_) => compacted <= seen.latest,
            // It may be an export of this log, with a history that is worth keeping.
            Source::Files(_) => last < seen.latest,
        };
        let Some(to) = store::bump_target(last, seen.latest).filter(|_| reaches_back) else { return };
        let is = if is_dry_run { "would be" } else { "is" };
        let what = "clients that watched there list again";
        self.report
            .remarks
            .push(format!("The log {is} lifted to revision {to}, far above {} of the source: {what}", seen.latest));
        self.lift = Some(to);
    }

    fn tell(&mut self, row: &ResourceKind, comparison: &Comparison) {
        let kind = row.resource.to_string();
        let named = |name: String, what: String| Named { kind: kind.clone(), name, what };
        let Comparison { read, same, new, changed, only_here, refused, unknown } = comparison;
        self.report.kinds.push(KindCounts {
            kind: kind.clone(),
            read: *read,
            new: new.len(),
            changed: changed.len(),
            same: *same,
            only_there: only_here.len(),
            refused: refused.len(),
        });
        let of_key = |key: &ballast_k8s::Key| match &*key.namespace {
            "" => key.name.to_string(),
            namespace => format!("{namespace}/{}", key.name),
        };
        self.report.only_there.extend(only_here.iter().map(|(key, _)| named(of_key(key), String::new())));
        self.report.refused.extend(refused.iter().map(|(name, why)| named(name.clone(), why.clone())));
        self.report.unknown_fields.extend(unknown.iter().map(|(field, (objects, example))| Unknown {
            kind: kind.clone(),
            field: field.clone(),
            objects: *objects,
            example: example.clone(),
        }));
    }

    async fn take(&mut self, comparison: Comparison, store: &dyn Store, prune: bool) -> anyhow::Result<()> {
        let Comparison { new, changed, only_here, .. } = comparison;
        let replaced: Vec<Revision> = changed.iter().map(|(_, state, _)| state.revision).collect();
        let mut before = log::at(store, &replaced).await?;
        for (key, state, object) in &changed {
            let old = before.remove(&state.revision).unwrap_or_default();
            let name = super::shown_name(object);
            let what = differing_members(&old, object).join(", ");
            self.report.differing.push(Named { kind: key.resource.to_string(), name, what });
        }
        self.writes.extend(new.into_iter().map(|(key, document)| Write::Put(key, None, document)));
        let changed = changed.into_iter().map(|(key, state, object)| (key, state, Document::new(object)));
        self.writes.extend(changed.map(|(key, state, document)| Write::Put(key, Some(state), document)));
        if prune {
            let gone: Vec<Revision> = only_here.iter().map(|(_, state)| state.revision).collect();
            let mut last = log::at(store, &gone).await?;
            for (key, state) in only_here {
                let object = last.remove(&state.revision).unwrap_or_default();
                self.writes.push(Write::Remove(key, state, Document::new(object)));
            }
        }
        Ok(())
    }
}
