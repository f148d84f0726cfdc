//! `ballast history` on a Karmada without Ballast: there is no log, so only the events about the
//! binding are available.

use std::io::Write;

use anyhow::bail;
use serde::Serialize;
use serde_json::Value;

use super::Format;
use super::names::{WorkloadBinding, shown};
use super::server::{Refused, Server, escaped};
use crate::cli::output::print;
use crate::cli::screen::{Screen, Tone, data};
use crate::cli::table::{Side, Table, cell};
use ballast_base::clock::{Clock, SystemClock};
use ballast_k8s::Time;
use ballast_k8s::human_duration::human_duration;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Event {
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Time>,
    count: i64,
    warning: bool,
    reason: String,
    message: String,
}

/// Lists the events about the binding, the oldest first.
pub async fn run(karmada: &Server, found: &WorkloadBinding, output: Format) -> anyhow::Result<()> {
    let name = shown(&found.workload(), true);
    // Events about cluster-scoped objects are in the namespace default.
    let namespace = found.binding.metadata.namespace.as_deref().unwrap_or("default");
    let uid = found.binding.metadata.uid.as_deref().unwrap_or_default();
    let path = format!("/api/v1/namespaces/{}/events", escaped(namespace));
    let items = match karmada.list(&path, &[("fieldSelector", &format!("involvedObject.uid={uid}"))]).await {
        Ok((items, _)) => items,
        Err(error) => match error.downcast_ref::<Refused>() {
            Some(refused) if refused.is(403) => bail!(
                "Karmada keeps no log of {name}, and the right to list events in namespace {namespace}, which is all \
                 that tells of its past, is missing: {refused}"
            ),
            _ => return Err(error),
        },
    };
    let mut events: Vec<Event> = items.iter().map(event).collect();
    events.sort_by_key(|event| (event.last, event.first));
    // Standard error may be closed; the note is then lost.
    let _ = writeln!(
        std::io::stderr(),
        "Karmada keeps no log of {name}: these are its events, as long as they live (an hour, unless --event-ttl says \
         otherwise); `ballast serve --attach` remembers every change from its start"
    );
    match output {
        Format::Table => print(&table(karmada.screen, &name, &events)),
        format => print(&data(&events, format == Format::Yaml)?),
    }
}

fn event(item: &Value) -> Event {
    let time = |field: &str| item[field].as_str().and_then(|text| text.parse().ok());
    let text = |field: &str| item[field].as_str().unwrap_or_default().to_owned();
    let last = time("lastTimestamp").or_else(|| time("eventTime"));
    Event {
        first: time("firstTimestamp").or(last),
        last,
        count: item["count"].as_i64().unwrap_or(1),
        warning: item["type"] == "Warning",
        reason: text("reason"),
        message: text("message"),
    }
}

fn table(screen: Screen, name: &str, events: &[Event]) -> String {
    if events.is_empty() {
        return format!("No event about {name} is left.\n");
    }
    use Side::{Left, Right};
    let columns = [("LAST", Left), ("AGO", Right), ("COUNT", Right), ("REASON", Left), ("MESSAGE", Left)];
    let mut table = Table::new(&columns);
    let now = SystemClock.now();
    for event in events {
        let ago = event.last.map_or_else(String::new, |time| human_duration(now.seconds() - time.seconds()));
        let tone = if event.warning { Tone::Careful } else { Tone::Plain };
        table.row(vec![
            cell(event.last.map_or_else(String::new, |time| time.to_string())),
            cell(ago),
            cell(event.count),
            cell(&event.reason).tone(tone),
            cell(&event.message),
        ]);
    }
    table.on(screen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_of_both_apis_have_a_time() {
        let old = event(&json!({"reason": "ScheduleBindingSucceed", "count": 3, "type": "Normal",
            "firstTimestamp": "2026-11-22T15:00:00Z", "lastTimestamp": "2026-11-22T16:00:00Z"}));
        assert_eq!((old.count, old.warning), (3, false));
        assert_eq!(old.last.unwrap().seconds() - old.first.unwrap().seconds(), 3600);
        let new = event(&json!({"type": "Warning", "eventTime": "2026-11-22T16:00:00.000000Z"}));
        assert_eq!((new.first, new.last, new.warning), (old.last, old.last, true));
    }
}
