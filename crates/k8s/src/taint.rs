//! Taints, which keep workloads off a cluster, and tolerations, which permit them to stay.
//!
//! This module decides whether a taint is tolerated. The relevant effects depend on the caller.

use std::fmt;

/// The effect of a taint on a workload that does not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
    /// Any other text. A taint with this effect repels nothing, and a toleration with it tolerates
    /// no known taint.
    Unknown,
}

impl Effect {
    /// Parses an effect. Any other text is `Unknown`.
    pub fn parse(text: &str) -> Effect {
        match text {
            "NoSchedule" => Effect::NoSchedule,
            "PreferNoSchedule" => Effect::PreferNoSchedule,
            "NoExecute" => Effect::NoExecute,
            _ => Effect::Unknown,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Effect::NoSchedule => "NoSchedule",
            Effect::PreferNoSchedule => "PreferNoSchedule",
            Effect::NoExecute => "NoExecute",
            Effect::Unknown => "Unknown",
        }
    }
}

/// A taint of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Taint {
    pub key: Box<str>,
    pub value: Box<str>,
    pub effect: Effect,
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.key, &*self.value) {
            (key, "") => write!(f, "{key}:{}", self.effect.as_str()),
            (key, value) => write!(f, "{key}={value}:{}", self.effect.as_str()),
        }
    }
}

/// The requirement of a toleration on a taint's value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Match {
    Exists,
    Equal(Box<str>),
    /// An unknown operator. It never tolerates.
    Never,
}

/// A toleration of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Toleration {
    /// Empty for any key.
    pub key: Box<str>,
    pub value: Match,
    /// `None` for any effect.
    pub effect: Option<Effect>,
    /// Duration for which a NoExecute taint is tolerated, in seconds. `None` means for ever.
    pub seconds: Option<i64>,
}

impl Toleration {
    /// Creates a toleration from the fields of an object. Absent fields are empty.
    pub fn from_parts(key: &str, operator: &str, value: &str, effect: &str, seconds: Option<i64>) -> Toleration {
        let value = match operator {
            "" | "Equal" => Match::Equal(value.into()),
            "Exists" => Match::Exists,
            _ => Match::Never,
        };
        let effect = if effect.is_empty() { None } else { Some(Effect::parse(effect)) };
        Toleration { key: key.into(), value, effect, seconds }
    }

    /// Returns whether this toleration tolerates the taint, ignoring `seconds`.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect) {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match &self.value {
            Match::Exists => true,
            Match::Equal(value) => *value == taint.value,
            Match::Never => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(value: &str, effect: Effect) -> Taint {
        Taint { key: "gpu".into(), value: value.into(), effect }
    }

    #[test]
    fn key_value_and_effect_must_fit() {
        let equal = Toleration::from_parts("gpu", "", "yes", "NoSchedule", None);
        assert!(equal.tolerates(&taint("yes", Effect::NoSchedule)));
        assert!(!equal.tolerates(&taint("no", Effect::NoSchedule)));
        assert!(!equal.tolerates(&taint("yes", Effect::NoExecute)));
        assert!(!Toleration::from_parts("cpu", "Exists", "", "", None).tolerates(&taint("", Effect::NoSchedule)));
    }

    #[test]
    fn empty_key_and_effect_fit_any() {
        let all = Toleration::from_parts("", "Exists", "", "", None);
        assert!(all.tolerates(&taint("yes", Effect::NoExecute)));
        let by_value = Toleration::from_parts("", "Equal", "yes", "", None);
        assert!(
            by_value.tolerates(&taint("yes", Effect::NoExecute)) && !by_value.tolerates(&taint("", Effect::NoExecute))
        );
    }

    #[test]
    fn an_unknown_operator_tolerates_nothing() {
        assert!(!Toleration::from_parts("gpu", "Like", "yes", "", None).tolerates(&taint("yes", Effect::NoSchedule)));
    }

    #[test]
    fn it_is_printed_as_kubectl_does() {
        assert_eq!(taint("yes", Effect::NoSchedule).to_string(), "gpu=yes:NoSchedule");
        assert_eq!(taint("", Effect::NoExecute).to_string(), "gpu:NoExecute");
    }
}
