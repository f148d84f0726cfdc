//! What an evaluation may cost. The costs of operations are about those of kube-apiserver, whose
//! bounds these are.

use std::time::{Duration, Instant};

use super::fault::Fault;

/// What one expression may cost, as in kube-apiserver: about a tenth of a second.
pub const EXPRESSION_COST_MAX: u64 = 1_000_000;
/// What all expressions of one policy may cost together for one request and parameter, as in
/// kube-apiserver.
pub const POLICY_COST_MAX: u64 = 10_000_000;
/// What the match conditions of a policy may cost together, as in kube-apiserver.
pub const CONDITIONS_COST_MAX: u64 = 2_500_000;
/// How long the expressions of one policy may take for one request and parameter, whatever they
/// cost. It is twice the time that kube-apiserver's bound of cost is meant to be.
pub const POLICY_TIME_MAX: Duration = Duration::from_secs(2);
/// After how many operations the clock is read.
const CLOCK_EVERY: u32 = 512;

/// The cost of an access check, as in kube-apiserver.
pub const ACCESS_CHECK_COST: u64 = 350_000;

#[derive(Debug)]
pub struct Meter {
    /// The cost of the running expression.
    pub(super) cost: u64,
    operations: u32,
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
        self.operations += 1;
        if self.operations < CLOCK_EVERY {
            return Ok(());
        }
        self.operations = 0;
        if Instant::now() > self.deadline { Err(Fault::TooLate) } else { Ok(()) }
    }

    /// Charges for reading through this many characters or elements: a tenth each.
    pub fn charge_walk(&mut self, length: usize) -> Result<(), Fault> {
        self.charge((length as u64).div_ceil(10))
    }
}
