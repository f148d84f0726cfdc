//! Beside a Karmada: `--attach`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

/// Where clusters, bindings and policies are kept, if not here.
#[derive(Args, Clone, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct AttachArgs {
    /// Kubeconfig of a Karmada, in which clusters, bindings and policies stay. Ballast schedules
    /// the bindings that name it (--scheduler-name) and writes them there. Karmada's controllers do
    /// the rest
    #[arg(long, env = "BALLAST_ATTACH", value_name = "FILE")]
    pub attach: Option<PathBuf>,

    /// Tell in that Karmada what became of its bindings, as events
    #[arg(long, env = "BALLAST_ATTACH_EVENTS", default_value_t = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    pub attach_events: bool,
}
