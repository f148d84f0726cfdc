//! The input of a search for clusters that keep all spread constraints together (S4, S5).
//!
//! A *dimension* is one constraint: each site belongs to one group of it, and the number of used
//! groups lies between two bounds. A site keeps replicas that it holds (`own`), and has free
//! capacity (`room`) for more.

/// A cluster that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Site {
    /// The replicas that it holds now. 0 or 1 if replicas are duplicated.
    pub own: i64,
    /// The number of further replicas that fit.
    pub room: i64,
    /// The minimum of its replicas if it is used.
    pub least: i64,
}

/// Bounds on the number of used groups in one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub min: usize,
    pub max: usize,
}

/// The sites, the bounds, and the replicas to assign.
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// In order of preference.
    pub sites: Vec<Site>,
    pub dimensions: Vec<Bounds>,
    /// The group of each site in each dimension, site by site. Groups are numbered from 0.
    pub groups: Vec<u32>,
    /// The number of groups in each dimension.
    pub counts: Vec<usize>,
    /// The replicas to assign. `None` means that each used site gets a copy.
    pub replicas: Option<i64>,
}

impl Question {
    pub fn group(&self, site: usize, dimension: usize) -> usize {
        self.groups[site * self.dimensions.len() + dimension] as usize
    }

    /// Returns the minimum number of groups. If there are fewer replicas than that, one replica in
    /// each group is enough.
    pub fn least(&self, dimension: usize) -> usize {
        self.least_of(dimension, self.replicas)
    }

    /// Returns the minimum number of groups for this number of replicas.
    pub fn least_of(&self, dimension: usize, replicas: Option<i64>) -> usize {
        let min = self.dimensions[dimension].min;
        replicas.map_or(min, |replicas| min.min(usize::try_from(replicas).unwrap_or(0)))
    }

    /// Returns whether some site has a minimum number of replicas. Then it matters which sites are
    /// used.
    pub fn has_least(&self) -> bool {
        self.sites.iter().any(|site| site.least > 1)
    }
}
