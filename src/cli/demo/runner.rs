//! The steps of a story: requests, each shown as the equivalent kubectl command, waits for a state
//! with a timeout, and tables of the replicas per cluster.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::io::Write;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::cli::client::Client;
use ballast_base::clock::{Clock, SystemClock};
use ballast_resource::{Kinds, ResourceKind};

/// Timeout of a wait for a state.
const STATE_WITHIN: Duration = Duration::from_secs(60);
/// Duration for which a story verifies that nothing changes.
const NOTHING_HAPPENS_SECONDS: u32 = 1;

/// Prefix of the times in the examples.
const A_DAY: &str = "2024-";

const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/resourcebindings";
const CLUSTER_BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/clusterresourcebindings";
const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";

/// A file of examples/. It is compiled in, so that the binary can play its stories anywhere.
pub struct Example {
    pub path: &'static str,
    pub text: &'static str,
}

pub struct StoryRunner<'a, W> {
    pub client: Client,
    pub kinds: Kinds,
    /// Pause before each step.
    pub pace: Duration,
    /// Number of steps before the story is held. `None`: all.
    pub steps_left: Option<u32>,
    pub out: &'a mut W,
}

/// The end of a story that is held after one of its steps.
#[derive(Debug)]
pub struct Held;

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the story is held after the step that was requested")
    }
}

impl Error for Held {}

impl<W: Write> StoryRunner<'_, W> {
    pub fn say(&mut self, text: &str) -> anyhow::Result<()> {
        Ok(writeln!(self.out, "\n{text}")?)
    }

    /// Prints the next step, after the pause.
    ///
    /// # Errors
    ///
    /// Returns `Held` if the story is to be held before this step.
    pub async fn step(&mut self, text: &str) -> anyhow::Result<()> {
        if let Some(left) = &mut self.steps_left {
            *left = left.checked_sub(1).ok_or(Held)?;
        }
        tokio::time::sleep(self.pace).await;
        self.say(text)
    }

    /// Creates each document of the file in order, like `kubectl create -f`.
    pub async fn create(&mut self, example: &Example) -> anyhow::Result<()> {
        writeln!(self.out, "$ kubectl create -f {}", example.path)?;
        for object in documents(example)? {
            let row = self.row_of(&object)?;
            let namespace = object["metadata"]["namespace"].as_str();
            let (created, group) = (object_path(row, namespace, None), (row.singular, row.group));
            let answer = self.client.post(&created, &object).await?;
            let name = answer["metadata"]["name"].as_str().unwrap_or_default();
            writeln!(self.out, "{}.{}/{name} created", group.0, group.1)?;
        }
        Ok(())
    }

    /// Creates each document of the file once for each number from 1, which replaces `NUMBER`.
    pub async fn create_copies(&mut self, example: &Example, copies: usize) -> anyhow::Result<()> {
        writeln!(
            self.out,
            "$ for n in $(seq {copies}); do sed \"s/NUMBER/$n/\" {} | kubectl create -f -; done",
            example.path
        )?;
        let mut created = 0;
        for copy in 1..=copies {
            let text = example.text.replace("NUMBER", &copy.to_string());
            for object in parsed(&text, example.path)? {
                let row = self.row_of(&object)?;
                let path = object_path(row, object["metadata"]["namespace"].as_str(), None);
                self.client.post(&path, &object).await?;
                created += 1;
            }
        }
        Ok(writeln!(self.out, "({created} created)")?)
    }

    /// Returns the result of `kubectl create --dry-run=server` for one document.
    pub async fn dry_run(&mut self, example: &Example) -> anyhow::Result<Value> {
        writeln!(self.out, "$ kubectl create -f {} --dry-run=server -o yaml   # of its status:", example.path)?;
        let object = documents(example)?.pop().context("the file holds one document")?;
        let path = object_path(self.row_of(&object)?, object["metadata"]["namespace"].as_str(), None);
        self.client.post(&format!("{path}?dryRun=All"), &object).await
    }

    /// Returns the result of `kubectl create -o yaml` for a review.
    pub async fn review(&mut self, example: &Example) -> anyhow::Result<Value> {
        writeln!(self.out, "$ kubectl create -f {} -o yaml   # of its status:", example.path)?;
        let object = documents(example)?.pop().context("the file holds one document")?;
        self.client.post(&object_path(self.row_of(&object)?, None, None), &object).await
    }

    /// Patches a cluster-scoped object or its status, like `kubectl patch RESOURCE NAME
    /// --type=merge --patch-file`.
    pub async fn patch(&mut self, singular: &str, name: &str, part: Part, example: &Example) -> anyhow::Result<()> {
        let (flag, suffix) = match part {
            Part::Main => ("", ""),
            Part::Status => (" --subresource=status", "/status"),
        };
        writeln!(self.out, "$ kubectl patch {singular} {name}{flag} --type=merge --patch-file {}", example.path)?;
        self.merge(singular, name, suffix, example.text, example.path).await
    }

    /// Reports the state of a cluster with the current time, because the page and `top` show the
    /// time of the last change, and the time in the file is of another day.
    pub async fn report(&mut self, cluster: &str, example: &Example) -> anyhow::Result<()> {
        writeln!(
            self.out,
            "$ sed \"s/{A_DAY}.*Z/$(date -u +%FT%TZ)/\" {} |\n    \
             kubectl patch cluster {cluster} --subresource=status --type=merge --patch-file /dev/stdin",
            example.path
        )?;
        let now = SystemClock.now().to_string();
        let fresh = |line: &str| match (line.find(A_DAY), line.rfind('Z')) {
            (Some(from), Some(to)) if from < to => format!("{}{now}{}", &line[..from], &line[to + 1..]),
            _ => line.to_owned(),
        };
        let text = example.text.lines().map(fresh).collect::<Vec<_>>().join("\n");
        self.merge("cluster", cluster, "/status", &text, example.path).await
    }

    async fn merge(&mut self, singular: &str, name: &str, suffix: &str, text: &str, path: &str) -> anyhow::Result<()> {
        let patch = parsed(text, path)?.pop().context("a patch file holds one document")?;
        let row = self.kinds.rows().iter().find(|row| row.singular == singular).context("the resource is served")?;
        let (path, group) = (object_path(row, None, Some(name)), row.group);
        self.client.merge_patch(&format!("{path}{suffix}"), &patch).await?;
        Ok(writeln!(self.out, "{singular}.{group}/{name} patched")?)
    }

    /// Like `patch`, for a ResourceBinding in the namespace `default`.
    pub async fn patch_binding(&mut self, name: &str, part: Part, example: &Example) -> anyhow::Result<()> {
        let (flag, suffix) = match part {
            Part::Main => ("", ""),
            Part::Status => (" --subresource=status", "/status"),
        };
        writeln!(self.out, "$ kubectl patch resourcebinding {name}{flag} --type=merge --patch-file {}", example.path)?;
        let patch = documents(example)?.pop().context("a patch file holds one document")?;
        let path = format!("/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings/{name}{suffix}");
        self.client.merge_patch(&path, &patch).await?;
        Ok(writeln!(self.out, "resourcebinding.work.karmada.io/{name} patched")?)
    }

    /// Waits for an event with this reason. Names of events are not known in advance.
    pub async fn wait_for_event(&self, reason: &str) -> anyhow::Result<()> {
        let path = format!("/api/v1/events?fieldSelector=reason%3D{reason}");
        let watching = self.client.follow(&path, None, |event| event["type"] == "ADDED");
        within(&format!("an event {reason}"), watching).await
    }

    /// Prints the events like `kubectl get events`, without the column of ages.
    pub async fn show_events(&mut self, path: &str) -> anyhow::Result<()> {
        writeln!(
            self.out,
            "\n$ kubectl get events -o custom-columns=TYPE:.type,REASON:.reason,KIND:.involvedObject.kind,MESSAGE:.message"
        )?;
        let list = self.client.get(path).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for event in list["items"].as_array().into_iter().flatten() {
            let kind = text(&event["involvedObject"]["kind"]);
            let (type_, reason, message) = (text(&event["type"]), text(&event["reason"]), text(&event["message"]));
            writeln!(self.out, "{type_:<8}  {reason:<31}  {kind:<15}  {message}")?;
        }
        Ok(())
    }

    /// Deletes a cluster-scoped object, like `kubectl delete RESOURCE NAME`.
    pub async fn delete(&mut self, singular: &str, name: &str) -> anyhow::Result<()> {
        writeln!(self.out, "$ kubectl delete {singular} {name}")?;
        let row = self.kinds.rows().iter().find(|row| row.singular == singular).context("the resource is served")?;
        let (path, group) = (object_path(row, None, Some(name)), row.group);
        self.client.delete(&path).await?;
        Ok(writeln!(self.out, "{singular}.{group} \"{name}\" deleted")?)
    }

    /// Waits until the object at `path` satisfies `wanted`, and returns it.
    pub async fn wait_for(
        &self,
        what: &str,
        path: &str,
        name: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        let mut found = Value::Null;
        let path = format!("{path}?fieldSelector=metadata.name%3D{name}");
        // A watch without a resourceVersion starts with the current state (WA4), so nothing is
        // missed.
        let watching = self.client.follow(&path, None, |event| {
            let matches = event["type"] != "DELETED" && wanted(&event["object"]);
            if matches {
                found = event["object"].clone();
            }
            matches
        });
        within(what, watching).await?;
        Ok(found)
    }

    /// Waits until `seen` returns `true` for an event of a collection, from the current state on.
    pub async fn wait_until(&self, what: &str, path: &str, seen: impl FnMut(&Value) -> bool) -> anyhow::Result<()> {
        within(what, self.client.follow(path, None, seen)).await
    }

    /// Waits until the object is deleted.
    pub async fn wait_gone(&self, path: &str, name: &str) -> anyhow::Result<()> {
        let gone = async {
            // List again if the watch ends before: a deletion in the meantime is in no later event.
            loop {
                let list = self.client.get(path).await?;
                let version = list["metadata"]["resourceVersion"].as_str().context("a list has a resourceVersion")?;
                let mut listed = list["items"].as_array().into_iter().flatten();
                if !listed.any(|item| item["metadata"]["name"] == name) {
                    return Ok(());
                }
                let path = format!("{path}?resourceVersion={version}");
                let is_it = |event: &Value| event["type"] == "DELETED" && event["object"]["metadata"]["name"] == name;
                self.client.watch(&path, is_it).await?;
            }
        };
        within(&format!("the end of {name}"), gone).await
    }

    /// Watches for a short time, and fails if any ResourceBinding changes.
    pub async fn expect_nothing_to_move(&mut self) -> anyhow::Result<()> {
        self.expect_no_event(BINDINGS, "resourcebindings -A").await
    }

    /// Watches for a short time, and fails if any of the bindings changes.
    pub async fn expect_no_event(&mut self, bindings: &str, shown: &str) -> anyhow::Result<()> {
        writeln!(self.out, "$ kubectl get {shown} --watch-only   # for {NOTHING_HAPPENS_SECONDS} s")?;
        let list = self.client.get(bindings).await?;
        let version = list["metadata"]["resourceVersion"].as_str().context("a list has a resourceVersion")?;
        let path = format!("{bindings}?resourceVersion={version}&timeoutSeconds={NOTHING_HAPPENS_SECONDS}");
        if self.client.watch(&path, |event| event["type"] != "BOOKMARK").await? {
            bail!("a binding changed, although placements are inert");
        }
        Ok(writeln!(self.out, "(no event)")?)
    }

    /// Prints a table of the replicas of every binding per cluster.
    pub async fn show_table(&mut self) -> anyhow::Result<()> {
        let clusters = self.names(CLUSTERS).await?;
        let mut rows = BTreeMap::new();
        for path in [BINDINGS, CLUSTER_BINDINGS] {
            let list = self.client.get(path).await?;
            for binding in list["items"].as_array().into_iter().flatten() {
                let metadata = &binding["metadata"];
                let name = metadata["name"].as_str().unwrap_or_default();
                let shown = metadata["namespace"].as_str().map_or(name.to_owned(), |ns| format!("{ns}/{name}"));
                rows.insert(shown, replicas_of(binding));
            }
        }
        let width = rows.keys().map(String::len).max().unwrap_or_default().max("BINDING".len());
        write!(self.out, "\n  {:width$}", "BINDING")?;
        for cluster in &clusters {
            write!(self.out, "  {:>8}", cluster)?;
        }
        writeln!(self.out)?;
        for (name, replicas) in rows {
            write!(self.out, "  {name:width$}")?;
            for cluster in &clusters {
                let cell = match replicas.get(cluster) {
                    None => "-".to_owned(),
                    Some(0) => "yes".to_owned(),
                    Some(count) => count.to_string(),
                };
                write!(self.out, "  {cell:>8}")?;
            }
            writeln!(self.out)?;
        }
        Ok(())
    }

    pub async fn names(&self, path: &str) -> anyhow::Result<Vec<String>> {
        let list = self.client.get(path).await?;
        let items = list["items"].as_array().into_iter().flatten();
        Ok(items.filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect())
    }

    fn row_of(&self, object: &Value) -> anyhow::Result<&ResourceKind> {
        let (api_version, kind) = (object["apiVersion"].as_str(), object["kind"].as_str());
        let row = self
            .kinds
            .rows()
            .iter()
            .find(|row| Some(row.api_version().as_str()) == api_version && Some(row.kind) == kind);
        row.map(AsRef::as_ref).with_context(|| format!("{api_version:?} {kind:?} is not served"))
    }
}

/// Awaits a condition of the story, with a timeout.
async fn within(what: &str, waiting: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    match tokio::time::timeout(STATE_WITHIN, waiting).await {
        Ok(ended) => ended.with_context(|| format!("the watch ended before {what}")),
        Err(_) => bail!("{what} did not happen within {} s", STATE_WITHIN.as_secs()),
    }
}

#[derive(Clone, Copy)]
pub enum Part {
    Main,
    Status,
}

/// Returns the path of a collection, or of one object in it.
pub fn object_path(row: &ResourceKind, namespace: Option<&str>, name: Option<&str>) -> String {
    let namespace = namespace.map(|namespace| format!("namespaces/{namespace}/")).unwrap_or_default();
    let name = name.map(|name| format!("/{name}")).unwrap_or_default();
    format!("/{}/{namespace}{}{name}", row.root(), row.plural)
}

/// Returns the replicas by the name of the cluster. Zero if replicas are not divided.
pub fn replicas_of(binding: &Value) -> BTreeMap<String, i64> {
    let targets = binding["spec"]["clusters"].as_array().into_iter().flatten();
    targets
        .filter_map(|target| Some((target["name"].as_str()?.to_owned(), target["replicas"].as_i64().unwrap_or(0))))
        .collect()
}

pub fn documents(example: &Example) -> anyhow::Result<Vec<Value>> {
    parsed(example.text, example.path)
}

fn parsed(text: &str, path: &str) -> anyhow::Result<Vec<Value>> {
    serde_saphyr::from_multiple(text).with_context(|| format!("{path} is not YAML"))
}
