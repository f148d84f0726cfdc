//! Beside a Karmada: `--attach`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

/// Flags about the Karmada that keeps clusters, bindings and policies in place of Ballast.
#[derive(Args, Clone, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct AttachArgs {
    /// Kubeconfig of a Karmada, in which clusters, bindings and policies stay. Ballast schedules
    /// the bindings that name it (--scheduler-name) and writes them there. Karmada's controllers do
    /// the rest. It excludes --beneath-karmada
    #[arg(long, env = "BALLAST_ATTACH", value_name = "FILE")]
    pub attach: Option<PathBuf>,

    /// Post events about the decisions for its bindings to that Karmada
    #[arg(long, env = "BALLAST_ATTACH_EVENTS", default_value_t = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    pub attach_events: bool,
}
