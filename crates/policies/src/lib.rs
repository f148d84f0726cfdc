//! Admission policies: ValidatingAdmissionPolicy and MutatingAdmissionPolicy of
//! `admissionregistration.k8s.io/v1`, with their expressions in CEL (Common Expression Language) as
//! in Kubernetes 1.36. All code here is pure: the crate `host` watches the policies, selects the
//! policies that match a request, and sends access reviews to the host cluster for the authorizer.
//!
//! *Invariants:*
//! - An expression cannot stop the server: its text, depth, cost and time are bounded
//!   (`expression`, `meter`).
//! - An expression that cannot be parsed or evaluated here fails according to the `failurePolicy`
//!   of its policy. It never counts as true.
//! - Objects are borrowed. Evaluating an expression copies only the values that it creates.
//!
//! Deliberately absent: the type check, which the host cluster performs when a policy is created.
//!
//! # Modules
//!
//! - `authorizer`: access queries of expressions
//! - `fault`: the reasons for which an expression has no value
//! - `types`: the types that Kubernetes adds to CEL
//! - `value`: the values of expressions
//! - `meter`: the bounds of cost and time
//! - `macros`: the macros over two variables
//! - `functions`: the functions of CEL and Kubernetes
//! - `expression`: parses expressions
//! - `evaluate`: evaluates expressions
//! - `policy`: policies and bindings
//! - `judge`: the decision of a policy about an object

mod authorizer;
mod evaluate;
mod expression;
mod fault;
mod functions;
mod judge;
mod macros;
mod meter;
mod policy;
mod types;
mod value;

#[cfg(test)]
mod answer_tests;
#[cfg(test)]
mod condition_tests;
#[cfg(test)]
mod tests;

pub use authorizer::{AccessAnswers, AccessCheck, AccessQuestion, Answer};
pub use evaluate::{Evaluation, Inputs, Variable};
pub use expression::Expression;
pub use fault::Fault;
pub use judge::{
    Asks, Judged, Judgement, MutationPatch, Noted, PolicyFailure, ValidationDecision, Verdict, error_type,
};
pub use meter::{CONDITIONS_COST_MAX, POLICY_COST_MAX};
pub use policy::{
    Annotation, MatchConditions, Mutation, ParamKind, ParamRef, PatchKind, Policy, PolicyBinding, PolicyCondition,
    PolicyKind, Validation, ValidationAction,
};
pub use value::Value;
