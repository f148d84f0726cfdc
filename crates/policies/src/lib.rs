//! Admission policies: ValidatingAdmissionPolicy and MutatingAdmissionPolicy of
//! `admissionregistration.k8s.io/v1`, with their expressions in CEL (Common Expression Language) as
//! Kubernetes 1.36 has it. Everything here is pure: the room `host` watches the policies, finds
//! those that match a request, and asks the host cluster what the authorizer needs.
//!
//! *Invariants:*
//! - An expression cannot stop the server: its text, its depth, its cost and its time have bounds
//!   (`expression`, `meter`).
//! - An expression that cannot be read or evaluated here fails as its policy's `failurePolicy`
//!   says. It never counts as held.
//! - Objects are borrowed. Evaluating an expression copies what it makes, and nothing else.
//!
//! Deliberately absent: the type check, which the host cluster does when a policy is created.
//!
//! # Modules
//!
//! - `authorizer`: questions about access
//! - `fault`: why an expression has no value
//! - `types`: the types that Kubernetes adds to CEL
//! - `value`: the values of expressions
//! - `meter`: the bounds of cost and time
//! - `macros`: the macros over two variables
//! - `functions`: the functions of CEL and Kubernetes
//! - `expression`: reads an expression
//! - `evaluate`: evaluates one
//! - `policy`: policies and bindings
//! - `judge`: what a policy says about an object

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
