//! What is asked where all spread constraints have to hold together (S4, S5).
//!
//! A *dimension* is one constraint: each site is in one group of it, and the number of groups that
//! are used lies between two bounds. A site keeps replicas that it holds (`own`), and has `room`
//! for more.

/// A cluster that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Site {
    /// What it holds now. Of copies, 0 or 1.
    pub own: i64,
    /// How much more fits.
    pub room: i64,
    /// The least that it has if it is used.
    pub least: i64,
}

/// How many groups of one dimension are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub min: usize,
    pub max: usize,
}

/// What is looked for.
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// In the order of preference.
    pub sites: Vec<Site>,
    pub dimensions: Vec<Bounds>,
    /// The group of each site in each dimension, site by site. Groups are numbered from 0.
    pub groups: Vec<u32>,
    /// How many groups there are in each dimension.
    pub counts: Vec<usize>,
    /// The replicas to place. None: each site that is used gets a copy.
    pub replicas: Option<i64>,
}

impl Question {
    pub fn group(&self, site: usize, dimension: usize) -> usize {
        self.groups[site * self.dimensions.len() + dimension] as usize
    }

    /// The least number of groups. With fewer replicas than groups, each is in a group of its own,
    /// and that is enough.
    pub fn least(&self, dimension: usize) -> usize {
        self.least_of(dimension, self.replicas)
    }

    /// The least number of groups for this number of replicas.
    pub fn least_of(&self, dimension: usize, replicas: Option<i64>) -> usize {
        let min = self.dimensions[dimension].min;
        replicas.map_or(min, |replicas| min.min(usize::try_from(replicas).unwrap_or(0)))
    }

    /// Whether some site has a least number of replicas. Then it matters which sites are used.
    pub fn has_least(&self) -> bool {
        self.sites.iter().any(|site| site.least > 1)
    }
}
