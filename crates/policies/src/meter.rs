//! The cost of an evaluation and its bounds. The costs of operations (`functions::cost`) and the
//! bounds are equal to kube-apiserver's. Work that has no cost there, such as a comparison of long
//! lists, is bounded by time.

use std::time::{Duration, Instant};

use super::fault::Fault;

/// The cost limit of one expression, as in kube-apiserver: about a tenth of a second.
pub const EXPRESSION_COST_MAX: u64 = 1_000_000;
/// The cost limit of all expressions of one policy together, for one request and parameter, as in
/// kube-apiserver.
pub const POLICY_COST_MAX: u64 = 10_000_000;
/// The cost limit of all match conditions of a policy together, as in kube-apiserver.
pub const CONDITIONS_COST_MAX: u64 = 2_500_000;
/// The time limit of the expressions of one policy for one request and parameter, whatever their
/// cost. It is twice the time that kube-apiserver's cost limit is meant to represent.
pub const POLICY_TIME_MAX: Duration = Duration::from_secs(2);
/// The number of operations between two readings of the clock.
const CLOCK_EVERY: usize = 512;

/// The cost of an access check, as in kube-apiserver.
pub const ACCESS_CHECK_COST: u64 = 350_000;
/// The cost of creating a list, as in kube-apiserver.
pub const LIST_COST: u64 = 10;

#[derive(Debug)]
pub struct Meter {
    /// The cost of the running expression.
    pub(super) cost: u64,
    operations: usize,
    deadline: Instant,
}

impl Meter {
    pub fn new() -> Meter {
        Meter { cost: 0, operations: 0, deadline: Instant::now() + POLICY_TIME_MAX }
    }

    pub fn charge(&mut self, cost: u64) -> Result<(), Fault> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > EXPRESSION_COST_MAX {
            return Err(Fault::TooCostly);
        }
        self.work(1)
    }

    /// Counts characters or elements that are read. They add no cost, but the clock is read at
    /// intervals.
    pub fn work(&mut self, amount: usize) -> Result<(), Fault> {
        self.operations = self.operations.saturating_add(1 + amount / 16);
        if self.operations < CLOCK_EVERY {
            return Ok(());
        }
        self.operations = 0;
        if Instant::now() > self.deadline { Err(Fault::TooLate) } else { Ok(()) }
    }
}
