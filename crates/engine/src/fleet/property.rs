//! Properties of clusters, by name: resource figures, and values that clusters report.

use super::fault::Fault;

const RESOURCE_PREFIX: &str = "resources.kubernetes-fleet.io/";

/// The kind of a resource figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Usage {
    Capacity,
    Allocatable,
    Available,
}

/// A property of clusters: a resource figure, or a value that the cluster reports by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterProperty {
    Resource((Usage, Box<str>)),
    Reported(Box<str>),
}

impl ClusterProperty {
    /// Parses the name of a property. Fails if the name of a resource figure is malformed.
    pub fn parse(name: &str) -> Result<ClusterProperty, Fault> {
        let Some(figure) = name.strip_prefix(RESOURCE_PREFIX) else {
            return Ok(ClusterProperty::Reported(name.into()));
        };
        let malformed = || Fault::PropertyName(name.into());
        let (usage, resource) = figure.split_once('-').ok_or_else(malformed)?;
        let usage = match usage {
            "total" => Usage::Capacity,
            "allocatable" => Usage::Allocatable,
            "available" => Usage::Available,
            _ => return Err(malformed()),
        };
        // Upstream splits at every dash, so a resource like ephemeral-storage cannot be named
        // (vector invalid-a-003).
        if resource.contains('-') {
            return Err(malformed());
        }
        Ok(ClusterProperty::Resource((usage, resource.into())))
    }

    /// Returns the name, as accepted by `parse`.
    pub(super) fn name(&self) -> Box<str> {
        match self {
            ClusterProperty::Reported(name) => name.clone(),
            ClusterProperty::Resource((usage, resource)) => {
                let usage = match usage {
                    Usage::Capacity => "total",
                    Usage::Allocatable => "allocatable",
                    Usage::Available => "available",
                };
                format!("{RESOURCE_PREFIX}{usage}-{resource}").into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_figure_says_which_and_of_what() {
        for name in ["total-cpu", "allocatable-cpu", "available-memory"].map(|name| format!("{RESOURCE_PREFIX}{name}"))
        {
            assert_eq!(*ClusterProperty::parse(&name).unwrap().name(), *name);
        }
        for name in ["free-cpu", "cpu", "total-ephemeral-storage"].map(|name| format!("{RESOURCE_PREFIX}{name}")) {
            assert!(ClusterProperty::parse(&name).is_err(), "{name}");
        }
    }
}
