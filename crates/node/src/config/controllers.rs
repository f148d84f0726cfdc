//! The set of background loops that run: `--controllers` as in kube-controller-manager, and
//! `--beneath-karmada`, which turns off the loops that duplicate Karmada's controllers (BK3).
//!
//! Three older switches (`FailoverArgs`) turn off a part of a loop, and are still supported. Flags
//! that contradict each other are an error, because neither has precedence.

use std::collections::BTreeSet;
use std::str::FromStr;

use clap::Args;
use serde::Serialize;

use super::FailoverArgs;
use crate::UsageError;
#[cfg(feature = "attach")]
use ballast_attach::Access;
use ballast_rebalance::suggestion::with_suggestion;

/// The background loops that do not run when the server is attached to a Karmada: its controllers
/// do the same work, and its webhooks enforce the quotas.
#[cfg(feature = "attach")]
const NOT_WHEN_ATTACHED: [&str; 9] = [
    "application-failover",
    "cluster-finalizer",
    "cluster-taints",
    "failover",
    "graceful-eviction",
    "own-fields",
    "policy",
    "quota",
    "rebalancer",
];

/// The only loops of a server that is attached read-only.
#[cfg(feature = "attach")]
const ONLY_READING: [&str; 2] = ["census", "events"];

/// The names of all background loops.
pub const CONTROLLERS: [&str; 22] = [
    "application-failover",
    "census",
    "cluster-finalizer",
    "cluster-taints",
    "descheduler",
    "events",
    "failover",
    "fleet-scheduler",
    "graceful-eviction",
    "host-inventory",
    "inventory",
    "member-cluster",
    "own-fields",
    "placement",
    "policy",
    "quota",
    "rebalance",
    "rebalance-schedule",
    "rebalancer",
    "rollout",
    "scheduler",
    "ttl",
];

/// The loops that `*` excludes: they run only if they are named.
const OFF_BY_DEFAULT: [&str; 1] = ["descheduler"];

/// The loops that duplicate Karmada's own controllers.
const KARMADAS: [&str; 6] =
    ["application-failover", "cluster-finalizer", "cluster-taints", "failover", "graceful-eviction", "policy"];

#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ControllersArgs {
    /// Background loops to run: `*` is all of them but descheduler, NAME adds one, -NAME removes
    /// one. They are application-failover, census, cluster-finalizer, cluster-taints, descheduler,
    /// events, failover, fleet-scheduler, graceful-eviction, host-inventory, inventory,
    /// member-cluster, own-fields, placement, policy, quota, rebalance, rebalance-schedule,
    /// rebalancer, rollout, scheduler and ttl
    #[arg(
        long,
        env = "BALLAST_CONTROLLERS",
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true
    )]
    pub controllers: Vec<Item>,

    /// Do not run the loops that duplicate Karmada's own controllers: application-failover,
    /// cluster-finalizer, cluster-taints, failover, graceful-eviction and policy
    #[arg(
        long,
        env = "BALLAST_BENEATH_KARMADA",
        default_value_t = false,
        num_args = 0..=1,
        default_missing_value = "true",
        require_equals = true,
        action = clap::ArgAction::Set
    )]
    pub beneath_karmada: bool,
}

/// An entry of `--controllers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    All,
    On(&'static str),
    Off(&'static str),
}

impl FromStr for Item {
    type Err = String;

    fn from_str(text: &str) -> Result<Item, String> {
        if text == "*" {
            return Ok(Item::All);
        }
        let (name, item): (&str, fn(&'static str) -> Item) = match text.strip_prefix('-') {
            Some(name) => (name, Item::Off),
            None => (text, Item::On),
        };
        let known = CONTROLLERS.into_iter().find(|known| *known == name);
        known.map(item).ok_or_else(|| {
            let what = format!("no background loop has the name {name:?}");
            format!("{}; they are {}", with_suggestion(what, name, CONTROLLERS.into_iter()), CONTROLLERS.join(", "))
        })
    }
}

impl Serialize for Item {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Item::All => serializer.serialize_str("*"),
            Item::On(name) => serializer.serialize_str(name),
            Item::Off(name) => serializer.collect_str(&format_args!("-{name}")),
        }
    }
}

/// The background loops, as the set of disabled ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controllers {
    off: BTreeSet<&'static str>,
}

impl Default for Controllers {
    fn default() -> Controllers {
        Controllers { off: OFF_BY_DEFAULT.into() }
    }
}

impl Controllers {
    /// Returns whether the loop of this name runs.
    pub fn run(&self, name: &str) -> bool {
        !self.off.contains(name)
    }

    /// Returns equivalent entries of `--controllers`.
    fn listed(&self) -> Vec<Item> {
        let off = self.off.iter().filter(|name| !OFF_BY_DEFAULT.contains(name)).map(|name| Item::Off(name));
        let on = OFF_BY_DEFAULT.iter().filter(|name| self.run(name)).map(|name| Item::On(name));
        [Item::All].into_iter().chain(off).chain(on).collect()
    }
}

impl ControllersArgs {
    /// Returns the background loops that these flags select.
    pub fn chosen(&self) -> Result<Controllers, UsageError> {
        let named = |item: fn(&'static str) -> Item| move |name: &&'static str| self.controllers.contains(&item(name));
        let (is_on, is_off) = (named(Item::On), named(Item::Off));
        if let Some(name) = CONTROLLERS.iter().find(|name| is_on(name) && is_off(name)) {
            return Err(UsageError(format!("--controllers names both {name} and -{name}: keep one of them")));
        }
        let all = self.controllers.contains(&Item::All);
        if !all && !CONTROLLERS.iter().any(is_on) {
            let what = "--controllers names nothing that is to run: write *,-NAME for all but NAME";
            return Err(UsageError(what.to_owned()));
        }
        let left = |name: &&'static str| self.beneath_karmada && KARMADAS.contains(name);
        if let Some(name) = CONTROLLERS.iter().find(|name| is_on(name) && left(name)) {
            let what =
                format!("--controllers names {name}, which --beneath-karmada leaves to Karmada: drop one of them");
            return Err(UsageError(what));
        }
        let by_star = |name: &&'static str| all && !OFF_BY_DEFAULT.contains(name);
        let runs = |name: &&'static str| (by_star(name) || is_on(name)) && !is_off(name) && !left(name);
        Ok(Controllers { off: CONTROLLERS.into_iter().filter(|name| !runs(name)).collect() })
    }

    /// Removes the loops that do not run in an attached server.
    ///
    /// # Errors
    ///
    /// Returns an error if `--controllers` names one of them, or with `--beneath-karmada`.
    #[cfg(feature = "attach")]
    pub fn settle_attached(&mut self, access: Access) -> Result<(), UsageError> {
        if self.beneath_karmada {
            let what = "--attach and --beneath-karmada exclude each other: with --attach the objects stay in a Karmada \
                        that runs elsewhere, with --beneath-karmada this server keeps them for Karmada's controllers. \
                        Drop one of them";
            return Err(UsageError(what.to_owned()));
        }
        self.leave(&NOT_WHEN_ATTACHED, "--attach")?;
        if access == Access::ReadOnly {
            self.keep_only(&ONLY_READING)?;
        }
        Ok(())
    }

    /// Removes these loops, which do not run with `flag`. Returns an error if `--controllers` names
    /// one of them.
    #[cfg(feature = "attach")]
    fn leave(&mut self, names: &[&'static str], flag: &str) -> Result<(), UsageError> {
        if let Some(name) = names.iter().find(|name| self.controllers.contains(&Item::On(name))) {
            let what = format!("--controllers names {name}, which does not run with {flag}: drop one of them");
            return Err(UsageError(what));
        }
        let left = names.iter().map(|name| Item::Off(name)).filter(|item| !self.controllers.contains(item));
        let left: Vec<Item> = left.collect();
        self.controllers.extend(left);
        Ok(())
    }

    /// Removes every loop except these.
    #[cfg(feature = "attach")]
    fn keep_only(&mut self, names: &[&'static str]) -> Result<(), UsageError> {
        let chosen = self.chosen()?;
        let off = CONTROLLERS.into_iter().filter(|name| !names.contains(name) || !chosen.run(name));
        self.controllers = [Item::All].into_iter().chain(off.map(Item::Off)).collect();
        Ok(())
    }

    /// Resolves these flags and the older switches. Returns an error if they contradict each other.
    pub(super) fn settle(&mut self, failover: &mut FailoverArgs) -> Result<(), UsageError> {
        let chosen = self.chosen()?;
        for (flag, name, switch) in [
            ("--taint-unready-clusters", "cluster-taints", &mut failover.taint_unready_clusters),
            ("--enable-no-execute-taint-eviction", "failover", &mut failover.enable_no_execute_taint_eviction),
            ("--manage-cluster-finalizer", "cluster-finalizer", &mut failover.manage_cluster_finalizer),
        ] {
            let runs = chosen.run(name);
            match *switch {
                Some(true) if !runs => {
                    let by = if self.beneath_karmada { "--beneath-karmada" } else { "--controllers" };
                    let what = format!("{flag}=true needs {name}, which {by} leaves out: drop one of them");
                    return Err(UsageError(what));
                }
                Some(false) if self.controllers.contains(&Item::On(name)) => {
                    let what = format!("--controllers names {name}, and {flag}=false turns it off: drop one of them");
                    return Err(UsageError(what));
                }
                Some(_) => {}
                None => *switch = Some(runs),
            }
        }
        self.controllers = chosen.listed();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::ServeArgs;
    use super::*;

    fn args(words: &[&str]) -> Result<ServeArgs, String> {
        #[derive(clap::Parser)]
        struct Only {
            #[command(flatten)]
            args: ServeArgs,
        }
        let parsed = <Only as clap::Parser>::try_parse_from([&["ballast"], words].concat());
        parsed.map_err(|error| error.to_string())?.args.settled().map_err(|error| error.to_string())
    }

    /// Returns the names of the disabled loops.
    fn off(words: &[&str]) -> Vec<&'static str> {
        args(words).unwrap().controllers.chosen().unwrap().off.into_iter().collect()
    }

    #[test]
    fn bk3_a_star_is_all_a_name_is_one_and_a_dash_takes_one_out() {
        assert_eq!(off(&[]), OFF_BY_DEFAULT);
        assert_eq!(off(&["--enable-scheduler-estimator", "--controllers=*,descheduler"]), [""; 0]);
        assert_eq!(off(&["--controllers", "*,-policy,-rebalancer"]), ["descheduler", "policy", "rebalancer"]);
        assert_eq!(off(&["--enable-scheduler-estimator", "--controllers=-ttl,*,descheduler"]), ["ttl"]);
        let running = off(&["--controllers=scheduler,rebalancer"]);
        assert_eq!(running.len(), CONTROLLERS.len() - 2);
        assert!(!running.contains(&"scheduler"));
    }

    #[test]
    fn bk3_beneath_karmada_its_controllers_do_what_is_theirs() {
        let settled = args(&["--beneath-karmada"]).unwrap();
        let kept_off: BTreeSet<&str> = KARMADAS.into_iter().chain(OFF_BY_DEFAULT).collect();
        assert_eq!(settled.controllers.chosen().unwrap().off, kept_off);
        let FailoverArgs { taint_unready_clusters, enable_no_execute_taint_eviction, manage_cluster_finalizer, .. } =
            settled.failover;
        let switches = [taint_unready_clusters, enable_no_execute_taint_eviction, manage_cluster_finalizer];
        assert_eq!(switches, [Some(false); 3]);
        let more = off(&["--beneath-karmada", "--controllers=*,-rebalancer", "--taint-unready-clusters=false"]);
        assert_eq!(more.len(), KARMADAS.len() + 1 + OFF_BY_DEFAULT.len());
        assert_eq!(off(&["--beneath-karmada=false"]), OFF_BY_DEFAULT);
    }

    #[test]
    fn bk3_what_is_settled_says_the_same_when_it_is_settled_again() {
        for words in [
            &["--beneath-karmada"][..],
            &["--enable-scheduler-estimator", "--controllers=scheduler,descheduler"],
            &["--taint-unready-clusters=false"],
        ] {
            let once = args(words).unwrap();
            let twice = once.clone().settled().unwrap();
            assert_eq!(format!("{once:?}"), format!("{twice:?}"), "{words:?}");
        }
    }

    #[test]
    fn bk3_an_older_switch_turns_off_its_part_and_the_loop_runs_on() {
        let settled = args(&["--taint-unready-clusters=false"]).unwrap();
        assert_eq!(settled.controllers.chosen().unwrap(), Controllers::default());
        assert_eq!(settled.failover.options().unready, ballast_controllers::Unready::Ignored);
    }

    #[test]
    fn bk3_contradictions_are_told() {
        for (words, told) in [
            (&["--controllers=*,policy,-policy"][..], "names both policy and -policy"),
            (&["--controllers=-policy"], "write *,-NAME"),
            (
                &["--controllers=*,policy", "--beneath-karmada"],
                "names policy, which --beneath-karmada leaves to Karmada",
            ),
            (
                &["--taint-unready-clusters=true", "--beneath-karmada"],
                "--taint-unready-clusters=true needs cluster-taints, which --beneath-karmada leaves out",
            ),
            (
                &["--enable-no-execute-taint-eviction=true", "--controllers=*,-failover"],
                "needs failover, which --controllers leaves out",
            ),
            (
                &["--manage-cluster-finalizer=false", "--controllers=*,cluster-finalizer"],
                "names cluster-finalizer, and --manage-cluster-finalizer=false turns it off",
            ),
            (&["--controllers=*,-polisy"], "the nearest known name is \"policy\""),
            (&["--controllers=everything"], "they are application-failover, census"),
        ] {
            let error = args(words).unwrap_err();
            assert!(error.contains(told), "{words:?}: {error}");
        }
    }

    #[cfg(feature = "attach")]
    #[test]
    fn attached_and_behind_karmada_exclude_each_other() {
        let error = args(&["--attach=kubeconfig", "--beneath-karmada"]).unwrap_err();
        assert!(error.contains("--attach and --beneath-karmada exclude each other"), "{error}");
        assert!(args(&["--attach=kubeconfig", "--beneath-karmada=false"]).is_ok());
    }

    #[test]
    fn bk3_the_help_names_every_loop() {
        #[derive(clap::Parser)]
        struct Only {
            #[command(flatten)]
            _args: ServeArgs,
        }
        let help = <Only as clap::CommandFactory>::command().render_long_help().to_string();
        let words: BTreeSet<&str> = help.split(|c: char| !c.is_alphanumeric() && c != '-').collect();
        for name in CONTROLLERS {
            assert!(words.contains(name), "{name}");
        }
    }
}
